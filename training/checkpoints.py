"""Checkpoints that all ranks write and read: a folder for each, whole or not there at all.

Inside are the shards of torch.distributed.checkpoint, facts.pt with the rest, and SHA256SUMS. Load
your own only: the file .metadata is a pickle, which can run code.
"""

import hashlib
import os
import shutil
import sys
import warnings
from contextlib import suppress

from ranks import attempt, gathered, stop, tell  # isort: skip  # first: it ends with torchrun

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

NAME, SUMS = 'step-{:05}-{:08}', 'SHA256SUMS'


def save(folder, net, optimizer, facts, group=None, keep=1):
    """Let each rank write its shards of a checkpoint, a folder that gets its name when it is whole.

    ``facts`` are rank 0's: numbers, text and tensors; ``epoch`` and ``done`` name the folder, and
    ``options`` are compared when it is loaded. The last ``keep`` folders stay, and the best.
    """
    name = NAME.format(facts['epoch'], facts['done'])
    new = folder / f'.new-{name}'
    state = dict(zip(('net', 'optimizer'), get_state_dict(net, optimizer), strict=True))
    attempt(group, expect_finite, state['net'], name)
    attempt(group, lambda: (shutil.rmtree(new, ignore_errors=True), new.mkdir(parents=True)), on=0)
    told = f'{new} cannot be written; is the disk full?'
    attempt(group, exiting, told, dcp.save, state, new, group)
    sums = {path.name: sha256(path) for path in new.glob(f'__{dist.get_rank()}_*')}
    attempt(group, finish, new, folder / name, gathered(sums, group), facts, keep, on=0)


def exiting(told, what, state, file, group):
    try:
        what(state, checkpoint_id=file, process_group=group)
    except CheckpointException as error:
        first, _ = next(iter(error.failures.values()))
        sys.exit(f'error: {told} ({first})')


def finish(new, file, sums, facts, keep):
    """Add facts and checksums, flush, then rename: readers see a complete folder or none."""
    torch.save(facts, new / 'facts.pt')
    sums = {name: sha for rank in sums for name, sha in rank.items()}
    sums |= {name: sha256(new / name) for name in ('.metadata', 'facts.pt')}
    (new / SUMS).write_text(lines_of(sums))
    for path in (new / 'facts.pt', new / SUMS, new):
        flush(path)
    shutil.rmtree(file, ignore_errors=True)  # if the run went back to an older one
    os.rename(new, file)
    flush(file.parent)  # the new name must survive a power loss before an old one goes
    best = file.with_name('best')
    spared = best.read_text() if best.exists() else None
    for old in sorted(file.parent.glob('step-*'))[:-keep]:
        if old.name != spared:
            shutil.rmtree(old)


def flush(path):
    number = os.open(path, os.O_RDONLY)
    os.fsync(number)
    os.close(number)


def expect_finite(network, name):
    for key, value in network.items():
        value = value.to_local() if hasattr(value, 'to_local') else value
        if not value.isfinite().all():
            sys.exit(f'error: {name} is not saved: {key} is not finite')


def mark_best(folder, epoch, done):
    """Record in the file `best` which checkpoint is the best, so that it is kept."""
    (folder / 'best.new').write_text(NAME.format(epoch, done))
    os.replace(folder / 'best.new', folder / 'best')


def find(folder, options=None):
    """Return the newest checkpoint's metadata, folder and hash; nothing if there is none.

    Each rank hashes some of the files. If one is not as it was saved, this exits.
    """
    names = sorted(path.name for path in folder.glob('step-*')) if folder else []
    if not names:
        return {}, None, None
    file, facts, rank, size = folder / names[-1], None, dist.get_rank(), dist.get_world_size()
    with suppress(OSError, ValueError):
        text = (file / SUMS).read_bytes()
        sums = dict(line.split('  ')[::-1] for line in text.decode().splitlines())
        there = sorted(path.name for path in file.iterdir() if path.name != SUMS)
        mine = {'facts.pt', *there[rank::size]}
        if lines_of(sums).encode() == text and there == sorted(sums) and '.metadata' in sums:
            if all(sha256(file / name) == sums.get(name) for name in mine):
                facts = torch.load(file / 'facts.pt', 'cpu', weights_only=True)
    if facts is None:
        before = names[-2] if len(names) > 1 else 'nothing'
        sys.exit(f'error: {file} is damaged; without it, {before} is the newest')
    if other := {k: v for k, v in facts.get('options', {}).items() if options.get(k) != v}:
        sys.exit(f'error: {file} was saved with other options: {other}')
    return facts, file, hashlib.sha256(text).hexdigest()


def load(file, net, optimizer, group=None):
    """Load each rank's part of a checkpoint, however many ranks saved it."""
    state = dict(zip(('net', 'optimizer'), get_state_dict(net, optimizer), strict=True))
    told = f'{file} does not fit this network, or this optimizer'
    attempt(group, exiting, told, dcp.load, state, file, group)
    states = {'model_state_dict': state['net'], 'optim_state_dict': state['optimizer']}
    set_state_dict(net, optimizer, **states)
    tell('resumed from {file}', file=str(file))


def random_states(device, group=None):
    """Return the states of each rank's random generators: the CPU's, and its GPU's."""
    gpu = [torch.cuda.get_rng_state()] if device == 'cuda' else []
    return gathered([torch.get_rng_state(), *gpu], group)


def draw_from(states):
    """Draw from this rank's states; a rank that has none there, a new one, keeps its own."""
    for cpu, *gpu in states[dist.get_rank() : dist.get_rank() + 1]:
        torch.set_rng_state(cpu)
        for state in gpu[: torch.cuda.is_available()]:
            torch.cuda.set_rng_state(state)


def same_rate(schedule, rate, step):
    """Stop if the schedule (which may depend on --epochs) would not give this learning rate."""
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # of a schedule that steps before its optimizer
        for _ in range(step):
            schedule.step()
    if (ours := schedule.get_last_lr()) != rate:
        stop(f'at step {step} the learning rate was {rate}; with these --epochs it is {ours}')


def sha256(path):
    if path.is_symlink() or not path.is_file():
        raise OSError(f'{path} is not a file')
    return hashlib.sha256(np.memmap(path, np.uint8, 'r')).hexdigest()


def lines_of(sums):
    """Write hashes like `sha256sum`, whose option `-c` then checks the files."""
    return ''.join(f'{sha}  {name}\n' for name, sha in sorted(sums.items()))
