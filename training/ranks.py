"""What the ranks of any training need: to meet, to agree, and to end together."""

import ctypes
import faulthandler
import gc
import hashlib
import json
import math
import os
import shutil
import signal
import sys
import time
import warnings
from collections import Counter
from contextlib import contextmanager, nullcontext, suppress
from datetime import timedelta

# Before PyTorch, which takes seconds: torchrun may be killed while it loads.
if sys.platform == 'linux' and 'TORCHELASTIC_RUN_ID' in os.environ:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: end when torchrun does
    if os.getppid() == 1 and 'torch' not in open('/proc/1/cmdline').read():  # 1 may be torchrun
        sys.exit('error: torchrun is gone')
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

LOCAL = int(os.environ.get('LOCAL_RANK', 0))  # the number of this process on its machine


def device_of(wanted):
    """Choose this rank's GPU, or, where there is none, the CPU."""
    if int(os.environ.get('SLURM_NTASKS', 1)) > 1 and 'RANK' not in os.environ:
        sys.exit('error: under Slurm, RANK is not set: srun one torchrun per machine')
    gpus, ours = torch.cuda.device_count(), int(os.environ.get('LOCAL_WORLD_SIZE', 1))
    if wanted == 'cpu' or wanted == 'auto' and not gpus:
        return 'cpu'
    if gpus < ours:
        sys.exit(f'error: {ours} processes but {gpus} GPUs: start fewer, or use --device cpu')
    torch.cuda.set_device(LOCAL)
    return 'cuda'


@contextmanager
def together(device, limit):
    """Join a process group for the body of a ``with`` block; fatal errors print as one line."""
    meet(device, timedelta(seconds=limit))
    if hasattr(faulthandler, 'register'):  # not on Windows: kill -USR1 prints where it is
        faulthandler.register(signal.SIGUSR1, all_threads=False)
    try:
        yield
    except SystemExit as end:
        leave(end.code)
    dist.destroy_process_group()
    gc.collect()  # DDP is part of a cycle: it would outlive the group that it uses


def leave(code):
    """End this process like ``sys.exit(code)``, at once: at Python's own end gloo may abort."""
    if isinstance(code, str):
        sys.stderr.write(f'{code}\n')
    sys.stdout.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def meet(device, limit):
    """Join the process group, by a store that only this start of all ranks uses.

    torchrun keeps one store: after a restart, gloo and NCCL would find addresses of dead ranks in
    it (PyTorch's issue 135712). With TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1, it opens new ones.
    """
    store, rank, size = dist.HashStore(), 0, 1
    if 'RANK' in os.environ:
        store, rank, size = next(dist.rendezvous('env://', timeout=limit))
    lib, gpu = ('nccl', torch.device('cuda', LOCAL)) if device == 'cuda' else ('gloo', None)
    store.set(f'start {rank}', str(time.time_ns()))
    for _ in range(max(1, int(limit.total_seconds()))):
        starts = [store.get(f'start {other}').decode() for other in range(size)]
        own = dist.PrefixStore(' '.join(starts), store)
        own.set(f'{rank}', 'here')
        with suppress(dist.DistStoreError):  # `starts` had a rank's previous start: read again
            own.wait([f'{other}' for other in range(size)], timedelta(seconds=1))
            break
    else:
        sys.exit(f'error: rank {rank} has not met all others within {limit.total_seconds():.0f} s')
    us = {'store': own, 'rank': rank, 'world_size': size}
    dist.init_process_group(lib, timeout=limit, device_id=gpu, **us)


def stop(why):
    """Exit on all ranks with a one-sentence message; every rank must already know the reason."""
    if dist.get_rank() == 0:
        sys.stderr.write(f'error: {why}\n')
    dist.barrier()
    leave(1)


def gathered(found, group=None):
    """Return every rank's result, in rank order."""
    ranks = [None] * dist.get_world_size()
    dist.all_gather_object(ranks, found, group)
    return ranks


def attempt(group, what, *arguments, on=None):
    """Do something on all ranks, or one; if a rank exits or cannot write, all exit saying why."""
    error = answer = None
    if on in (None, dist.get_rank()):
        try:
            answer = what(*arguments)
        except (SystemExit, OSError) as end:
            error = str(end)
    if errors := [error for error in gathered(error, group) if error]:
        stop(errors[0].removeprefix('error: '))
    return answer


def agree(group=None, **found):
    """Stop all ranks if one has found something different from the others."""
    ranks = gathered(found, group)
    for name in found:
        values = [theirs[name] for theirs in ranks]
        if values.count(values[0]) < len(values):
            stop(f'not the same {name} in all ranks: {values}')


