"""Train a network on several devices: torchrun --nproc-per-node 2 train_ddp.py

Without torchrun, on one device. Devices are GPUs if each process can have one, else CPUs.
"""

import argparse
import gzip
import math
import os
import sys
import time
from contextlib import nullcontext
from datetime import timedelta
from itertools import islice
from pathlib import Path

import numpy as np
import ranks
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.flop_counter import FlopCounterMode

# The task: LeNet on Fashion-MNIST. For another one change this part, down to the next such line.
# (MXNET_HOME: where the course's other chapters, and MXNet itself, keep the same files.)

DATA = Path(os.environ.get('MXNET_HOME') or '~/.mxnet').expanduser() / 'datasets/fashion-mnist'
PARTS = 'train', 't10k'  # of the data: to train on, to test on
SCORE = 'test acc'  # what score_of adds up
MAY_BE_0 = 'seed', 'momentum', 'decay', 'warmup', 'cosine', 'num_workers'


def options(add):
    add('--data', type=Path, default=DATA, metavar='DIR', help=f'its four .gz files ({DATA})')
    add('--lr', type=float, default=0.2, help='learning rate (0.2)')
    add('--momentum', type=float, default=0.0, help='of SGD (0)')
    add('--adamw', action='store_true', help='instead of SGD')
    add('--decay', type=float, default=0.0, help='of weights, not of biases and norms (0)')
    add('--warmup', type=int, default=0, metavar='N', help='steps before the full rate (0)')
    add('--cosine', type=int, nargs='?', const=0, metavar='N', help='then to 0 in N steps (all)')
    add('--fused', action='store_true', help='update all parameters in one kernel')
    add('--augment', action='store_true', help='mirror every other image, at random')


def read(folder, part, limit=None):
    """Read examples: images (1, 28, 28), as bytes, and labels."""
    files = [folder / f'{part}-{name}-ubyte.gz' for name in ('images-idx3', 'labels-idx1')]
    if missing := [str(file) for file in files if not file.exists()]:
        sys.exit(f'error: there is no file {", and no ".join(missing)}')
    images, labels = (gzip.open(file).read() for file in files)
    images = torch.tensor(np.frombuffer(images, np.uint8, offset=16).reshape(-1, 1, 28, 28))
    labels = torch.tensor(np.frombuffer(labels, np.uint8, offset=8)).long()
    return TensorDataset(images[:limit], labels[:limit])


def loader(examples, batches, **more):
    """Read batches, each a list of indices. What is random depends on .seed, .epoch and index."""
    return DataLoader(examples, sampler=batches, batch_size=None, **more)


