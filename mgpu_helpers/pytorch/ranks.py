"""A rank among others: its device, its group, what it agrees on with them.

``mgpu.ranks`` and ``mgpu.launch`` start ranks, from a notebook; ``torchrun`` does from the shell.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import secrets
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from ..data import OfflineDataWarning
from ..processes import launch as launch
from .stand_ins import usable_gpus

T = TypeVar('T')


def this_device() -> torch.device:
    """Tell the device of this process, one of those that were started together.

    A GPU of its own if the machine has a usable one for each of them; else the CPU: the process, on
    one core, is the stand-in.
    """
    rank, ranks = os.environ.get('LOCAL_RANK', 0), os.environ.get('LOCAL_WORLD_SIZE', 1)
    return device_for(int(rank), int(ranks), usable_gpus())


@functools.cache
def device_for(rank: int, ranks: int, gpus: tuple[torch.device, ...]) -> torch.device:
    """Choose the device of one of a machine's processes; the first one says if GPUs lie idle."""
    if ranks <= len(gpus):
        return gpus[rank]
    if gpus and rank == 0:
        warnings.warn(
            f'{ranks} processes on this machine, and {len(gpus)} usable GPU(s): all of them train '
            f'on the CPU, a core each, and no GPU is used; start at most {len(gpus)} of them',
            stacklevel=3,
        )
    return torch.device('cpu')


def check_group() -> None:
    """Raise unless this process belongs to a group."""
    if not dist.is_initialized():
        raise RuntimeError(
            'this process belongs to no group: call what uses one under %%px, after ranks(2, '
            'group=True), in launch(function, 2), or inside of process_group(), started by torchrun'
        )


def join_group(**options: Any) -> None:
    """Join the other ranks: NCCL between GPUs, gloo between CPUs; options of the process group."""
    if 'RANK' not in os.environ:
        raise RuntimeError('no rank: start this process with torchrun')
    rank, size = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])
    gpu = this_device().type == 'cuda'
    if gpu:
        torch.cuda.set_device(this_device())
    dist.init_process_group('nccl' if gpu else 'gloo', rank=rank, world_size=size, **options)


@contextlib.contextmanager
def process_group() -> Iterator[None]:
    """Join the other processes of this ``torchrun``, for the length of a ``with`` block."""
    join_group()
    yield
    # Not after an error: the others would hear that this rank is gone before it has said why.
    dist.destroy_process_group()
    # DistributedDataParallel is part of a cycle, so it would live on, hold the group, and leave
    # gloo's threads running at the interpreter's end: 3 of 12 torchruns aborted there, "terminate
    # called without an active exception" (PyTorch 2.13); with this line, 0 of 30.
    gc.collect()


def agree_on(seed: int | None) -> int:
    """Give every rank the first one's seed, a new one if that is ``None``."""
    check_group()
    agreed = [secrets.randbits(32) if seed is None else seed]
    dist.broadcast_object_list(agreed, src=0)
    return agreed[0]


def load_in_turn(load: Callable[..., T], *args: Any) -> T:
    """Load data on the first rank, then on the others: if it must be fetched, then once."""
    if dist.get_rank() > 0:
        # The first rank says what there is to say about the data.
        warnings.filterwarnings('ignore', category=OfflineDataWarning)
        dist.barrier()
    loaded = load(*args)
    if dist.get_rank() == 0:
        dist.barrier()
    return loaded