def agree_on(net):
    """Take rank 0's buffers (running statistics); stop if replicas have drifted apart."""
    for buffer in net.buffers():
        dist.broadcast(buffer, 0)
    if not any(hasattr(p, 'full_tensor') for p in net.parameters()):  # shards differ
        agree(parameters=digest(net.parameters()))


def settle(rows, epoch, done):
    """Add up the losses of the last steps over ranks; stop all at one that is not finite."""
    table = torch.stack(rows, 1)
    dist.all_reduce(table[0])
    found = list(zip(*table.tolist(), strict=True))
    for i, (loss, *_, norm) in enumerate(found, done - len(rows) + 1):
        if not math.isfinite(loss + norm):
            stop(f'epoch {epoch + 1}, step {i}: loss {loss}, norm of the gradient {norm}')
    rows.clear()
    return found


def whole(value):
    """Return the whole of a tensor, also where each rank has a shard of it."""
    return value.full_tensor() if hasattr(value, 'full_tensor') else value


def no_sync_unless(last, model):
    """Return a context for a step's passes: only the last one sends gradients, by DDP or FSDP."""
    if hasattr(model, 'set_requires_gradient_sync'):  # FSDP
        model.set_requires_gradient_sync(last)
        return nullcontext()
    return nullcontext() if last else model.no_sync()


def digest(values):
    """Hash tensors one after another; one that is sharded over ranks, as a whole."""
    sha = hashlib.sha256()
    for value in values:
        sha.update(whole(value).cpu().reshape(-1).view(torch.uint8).numpy())
    return sha.hexdigest()


def fingerprint(folder, group):
    """Hash a file, or a folder (all names; length and end of 1,000 files), once per machine."""
    files = [folder, *folder.rglob('*')] if folder and LOCAL == 0 else []
    files = sorted(path for path in files if path.is_file())
    sha = hashlib.sha256(repr([path.relative_to(folder) for path in files]).encode())
    for path in files[:: len(files) // 1000 + 1]:
        with open(path, 'rb') as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - 64))  # where a .gz has its checksum
            sha.update(f'{size} '.encode() + file.read())
    found = {sha for sha in gathered(LOCAL == 0 and sha.hexdigest(), group) if sha}
    if len(found) > 1:
        stop(f'{folder} is not the same on all machines')
    return [*found]


def tell(line, log_file=None, **found):
    """Print a line on rank 0; the one place to change if it should also go elsewhere."""
    if dist.get_rank() == 0:
        print(line.format(**found), flush=True)
        if log_file:  # for TensorBoard or Weights & Biases, write here: found is a dict of numbers
            with open(log_file, 'a') as file:
                file.write(json.dumps(found) + '\n')


def lock(folder):
    """Make the folder, and keep other jobs out of it while this process lives."""
    import fcntl  # not on Windows, where a folder cannot be flushed either

    folder.mkdir(parents=True, exist_ok=True)
    held = os.open(folder / 'lock', os.O_RDWR | os.O_CREAT)  # and never closed
    try:
        fcntl.lockf(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError) as error:
        sys.exit(f'error: {folder}: another job trains there ({error})')
    except OSError as error:
        sys.stderr.write(f'warning: {folder}: a second job would not be noticed ({error})\n')
    for left in folder.glob('.new-*'):  # by a job that was killed while it saved
        shutil.rmtree(left)


def on_sigterm():
    """Return a list that stays empty until this process receives SIGTERM."""
    asked = []
    signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
    # Blocked while this process forks, and in the child for good: a DataLoader's worker that is
    # told while it starts would die, and the training with it.
    os.register_at_fork(
        before=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM}),
        after_in_parent=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM}),
    )
    return asked


def parallel(net, device, shard, units, unused=False):
    """Give each rank the whole network (DDP), or, unit by unit, a shard of each tensor (FSDP)."""
    if not shard:
        return torch.nn.parallel.DistributedDataParallel(net, find_unused_parameters=unused)
    warnings.filterwarnings('ignore', 'FSDP2-wrapped .* view')  # nothing writes into an output
    mesh = dist.init_device_mesh(device, (dist.get_world_size(),))
    holders = Counter(p for unit in units for p in unit.parameters())
    for unit in units:  # whole only while it computes; tied weights: with the network's rest
        if max((holders[p] for p in unit.parameters()), default=0) == 1:
            fully_shard(unit, mesh=mesh)
    return fully_shard(net, mesh=mesh)
