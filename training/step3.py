"""Step 3: what several devices compute is exact: torchrun --nproc-per-node 2 step3.py"""

import os
from contextlib import nullcontext
from itertools import islice
from pathlib import Path

import numpy as np
import tasks
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader

EPOCH = 'epoch {}, train loss: {:.6f}, test loss: {:.6f}, {}: {:.4f}'


def options(add):
    add('--accumulate', type=tasks.some, default=1, metavar='N', help='micro-batches of a shard')
    add('--clip', type=tasks.above_0, metavar='NORM', help='clip the gradient to this norm')
    add('--checkpoint', type=Path, metavar='FILE', help='save there, and go on from what is there')


def deal(args, task, examples, steps, training=False):
    """Give of each step this rank's shard, in micro-batches: the batch and its weight, 1.

    All ranks must do as many passes: one that has no example left takes the first, with weight 0.
    """
    rank, size, cut = dist.get_rank(), dist.get_world_size(), args.accumulate if training else 1
    shards = [np.array_split(np.array_split(step, size)[rank], cut) for step in steps]
    pieces = [piece for shard in shards for piece in shard]
    indices = [piece if len(piece) else [0] for piece in pieces]
    batches = DataLoader(examples, batch_sampler=indices, collate_fn=task.collate)
    batches = zip(pieces, batches)
    for _ in steps:
        yield [
            (task.prepare(tasks.move(batch, args.device), args, training), float(len(piece) > 0))
            for piece, batch in islice(batches, cut)
        ]


def autocast(args):
    return torch.autocast(args.device, torch.bfloat16, args.dtype == 'bfloat16')


def step(args, task, model, optimizer, batches):
    """Make the gradient of the mean loss; give this rank's sum of losses, and the count of all."""
    optimizer.zero_grad()
    loss_sum, count = torch.zeros(2, dtype=torch.float64, device=args.device)
    count += sum(weight * task.count_of(batch) for batch, weight in batches)
    summed = dist.all_reduce(count, async_op=True)  # while the first forward pass computes
    for i, (batch, weight) in enumerate(batches, 1):
        with nullcontext() if i == len(batches) else model.no_sync():
            with autocast(args):
                loss = weight * task.loss_of(task.forward(model, batch), batch)
            summed.wait()
            (loss * (dist.get_world_size() / count)).backward()  # DDP divides by ranks
        loss_sum += loss.detach()
    if args.clip:
        nn.utils.clip_grad_norm_(model.parameters(), args.clip)
    return torch.stack([loss_sum, count])


def evaluate(args, task, net, tests):
    """Give mean loss and score of the tests, over all ranks, by rank 0's running statistics."""
    at_once = max(dist.get_world_size(), args.batch_size // args.accumulate)  # as in training
    steps = np.split(np.arange(len(tests)), range(at_once, len(tests), at_once))
    sums = torch.zeros(3, dtype=torch.float64, device=args.device)
    for buffer in net.buffers():
        dist.broadcast(buffer, 0)
    net.eval()
    with torch.no_grad(), autocast(args):
        for ((batch, weight),) in deal(args, task, tests, steps):
            output = task.forward(net, batch)
            for i, give in enumerate((task.loss_of, task.score_of)):
                sums[i] += weight * give(output, batch)
            sums[2] += weight * task.count_of(batch)
    net.train()
    dist.all_reduce(sums)
    return (sums[:2] / sums[2]).tolist()


def steps_of(args, task, examples, epoch):
    """Give the epoch's steps, those of one device: which examples each takes."""
    order = np.asarray(task.order_of(examples, np.random.default_rng([args.seed, epoch])))
    return np.split(order, range(args.batch_size, len(order), args.batch_size))


def train(args, task):
    examples, tests = task.read(args, True), task.read(args, False)
    args.steps = args.epochs * -(-len(examples) // args.batch_size)
    net = task.build(args).to(args.device, args.real)
    model = nn.parallel.DistributedDataParallel(net)
    optimizer = task.optimizer_of(net, args)
    schedule = task.schedule_of(optimizer, args)
    if args.checkpoint and args.checkpoint.exists():
        net.load_state_dict(torch.load(args.checkpoint))

    for epoch in range(args.epochs):
        sums = torch.zeros(2, dtype=torch.float64, device=args.device)
        steps = steps_of(args, task, examples, epoch)
        for batches in deal(args, task, examples, steps, training=True):
            sums += step(args, task, model, optimizer, batches)
            optimizer.step()
            schedule.step()
        dist.all_reduce(sums[:1])
        loss, count = sums.tolist()
        test_loss, score = evaluate(args, task, net, tests)
        if dist.get_rank() == 0:
            print(EPOCH.format(epoch + 1, loss / count, test_loss, task.SCORE, score))
        if args.checkpoint and dist.get_rank() == 0:
            torch.save(net.state_dict(), args.checkpoint)


def main():
    args, task = tasks.parse(__doc__, options)
    args.device = 'cuda' if torch.cuda.is_available() else 'cpu'
    if args.device == 'cuda':
        torch.cuda.set_device(int(os.environ['LOCAL_RANK']))
    dist.init_process_group('nccl' if args.device == 'cuda' else 'gloo')
    train(args, task)
    dist.destroy_process_group()


if __name__ == '__main__':
    main()
