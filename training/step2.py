"""Step 2: train on several devices, the short answer: torchrun --nproc-per-node 2 step2.py"""

import os

import tasks
import torch
import torch.distributed as dist
from step1 import EPOCH, evaluate, options
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler


def train(args, task):
    examples, tests = task.read(args, True), task.read(args, False)
    args.steps = args.epochs * -(-len(examples) // args.batch_size)
    net = task.build(args).to(args.device, args.real)
    model = nn.parallel.DistributedDataParallel(net)
    optimizer = task.optimizer_of(net, args)
    schedule = task.schedule_of(optimizer, args)
    if args.checkpoint and args.checkpoint.exists():
        net.load_state_dict(torch.load(args.checkpoint, args.device))
    order = DistributedSampler(examples, seed=args.seed)
    own = args.batch_size // dist.get_world_size()

    for epoch in range(args.epochs):
        loss = count = 0
        order.set_epoch(epoch)  # else all epochs have the same order
        for batch in DataLoader(examples, own, sampler=order, collate_fn=task.collate):
            batch = task.prepare(tasks.move(batch, args.device), args, True)
            optimizer.zero_grad()
            mean = task.loss_of(task.forward(model, batch), batch) / task.count_of(batch)
            mean.backward()
            optimizer.step()
            schedule.step()
            loss, count = loss + mean.item() * task.count_of(batch), count + task.count_of(batch)
        test_loss, score = evaluate(args, task, net, tests)
        if dist.get_rank() == 0:
            print(EPOCH.format(epoch + 1, loss / count, test_loss, task.SCORE, score))
        if args.checkpoint and dist.get_rank() == 0:
            torch.save(net.state_dict(), args.checkpoint)


def main(doc, options, train):
    args, task = tasks.parse(doc, options)
    args.device = 'cuda' if torch.cuda.is_available() else 'cpu'
    if args.device == 'cuda':
        torch.cuda.set_device(int(os.environ['LOCAL_RANK']))
    dist.init_process_group('nccl' if args.device == 'cuda' else 'gloo')
    train(args, task)
    dist.destroy_process_group()


if __name__ == '__main__':
    main(__doc__, options, train)
