"""Step 3: what several devices compute is exact: torchrun --nproc-per-node 2 step3.py"""

import exact
import step1
import torch
import torch.distributed as dist
from step1 import EPOCH
from step2 import main
from torch import nn


def options(add):
    step1.options(add)
    exact.options(add)


def train(args, task):
    examples, tests = task.read(args, True), task.read(args, False)
    args.steps = args.epochs * len(exact.steps_of(args, task, examples, 0))
    net = task.build(args).to(args.device, args.real)
    model = nn.parallel.DistributedDataParallel(net)
    optimizer = task.optimizer_of(net, args)
    schedule = task.schedule_of(optimizer, args)
    if args.checkpoint and args.checkpoint.exists():
        net.load_state_dict(torch.load(args.checkpoint, args.device))

    for epoch in range(args.epochs):
        log = []
        steps = exact.steps_of(args, task, examples, epoch)
        for batches in exact.deal(args, task, examples, steps, epoch, training=True):
            row = exact.step(args, task, model, optimizer, batches)
            dist.all_reduce(row[:1])
            log.append(row.tolist())
            optimizer.step()
            schedule.step()
        loss, count, *_ = (sum(column) for column in zip(*log))
        test_loss, score = exact.evaluate(args, task, net, tests)
        if dist.get_rank() == 0:
            print(EPOCH.format(epoch + 1, loss / count, test_loss, task.SCORE, score))
        if args.checkpoint and dist.get_rank() == 0:
            torch.save(net.state_dict(), args.checkpoint)


if __name__ == '__main__':
    main(__doc__, options, train)
