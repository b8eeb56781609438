"""What ranks need beside a training: to meet, watch each other, agree, and share a checkpoint.

train_ddp.py imports it; so can a script of yours. Nothing here knows what is trained.
"""

import gc
import hashlib
import json
import math
import os
import secrets
import sys
import threading
import time
import warnings
from collections import Counter
from contextlib import contextmanager, suppress
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist
from torch import nn


def device_of(wanted):
    """Choose 'cuda' if each process of this machine can have a GPU, else 'cpu'."""
    if int(os.environ.get('SLURM_NTASKS', 1)) > 1 and 'RANK' not in os.environ:
        sys.exit('error: Slurm tells no process its rank: srun one torchrun for each machine')
    gpus, ours = torch.cuda.device_count(), int(os.environ.get('LOCAL_WORLD_SIZE', 1))
    if wanted == 'cuda' and gpus < ours:
        sys.exit(f'error: --device cuda: {ours} processes here, and {gpus} GPUs')
    if wanted == 'auto' and 0 < gpus < ours and os.environ.get('LOCAL_RANK', '0') == '0':
        sys.stderr.write(f'warning: more ranks here than GPUs ({gpus}): all compute on CPUs\n')
    if wanted == 'cpu' or gpus < ours:
        return 'cpu'
    torch.cuda.set_device(int(os.environ.get('LOCAL_RANK', 0)))
    return 'cuda'


@contextmanager
def together(device, limit):
    """Be a group of ranks, watched, in what is done ``with`` it; errors that exit are one line."""
    store = meet('nccl' if device == 'cuda' else 'gloo', timedelta(seconds=limit))
    done = threading.Event()
    watcher = threading.Thread(target=watch, args=(store, limit / 2, done), daemon=True)
    watcher.start()
    try:
        yield
    except SystemExit as error:
        sys.stderr.write(f'{error}\n')
        os._exit(1)  # at the interpreter's own end, gloo's threads may abort
    done.set()
    watcher.join()  # if Python ended while it asks the store, the process would abort
    dist.destroy_process_group()
    gc.collect()  # DDP is part of a cycle: it would outlive the group that it uses


