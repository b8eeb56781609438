"""Train LeNet on Fashion-MNIST on several devices: torchrun --nproc-per-node 2 train_ddp.py

Without torchrun, on one device. Devices are GPUs if each process can have one, else CPUs.
"""

import argparse
import gc
import gzip
import hashlib
import os
import sys
import threading
import time
import zipfile
from contextlib import nullcontext, suppress
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.optim.lr_scheduler import LinearLR
from torch.utils.data import DataLoader, TensorDataset

DATA = Path(os.environ.get('MXNET_HOME') or '~/.mxnet').expanduser() / 'datasets/fashion-mnist'
FREE = 'epochs', 'data', 'checkpoint', 'every', 'timeout', 'digest'  # may change at a restart


def parse():
    parser = argparse.ArgumentParser(description=__doc__, usage='%(prog)s [options]')
    add = parser.add_argument
    add('--epochs', type=int, default=4, help='passes over the data (4)')
    add('--batch-size', type=int, default=256, help='examples in a step, of all ranks (256)')
    add('--lr', type=float, default=0.2, help='learning rate (0.2)')
    add('--momentum', type=float, default=0.0, help='of SGD (0)')
    add('--seed', type=int, default=0, help='of the first weights and of the order (0)')
    add('--limit', type=int, metavar='N', help='train on the first N examples')
    add('--data', type=Path, default=DATA, metavar='DIR', help=f'its four .gz files ({DATA})')
    add('--dtype', default='float32', choices=['float32', 'float64', 'bfloat16'], help='(float32)')
    add('--accumulate', type=int, default=1, metavar='N', help='cut each share in N pieces (1)')
    add('--clip', type=float, metavar='NORM', help='the largest norm of the whole gradient')
    add('--warmup', type=int, default=0, metavar='N', help='steps before the full rate (0)')
    add('--augment', action='store_true', help='mirror every other image, at random')
    add('--checkpoint', type=Path, metavar='DIR', help='go on from what is there, and save there')
    add('--every', type=int, metavar='N', help='save after N steps, not only after each epoch')
    add('--timeout', type=int, default=60, help='seconds that a rank waits for the others (60)')
    add('--digest', action='store_true', help='end with the SHA-256 of the parameters')
    args = parser.parse_args()
    for name, value in vars(args).items():
        number = isinstance(value, int | float) and value != parser.get_default(name)
        if number and not 0 < value < np.inf:
            parser.error(f'argument --{name.replace("_", "-")}: {value} is not above 0')
    if not args.data.is_dir():
        parser.error(f'argument --data: there is no folder {args.data}')
    return args


def read(folder, part, limit=None):
    """Read examples: images (1, 28, 28), as bytes, and labels."""
    files = [folder / f'{part}-{name}-ubyte.gz' for name in ('images-idx3', 'labels-idx1')]
    if missing := [str(file) for file in files if not file.exists()]:
        sys.exit(f'error: there is no file {", and no ".join(missing)}')
    images, labels = (gzip.open(file).read() for file in files)
    images = torch.tensor(np.frombuffer(images, np.uint8, offset=16).reshape(-1, 1, 28, 28))
    labels = torch.tensor(np.frombuffer(labels, np.uint8, offset=8)).long()
    return TensorDataset(images[:limit], labels[:limit])


def loader(examples, batches, gpu):
    own = torch.Generator()  # each pass draws a number, which must not come from the step's
    return DataLoader(examples, sampler=batches, batch_size=None, pin_memory=gpu, generator=own)


def build(seed):
    net = nn.Sequential(
        nn.Conv2d(1, 20, 3), nn.ReLU(), nn.AvgPool2d(2),
        nn.Conv2d(20, 50, 5), nn.ReLU(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip
    rng = np.random.default_rng(seed)  # NumPy's, so that all chapters start from the same weights
    for p in net.parameters():
        W = p.data.t() if p.dim() == 2 else p.data
        W.copy_(torch.from_numpy(rng.normal(0, 0.01, W.shape)) if p.dim() > 1 else torch.zeros(1))
    return net


def meet(kind, limit):
    """Join the process group; return a store that only this start of all ranks uses.

    torchrun keeps one store: after a restart, gloo and NCCL would read in it the addresses at which
    dead ranks listened (PyTorch's issue 135712).
    """
    store, rank, size = dist.HashStore(), 0, 1
    if 'RANK' in os.environ:
        store, rank, size = next(dist.rendezvous('env://', timeout=limit))
    store.set(f'start {rank}', str(time.time_ns()))
    for _ in range(limit.seconds):
        starts = [store.get(f'start {other}').decode() for other in range(size)]
        ours = dist.PrefixStore(' '.join(starts), store)
        ours.set(f'{rank}', 'here')
        with suppress(dist.DistStoreError):  # `starts` had a rank's previous start: read again
            ours.wait([f'{other}' for other in range(size)], timedelta(seconds=1))
            dist.init_process_group(kind, store=ours, rank=rank, world_size=size, timeout=limit)
            return ours.clone()
    sys.exit(f'error: rank {rank} has not met all others within {limit.seconds} s')


def watch(store, limit, done):
    """Count each second that this rank lives; end it when the next one has long not counted."""
    rank, beats, silent = dist.get_rank(), 0, 0
    other = (rank + 1) % dist.get_world_size()
    try:
        while silent < limit and not done.wait(1):
            store.add(f'alive {rank}', 1)
            before, beats = beats, store.add(f'alive {other}', 0)
            silent = silent + 1 if beats == before else 0
        if silent >= limit:
            sys.stderr.write(f'error: rank {other} is stopped, or cut off\n')
    finally:  # also where torchrun, and with it the store, is gone: no rank trains on alone
        done.is_set() or os._exit(1)


def fingerprint(folder):
    """Hash names, lengths and last bytes of all files: those of a .gz are its checksum."""
    sha = hashlib.sha256()
    for path in sorted(p for p in folder.rglob('*') if p.is_file()):
        with open(path, 'rb') as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - 64))
            sha.update(f'{path.relative_to(folder)} {size} '.encode() + file.read())
    return sha.hexdigest()[:16]


