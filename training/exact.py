"""What step3.py adds: shards, steps and sums that are exact, however many ranks there are."""

from itertools import islice

import numpy as np
import ranks
import tasks
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader


def options(add):
    add('--num-workers', type=tasks.count, default=0, metavar='N', help='read ahead with N more')
    add('--accumulate', type=tasks.some, default=1, metavar='N', help='micro-batches of a shard')
    add('--clip', type=tasks.above_0, metavar='NORM', help='clip the gradient to this norm')
    add('--drop-last', action='store_true', help='leave out the last step if it is short')


def steps_of(args, task, examples, epoch):
    """Return the epoch's steps, as one device would take them: the examples of each."""
    draw = torch.Generator().manual_seed(args.seed + epoch)  # the same on all ranks
    order = np.asarray(task.order_of(examples, draw))
    steps = np.split(order, range(args.batch_size, len(order), args.batch_size))
    return [step for step in steps if not args.drop_last or len(step) == args.batch_size]


def deal(args, task, examples, steps, epoch=0, training=False):
    """Yield this rank's shard of each step: its micro-batches, each with weight 1.

    All ranks must make equally many passes, so an empty micro-batch is replaced by the first
    example, with weight 0.
    """
    rank, size, cut = dist.get_rank(), dist.get_world_size(), args.accumulate if training else 1
    shards = [np.array_split(step, size)[rank] for step in steps]
    pieces = [piece for shard in shards for piece in np.array_split(shard, cut)]
    batches = zip(pieces, loader_of(args, task, examples, pieces, epoch))
    for _ in steps:
        yield [
            (task.prepare(tasks.move(batch, args.device), args, training), float(len(piece) > 0))
            for piece, batch in islice(batches, cut)
        ]


def loader_of(args, task, examples, pieces, epoch):
    if hasattr(examples, 'epoch'):  # what is random in an example depends on both, and its index
        examples.seed, examples.epoch = args.seed, epoch
    own = np.random.default_rng([args.seed, epoch, dist.get_rank()]).integers(2**62)
    return DataLoader(
        examples, batch_sampler=[piece if len(piece) else [0] for piece in pieces],
        collate_fn=task.collate, num_workers=args.num_workers, pin_memory=args.device == 'cuda',
        generator=torch.Generator().manual_seed(int(own)),  # from it workers draw their seeds
    )  # fmt: skip


def step(args, task, model, optimizer, batches, asked=False):
    """Compute the gradient; return [own losses, count of all, how many are asked to end, norm]."""
    optimizer.zero_grad()
    sums = torch.zeros(3, dtype=torch.float64, device=args.device)
    sums[1] += sum(weight * task.count_of(batch) for batch, weight in batches)
    sums[2] += asked
    summed = dist.all_reduce(sums[1:], async_op=True)  # while the first forward pass computes
    for i, (batch, weight) in enumerate(batches, 1):
        with ranks.no_sync_unless(i == len(batches), model):
            with torch.autocast(args.device, torch.bfloat16, args.dtype == 'bfloat16'):
                loss = weight * task.loss_of(task.forward(model, batch), batch)
            summed.wait()
            (loss * (dist.get_world_size() / sums[1])).backward()  # DDP and FSDP divide by ranks
        sums[0] += loss.detach()
    norm = nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
    if args.clip:
        nn.utils.clip_grads_with_norm_(model.parameters(), args.clip, norm)
    return torch.hstack([sums, ranks.whole(norm)])


def evaluate(args, task, net, tests):
    """Return the tests' mean loss and score, over all ranks, with rank 0's running statistics."""
    at_once = max(dist.get_world_size(), args.batch_size // args.accumulate)  # as in training
    steps = np.split(np.arange(len(tests)), range(at_once, len(tests), at_once))
    sums = torch.zeros(3, dtype=torch.float64, device=args.device)
    for buffer in net.buffers():
        dist.broadcast(buffer, 0)
    net.eval()
    with torch.no_grad(), torch.autocast(args.device, torch.bfloat16, args.dtype == 'bfloat16'):
        for ((batch, weight),) in deal(args, task, tests, steps):
            output = task.forward(net, batch)
            for i, give in enumerate((task.loss_of, task.score_of)):
                sums[i] += weight * give(output, batch)
            sums[2] += weight * task.count_of(batch)
    net.train()
    dist.all_reduce(sums)
    return (sums[:2] / sums[2]).tolist()


def first_pass(args, task, net, model, examples, step, unused=False):
    """Run one forward and backward pass, after which DDP reorders its buckets.

    As part of a step, it would make three ranks add in another order after a restart.
    """
    ((batch, _), *_) = next(deal(args, task, examples, [step], training=True))
    before = [buffer.clone() for buffer in net.buffers()]
    output = task.forward(model, batch)
    loss, score = task.loss_of(output, batch), task.score_of(output, batch)
    for name, value in (('loss_of', loss), ('score_of', score)):
        if shape := [*getattr(value, 'shape', ())]:
            ranks.stop(f'{name} returns a tensor of shape {shape}, not a number: take its .sum()')
    loss.backward()
    for buffer, value in zip(net.buffers(), before, strict=True):
        buffer.copy_(value)
    none = [name for name, p in net.named_parameters() if p.requires_grad and p.grad is None]
    if none and not unused:
        ranks.stop(f'no gradient reaches {none}: freeze them, or use --find-unused')
    net.zero_grad()