def meet(kind, limit):
    """Join the process group; return a store that only this start of all ranks uses.

    torchrun keeps one store: after a restart, gloo and NCCL would read in it the addresses at which
    dead ranks listened (PyTorch's issue 135712). TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 in torchrun's
    environment lets it open one for each start; without it, 5 restarts were needed for 4 kills.
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
        if not done.is_set():
            os._exit(1)


def stop(why):
    """End all ranks, which all know why, with one sentence."""
    if dist.get_rank() == 0:
        sys.stderr.write(f'error: {why}\n')
    dist.barrier()
    os._exit(1)  # at the interpreter's own end, gloo's threads may abort


def in_rank_0(group, what, *arguments):
    """Let rank 0 do something while the others wait; if it exits, all end with its sentence."""
    error = [None]
    if dist.get_rank() == 0:
        try:
            what(*arguments)
        except SystemExit as end:
            error = [str(end).removeprefix('error: ')]
    dist.broadcast_object_list(error, 0, group)
    if error[0]:
        stop(error[0])


def agree(group=None, **found):
    """Stop all ranks if one has found something else than the others."""
    ranks = [None] * dist.get_world_size()
    dist.all_gather_object(ranks, found, group)
    for name in found:
        values = [theirs[name] for theirs in ranks]
        if values.count(values[0]) < len(values):
            stop(f'not the same {name} in all ranks: {values}')


def settle(rows, epoch, done):
    """Add up the losses of the last steps over ranks; stop all at one that is not finite."""
    table = torch.stack(rows, 1)
    dist.all_reduce(table[0])
    found = list(zip(*table.tolist(), strict=True))
    for i, (loss, _, norm) in enumerate(found, done - len(rows) + 1):
        if not math.isfinite(loss + norm):
            stop(f'epoch {epoch + 1}, step {i}: loss {loss}, norm of the gradient {norm}')
    rows.clear()
    return found


def digest(values):
    """Hash tensors, whole also where each rank has a part, or numbers, one after another."""
    sha = hashlib.sha256()
    for value in values:
        value = value.full_tensor() if hasattr(value, 'full_tensor') else torch.as_tensor(value)
        sha.update(value.cpu().reshape(-1).view(torch.uint8).numpy())
    return sha.hexdigest()


def fingerprint(folder):
    """Hash the names of all files, and of up to 1,000 of them length and end (a .gz's checksum)."""
    sha, files = hashlib.sha256(), sorted(path for path in folder.rglob('*') if path.is_file())
    for i, path in enumerate(files):
        sha.update(f'{path.relative_to(folder)} '.encode())
        if i % (len(files) // 1000 + 1) == 0:
            with open(path, 'rb') as file:
                size = file.seek(0, 2)
                file.seek(max(0, size - 64))
                sha.update(f'{size} '.encode() + file.read())
    return sha.hexdigest()


def tell(line, log_file=None, **found):
    """Let rank 0 print a line, and add what is in it to a file, as JSON."""
    if dist.get_rank() == 0:
        print(line.format(**found), flush=True)
        if log_file:
            with open(log_file, 'a') as file:
                file.write(json.dumps(found) + '\n')


def report(args, rows, seconds, work, **found):
    """Tell what the last steps found, each of ``work`` operations for an example or token."""
    losses, counts, norms = zip(*rows, strict=True)
    rate = sum(counts) / seconds
    found |= {'loss': sum(losses) / sum(counts), 'norm': norms[-1], 'rate': rate}
    found['memory'] = memory(args.device) / 2**20
    line = 'epoch {epoch}, step {step}, loss: {loss:.6f}, lr: {lr:.3g}, norm: {norm:.4g}, '
    line += '{rate:.0f}/s, {memory:.0f} MiB'
    if args.peak:
        found['mfu'] = rate * work / dist.get_world_size() / args.peak
        line += ', mfu: {mfu:.3g}'  # model FLOPs utilization
    tell(line, args.log_file, **found)


def memory(device):
    """Give the most bytes that this process has held: of its GPU, else of the machine."""
    if device == 'cuda':
        return torch.cuda.max_memory_allocated()
    with suppress(ImportError):  # Windows has no resource
        import resource

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == 'darwin' else 1024 * most
    return 0


def lock(folder):
    """Keep other jobs out of the folder while this process lives."""
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(ImportError):  # Windows has no fcntl: two jobs there go unnoticed
        import fcntl

        held = os.open(folder / 'lock', os.O_RDWR | os.O_CREAT)  # and never closed
        try:
            fcntl.lockf(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            sys.exit(f'error: {folder}: another job trains there ({error})')
        except OSError as error:
            sys.stderr.write(f'warning: {folder}: a second job would not be noticed ({error})\n')
    for left in folder.glob('checkpoint.pt.*'):  # by a job that was killed while it saved
        left.unlink()


def save(file, state, keep=1):
    """Write aside, flush, rename: whoever looks finds the old file or the new one, whole.

    The last ``keep`` - 1 before it stay beside it, under the names of their steps.
    """
    if not all(value.isfinite().all() for value in state['net'].values()):
        where = f'epoch {state["epoch"] + 1}, step {state["done"]}'
        sys.exit(f'error: {where}: {file} is not saved: a parameter is not finite')
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f'{file.name}.{secrets.token_hex(8)}')
    try:
        with open(new, 'xb') as out:  # x: never into something that is there, such as a link
            torch.save(state, out)
            out.flush()
            out.write(hashlib.sha256(np.memmap(new, np.uint8, 'r')).digest())
            out.flush()
            os.fsync(out.fileno())
        os.replace(new, file)
        if keep > 1:
            named = file.with_name(f'step-{state["epoch"]:05}-{state["done"]:08}.pt')
            named.unlink(missing_ok=True)
            os.link(file, named)
    except (OSError, RuntimeError) as error:  # PyTorch hides the first in the second
        sys.exit(f'error: {file} is not saved: {error.__context__ or error}')
    finally:
        new.unlink(missing_ok=True)
    if keep > 1:
        for old in sorted(file.parent.glob('step-*.pt'))[:-keep]:
            old.unlink()


def load(file, options):
    """Give a checkpoint, and the SHA-256 of its file; nothing and None if there is none."""
    if not file or not os.path.lexists(file):
        return {}, None
    state = None
    with suppress(Exception):  # whatever NumPy and PyTorch say of it
        if file.is_file() and not file.is_symlink():
            content = np.memmap(file, np.uint8, 'r')
            sha = hashlib.sha256(content[:-32])
            if sha.digest() == content[-32:].tobytes():
                state = torch.load(file, 'cpu', weights_only=True, mmap=True)
    if not isinstance(state, dict) or not {'net', 'optimizer', 'options'} <= state.keys():
        sys.exit(f'error: {file} is damaged')
    if other := {k: v for k, v in state['options'].items() if options.get(k) != v}:
        sys.exit(f'error: {file} was saved with other options: {other}')
    return state, sha.hexdigest()


def parallel(net, device, shard):
    """Give each rank the whole network, or, block by block, a part of each parameter."""
    if not shard:
        return nn.parallel.DistributedDataParallel(net)
    from torch.distributed.fsdp import fully_shard

    warnings.filterwarnings('ignore', 'FSDP2-wrapped .* view')  # nothing writes into an output
    mesh = dist.init_device_mesh(device, (dist.get_world_size(),))
    blocks = [*net.children()]
    for block in blocks:
        if isinstance(block, nn.ModuleList):
            blocks += block
    units = [block for block in blocks if not isinstance(block, nn.ModuleList)]
    holders = Counter(p for unit in units for p in unit.parameters())
    for unit in units:  # whole only while it computes; tied weights: with the network's rest
        if max((holders[p] for p in unit.parameters()), default=0) == 1:
            fully_shard(unit, mesh=mesh)
    return fully_shard(net, mesh=mesh)


def gather(net, optimizer):
    """Bring a network's and an optimizer's state to rank 0, wherever their parts are."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict

    how = StateDictOptions(full_state_dict=True, cpu_offload=True)
    return dict(zip(('net', 'optimizer'), get_state_dict(net, optimizer, options=how), strict=True))


def spread(net, optimizer, state):
    """Put into each rank what it holds of a state that ``gather`` gave."""
    from torch.distributed.checkpoint import state_dict as dcp

    theirs = state['optimizer']  # SGD without momentum keeps no tensors, and then none are spread
    full, kept = (dcp.StateDictOptions(full_state_dict=f) for f in (True, bool(theirs['state'])))
    dcp.set_model_state_dict(net, state['net'], options=full)
    dcp.set_optimizer_state_dict(net, optimizer, theirs, options=kept)
    for moments in optimizer.state.values():  # on CPUs, they may still be parts of the mapped file
        moments |= {k: v.clone() if torch.is_tensor(v) else v for k, v in moments.items()}