def agree(**found):
    """Stop all ranks, in one sentence, if one has found something else than the others."""
    ranks = [None] * dist.get_world_size()
    dist.all_gather_object(ranks, found)
    for name in found:
        values = [theirs[name] for theirs in ranks]
        if values.count(values[0]) < len(values):
            if dist.get_rank() == 0:
                sys.stderr.write(f'error: not the same {name} in all ranks: {values}\n')
            dist.barrier()
            os._exit(1)  # at the interpreter's own end, gloo's threads may abort


def digest(net):
    sha = hashlib.sha256()
    for value in net.state_dict().values():  # as bytes, since NumPy knows no bfloat16
        sha.update(value.cpu().flatten().view(torch.uint8).numpy())
    return sha.hexdigest()


def finite(net, loss, epoch, done):
    """Stop all ranks where the loss or a parameter is no number: what was saved before stays."""
    if not (np.isfinite(loss) and all(p.isfinite().all() for p in net.parameters())):
        if dist.get_rank() == 0:
            sys.stderr.write(f'error: no finite numbers after step {done} of epoch {epoch + 1}\n')
        dist.barrier()
        os._exit(1)


def lock(folder):
    """Keep a second job out of a folder, as long as this process lives."""
    with suppress(ImportError):  # Windows has no fcntl: two jobs there go unnoticed
        import fcntl

        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / 'lock', 'a')
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            sys.exit(f'error: another job saves in {folder}')
        return file


def save(file, state):
    """Write aside, flush, rename: whoever looks finds the old file or the new one, whole."""
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_suffix('.new')
    try:
        aside.unlink(missing_ok=True)  # a killed save's, or somebody's link or pipe
        with open(aside, 'xb') as new:
            torch.save(state, new)
            new.flush()
            os.fsync(new.fileno())
        os.replace(aside, file)
    except (OSError, RuntimeError) as error:  # PyTorch's writer raises the second after the first
        aside.unlink(missing_ok=True)
        sys.exit(f'error: {file} cannot be saved: {error.__context__ or error}')


def load(file, options):
    """Give a checkpoint, and the SHA-256 of its file; nothing and None if there is none."""
    if not file or not os.path.lexists(file):
        return {}, None
    try:
        if not file.is_file() or zipfile.ZipFile(file).testzip():
            raise ValueError(file)
        state = torch.load(file, 'cpu', weights_only=True, mmap=True)  # read when it is copied
        saved, sha = state.get('options'), hashlib.sha256()
        if saved == options and 'net' not in state:
            raise ValueError(file)
        with open(file, 'rb') as whole:
            while piece := whole.read(2**20):
                sha.update(piece)
    except Exception:  # whatever zipfile, pickle and PyTorch raise for bytes not theirs
        sys.exit(f'error: {file} is damaged')
    if saved != options:
        sys.exit(f'error: {file} was saved with other options: {saved}')
    return state, sha.hexdigest()


def step(args, ddp, X, y, n):
    """Add up the gradients of this rank's share of n examples, and of all ranks; give its loss."""
    total = 0
    pieces = zip(X.tensor_split(args.accumulate), y.tensor_split(args.accumulate))
    for i, (X, y) in enumerate(pieces, 1):
        with nullcontext() if i == args.accumulate else ddp.no_sync():
            with torch.autocast(X.device.type, torch.bfloat16, args.dtype == 'bfloat16'):
                loss = nn.functional.cross_entropy(ddp(X), y, reduction='sum')
            (loss * dist.get_world_size() / n).backward()
        total += loss.detach()
    if args.clip:
        nn.utils.clip_grad_norm_(ddp.parameters(), args.clip)
    return total


def evaluate(net, tests, device, real):
    """Each rank classifies a share of the test images, by rank 0's running statistics."""
    mine, right = np.arange(dist.get_rank(), len(tests), dist.get_world_size()), 0
    batches = np.split(mine, range(256, len(mine), 256))  # of 1,000: 2.5 times as long on CPUs
    for buffer in net.buffers():
        dist.broadcast(buffer, 0)
    net.eval()
    with torch.no_grad():
        for X, y in loader(tests, batches, device.type == 'cuda'):
            right += (net(X.to(device, real) / 255).argmax(1) == y.to(device)).sum()
    net.train()
    dist.all_reduce(right)
    return right.item() / len(tests)