def build(args):
    net = nn.Sequential(
        nn.Conv2d(1, 20, 3), nn.ReLU(), nn.AvgPool2d(2),
        nn.Conv2d(20, 50, 5), nn.ReLU(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip
    rng = np.random.default_rng(args.seed)  # NumPy's, so that all chapters start alike
    for p in net.parameters():
        W = p.data.t() if p.dim() == 2 else p.data
        W.copy_(torch.from_numpy(rng.normal(0, 0.01, W.shape)) if p.dim() > 1 else torch.zeros(1))
    return net


def optimizer_of(net, args):
    groups = [
        {'params': [p for p in net.parameters() if p.dim() > 1], 'weight_decay': args.decay},
        {'params': [p for p in net.parameters() if p.dim() < 2], 'weight_decay': 0.0},
    ]
    if args.adamw:
        return torch.optim.AdamW(groups, args.lr, fused=args.fused or None)
    return torch.optim.SGD(groups, args.lr, momentum=args.momentum, fused=args.fused or None)


def schedule_of(optimizer, args):  # args.steps is how many there will be
    fall = args.cosine or max(1, args.steps - args.warmup)

    def share(step):  # of the learning rate
        if step < args.warmup or args.cosine is None:
            return min(1, (step + 1) / (args.warmup + 1))
        return (1 + math.cos(math.pi * min(1, (step - args.warmup) / fall))) / 2

    return torch.optim.lr_scheduler.LambdaLR(optimizer, share)


def prepare(X, y, args, training):
    X, y = X.to(args.device, non_blocking=True), y.to(args.device, non_blocking=True)
    X = X.to(args.real) / 255
    if training and args.augment:
        X = torch.where(torch.rand(len(X), 1, 1, 1, device=X.device) < 0.5, X, X.flip(3))
    return X, y


def count_of(y):
    """Count what the loss is a mean of: examples; of a language model, tokens."""
    return len(y)


def loss_of(output, y):
    return nn.functional.cross_entropy(output, y, reduction='sum')


def score_of(output, y):
    return (output.argmax(1) == y).sum()


# How it is trained, whatever X, y and the network are.

FREE = (  # may change at a restart
    'epochs data checkpoint every keep timeout save_timeout digest report log_file num_workers '
    'shard device real peak patience steps'
).split()
EPOCH = 'epoch {epoch}, time: {time:.2f} sec, train loss: {train_loss:.6f}, '
EPOCH += f'test loss: {{test_loss:.6f}}, {SCORE}: {{score:.4f}}'


def parse():
    parser = argparse.ArgumentParser(description=__doc__, usage='%(prog)s [options]')
    add = parser.add_argument
    options(add)
    add('--epochs', type=int, default=4, help='passes over the data (4)')
    add('--batch-size', type=int, default=256, help='examples in a step, of all ranks (256)')
    add('--seed', type=int, default=0, help='of the first weights and of the order (0)')
    add('--limit', type=int, metavar='N', help='train on the first N examples')
    add('--num-workers', type=int, default=0, metavar='N', help='reading processes of a rank (0)')
    add('--dtype', default='float32', choices=['float32', 'float64', 'bfloat16'], help='(float32)')
    add('--accumulate', type=int, default=1, metavar='N', help='micro-batches of a share (1)')
    add('--clip', type=float, metavar='NORM', help='the largest norm of the whole gradient')
    add('--shard', action='store_true', help='FSDP: each rank holds a part of the network')
    add('--compile', nargs='?', const='inductor', metavar='BACKEND', help='by torch.compile')
    add('--patience', type=int, metavar='K', help='end after K epochs without a lower test loss')
    add('--device', default='auto', choices=['auto', 'cpu', 'cuda'], help='(auto)')
    add('--report', type=int, metavar='N', help='print a line every N steps')
    add('--peak', type=float, metavar='FLOPS', help='of a device, a second: report the MFU, too')
    add('--log-file', type=Path, metavar='FILE', help='add all that is printed to it, as JSON')
    add('--checkpoint', type=Path, metavar='DIR', help='go on from what is there, and save there')
    add('--every', type=int, metavar='N', help='save after N steps, not only after each epoch')
    add('--keep', type=int, default=1, metavar='K', help='of the last K checkpoints each (1)')
    add('--timeout', type=int, default=60, help='seconds that a rank waits for the others (60)')
    add('--save-timeout', type=int, default=3600, help='the same while one saves (3600)')
    add('--digest', action='store_true', help='end with the SHA-256 of the parameters')
    args = parser.parse_args()
    for name, value in vars(args).items():
        good = type(value) not in (int, float) or 0 < value < np.inf
        if not good and (value != 0 or name not in MAY_BE_0):
            parser.error(f'argument --{name.replace("_", "-")}: {value} is not above 0')
    if not args.data.is_dir():
        parser.error(f'argument --data: there is no folder {args.data}')
    return args


def deal(args, examples, steps, epoch=0, training=False):
    """Give of each step this rank's share, in micro-batches: X, y and their weight, 1.

    All ranks must do as many passes: one that has no example left takes the first, with weight 0.
    """
    rank, size, cut = dist.get_rank(), dist.get_world_size(), args.accumulate if training else 1
    shares = [np.array_split(np.array_split(step, size)[rank], cut) for step in steps]
    pieces = [piece for share in shares for piece in share]
    examples.epoch = epoch
    own = np.random.default_rng([args.seed, epoch, rank]).integers(2**62)  # seeds the workers
    batches = loader(
        examples, [piece if len(piece) else [0] for piece in pieces],
        num_workers=args.num_workers, pin_memory=args.device == 'cuda',
        generator=torch.Generator().manual_seed(int(own)),
    )  # fmt: skip
    batches = zip(pieces, batches)
    for _ in steps:
        yield [
            (*prepare(*batch, args, training), float(len(piece) > 0))
            for piece, batch in islice(batches, cut)
        ]


def autocast(args):
    return torch.autocast(args.device, torch.bfloat16, args.dtype == 'bfloat16')


def step(args, model, optimizer, batches):
    """Make the gradient of the mean loss; give the sum of this rank's losses, the count, the norm.

    The count is that of all ranks and micro-batches; the norm is from before clipping.
    """
    optimizer.zero_grad()
    losses = count = torch.zeros((), dtype=torch.float64, device=args.device)
    count = count + sum(weight * count_of(y) for _, y, weight in batches)
    counted = dist.all_reduce(count, async_op=True)  # while the first forward pass computes
    for i, (X, y, weight) in enumerate(batches, 1):
        if args.shard:
            model.set_requires_gradient_sync(i == len(batches))
        with nullcontext() if args.shard or i == len(batches) else model.no_sync():
            with autocast(args):
                loss = weight * loss_of(model(X), y)
            counted.wait()
            (loss * (dist.get_world_size() / count)).backward()  # DDP and FSDP divide by ranks
        losses = losses + loss.detach()
    norm = nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
    if args.clip:
        nn.utils.clip_grads_with_norm_(model.parameters(), args.clip, norm)
    norm = norm.full_tensor() if args.shard else norm
    return torch.stack([losses, count, norm.double()])


def evaluate(args, net, tests):
    """Give mean loss and score of the tests, over all ranks, by rank 0's running statistics."""
    together = 256 * dist.get_world_size()  # 1,000 for each take 2.5 times as long on CPUs
    steps = np.split(np.arange(len(tests)), range(together, len(tests), together))
    sums = torch.zeros(3, dtype=torch.float64, device=args.device)
    for buffer in net.buffers():
        dist.broadcast(buffer, 0)
    net.eval()
    with torch.no_grad(), autocast(args):
        for ((X, y, weight),) in deal(args, tests, steps):
            output = net(X)
            for i, part in enumerate((loss_of(output, y), score_of(output, y), count_of(y))):
                sums[i] += weight * part
    net.train()
    dist.all_reduce(sums)
    return (sums[:2] / sums[2]).tolist()


def train(args):
    rank, size, device = dist.get_rank(), dist.get_world_size(), args.device
    examples, tests = read(args.data, PARTS[0], args.limit), read(args.data, PARTS[1])
    examples.seed = tests.seed = args.seed  # before an example is drawn
    examples.epoch = tests.epoch = 0
    args.steps = args.epochs * math.ceil(len(examples) / args.batch_size)
    some = [d[i] for d in (examples, tests) for i in range(0, len(d), len(d) // 500 + 1)]
    options = {k: v for k, v in vars(args).items() if k not in FREE}
    if vars(args).get('cosine') == 0:  # then the rate depends on it
        options['epochs'] = args.epochs
    parts = ranks.digest(part for example in some for part in example)
    options['data'] = [ranks.fingerprint(args.data), parts]
    slow = dist.new_group(backend='gloo', timeout=timedelta(seconds=args.save_timeout))
    file = args.checkpoint and args.checkpoint / 'checkpoint.pt'
    if file:
        ranks.in_rank_0(slow, ranks.lock, file.parent)
    state, sha = ranks.load(file, options)
    ranks.agree(slow, options=options, checkpoint=sha)

    net = build(args).to(device, args.real)
    torch.manual_seed(size * args.seed + rank)  # after build: each rank draws numbers of its own
    model = ranks.parallel(net, device, args.shard)
    # DDP orders its buckets by its first backward pass. That must not be a step: after a restart,
    # three ranks would add up in another order than before, and round otherwise.
    ((X, y, _),) = next(deal(args, examples, [np.zeros(1, int)]))  # example 0
    with FlopCounterMode(display=False) as counter:
        loss_of(model.eval()(X), y).backward()
    work = counter.get_total_flops() / float(count_of(y))  # for one example, or token
    model.train()
    optimizer = optimizer_of(net, args)
    optimizer.zero_grad()
    if args.compile:
        net.compile(backend=args.compile)  # in place: its parameters keep their names
    schedule = schedule_of(optimizer, args)
    rng = torch.cuda if device == 'cuda' else torch  # whose random numbers are the device's
    if state:
        ranks.spread(net, optimizer, state)
        schedule.load_state_dict(state['schedule'])
        for numbers in state['random'][rank : rank + 1]:
            rng.set_rng_state(numbers)
    first, done, tested = state.get('epoch', 0), state.get('done', 0), state.get('tested', [])
    log, rows = [state.get('total', (0.0, 0.0, 0.0))], []
    del state

    for epoch in range(first, args.epochs):
        begin = last = time.perf_counter()
        order = np.random.default_rng([args.seed, epoch]).permutation(len(examples))
        steps = np.split(order, range(args.batch_size, len(order), args.batch_size))
        for batches in deal(args, examples, steps[done:], epoch, training=True):
            done += 1
            rows.append(step(args, model, optimizer, batches))
            lr = schedule.get_last_lr()[-1]
            optimizer.step()
            schedule.step()
            due = file and (done == len(steps) or args.every and done % args.every == 0)
            if due or done == len(steps) or done % (args.report or 100) == 0:
                log += ranks.settle(rows, epoch, done)
            if args.report and done % args.report == 0:
                now = time.perf_counter()
                ranks.report(args, log[1:][-args.report :], now - last, work, epoch=epoch + 1,
                             step=done, lr=lr)  # fmt: skip
                last = now
            if due:
                numbers = [None] * size
                dist.all_gather_object(numbers, rng.get_rng_state())
                state = ranks.gather(net, optimizer) | {
                    'schedule': schedule.state_dict(), 'random': numbers, 'options': options,
                    'epoch': epoch, 'done': done, 'total': [sum(column) for column in zip(*log)],
                    'tested': tested,
                }  # fmt: skip
                # The others wait, as long as saving may take.
                ranks.in_rank_0(slow, ranks.save, file, state, args.keep)
        loss, count, _ = (sum(column) for column in zip(*log))
        seconds = time.perf_counter() - begin
        test_loss, score = evaluate(args, net, tests)
        if not math.isfinite(test_loss):
            ranks.stop(f'epoch {epoch + 1}: the test loss is {test_loss}')
        ranks.agree(parameters=ranks.digest(net.state_dict().values()))
        ranks.tell(EPOCH, args.log_file, epoch=epoch + 1, time=seconds, train_loss=loss / count,
                   test_loss=test_loss, score=score)  # fmt: skip
        done, log = 0, [(0.0, 0.0, 0.0)]
        tested.append(test_loss)
        if args.patience and len(tested) - tested.index(min(tested)) > args.patience:
            break
    if args.digest:
        ranks.tell('{digest}', args.log_file, digest=ranks.digest(net.state_dict().values()))


def main():
    args = parse()
    args.device = ranks.device_of(args.device)
    args.real = torch.float64 if args.dtype == 'float64' else torch.float32
    with ranks.together(args.device, args.timeout):
        train(args)


if __name__ == '__main__':
    main()