def train(args, device):
    rank, size, gpu = dist.get_rank(), dist.get_world_size(), device.type == 'cuda'
    real = torch.float64 if args.dtype == 'float64' else torch.float32
    if rank == 0 and not gpu and (gpus := torch.cuda.device_count()):
        sys.stderr.write(f'warning: more ranks here than GPUs ({gpus}): all compute on CPUs\n')
    options = {'version': 2, 'examples': fingerprint(args.data)}
    options |= {k: v for k, v in vars(args).items() if k not in FREE}
    examples, tests = read(args.data, 'train', args.limit), read(args.data, 't10k')
    file = args.checkpoint and args.checkpoint / 'checkpoint.pt'
    own = lock(args.checkpoint) if file and rank == 0 else None  # noqa: F841  until this returns
    state, sha = load(file, options)
    agree(options=options, checkpoint=sha)

    net = build(args.seed).to(device, real)
    torch.manual_seed(size * args.seed + rank)  # after build: each rank draws numbers of its own
    ddp = nn.parallel.DistributedDataParallel(net)
    # DDP orders its buckets by its first backward pass. That must not be a step: after a restart,
    # three ranks would add up in another order than before, and round otherwise.
    ddp.eval()(examples[0][0][None].to(device, real)).sum().backward()
    ddp.train()
    optimizer = torch.optim.SGD(net.parameters(), args.lr, args.momentum)
    schedule = LinearLR(optimizer, 1 / (args.warmup + 1), total_iters=args.warmup)
    parts = {'net': net, 'optimizer': optimizer, 'schedule': schedule}
    random = torch.cuda if gpu else torch  # whose random numbers are those of the device
    total = torch.zeros(1, dtype=torch.float64, device=device)
    for name in parts if state else ():
        parts[name].load_state_dict(state[name])
    for loss, numbers in state.get('ranks', [])[rank::size]:
        total += loss
        random.set_rng_state(numbers)

    done = state.get('done', 0)
    for epoch in range(state.get('epoch', 0), args.epochs):
        start = time.perf_counter()
        order = np.random.default_rng([args.seed, epoch]).permutation(len(examples))
        steps = np.split(order, range(args.batch_size, len(order), args.batch_size))
        mine = [np.array_split(step, size)[rank] for step in steps[done:]]
        for X, y in loader(examples, mine, gpu):
            done += 1
            X, y = X.to(device, real, non_blocking=True) / 255, y.to(device, non_blocking=True)
            if args.augment:
                X = torch.where(torch.rand(len(X), 1, 1, 1, device=device) < 0.5, X, X.flip(3))
            optimizer.zero_grad()
            total += step(args, ddp, X, y, len(steps[done - 1]))
            optimizer.step()
            schedule.step()
            if file and (done == len(steps) or args.every and done % args.every == 0):
                ranks = [None] * size
                dist.all_gather_object(ranks, (total.item(), random.get_rng_state()))
                finite(net, sum(loss for loss, _ in ranks), epoch, done)
                if rank == 0:
                    state = {name: part.state_dict() for name, part in parts.items()}
                    place = {'options': options, 'ranks': ranks, 'epoch': epoch, 'done': done}
                    save(file, state | place)
        dist.all_reduce(total)
        finite(net, total.item(), epoch, done)
        loss, seconds = total.item() / len(examples), time.perf_counter() - start
        accuracy = evaluate(net, tests, device, real)
        agree(parameters=digest(net))
        if rank == 0:
            line = f'epoch {epoch + 1}, time: {seconds:.2f} sec, train loss: {loss:.6f}, '
            print(line + f'test acc: {accuracy:.4f}', flush=True)
        done, total = 0, torch.zeros_like(total)
    if args.digest and rank == 0:
        print(digest(net), flush=True)


def main():
    args = parse()
    if int(os.environ.get('SLURM_NTASKS', 1)) > 1 and 'RANK' not in os.environ:
        sys.exit('error: Slurm started several lone copies: let it start torchrun, once a machine')
    gpu = torch.cuda.device_count() >= int(os.environ.get('LOCAL_WORLD_SIZE', 1))
    if gpu:
        torch.cuda.set_device(int(os.environ.get('LOCAL_RANK', 0)))
    store = meet('nccl' if gpu else 'gloo', timedelta(seconds=args.timeout))
    done = threading.Event()
    watcher = threading.Thread(target=watch, args=(store, args.timeout / 2, done), daemon=True)
    watcher.start()
    train(args, torch.device('cuda' if gpu else 'cpu'))
    done.set()
    watcher.join()  # if Python ended while it asks the store, the process would abort
    dist.destroy_process_group()
    gc.collect()  # DDP is part of a cycle: it would outlive the group that it uses


if __name__ == '__main__':
    main()
