"""A rank's device and process group, and loading data on one rank after another.

``mgpu.ranks`` and ``mgpu.launch`` start ranks from a notebook, ``torchrun`` from the shell. A rank
has its own GPU, or is a process on one CPU core, the stand-in.
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from ..data import OfflineDataWarning
from ..processes import launch as launch

T = TypeVar('T')


def this_device() -> torch.device:
    """Return the device of this process, one of several that were started together.

    Each process gets its own GPU if the machine has enough usable ones. Otherwise all get the CPU,
    and each process, on one core, stands in for a GPU.
    """
    rank, ranks = os.environ.get('LOCAL_RANK', 0), os.environ.get('LOCAL_WORLD_SIZE', 1)
    return device_for(int(rank), int(ranks), usable_gpus())


@functools.cache
def usable_gpus() -> tuple[torch.device, ...]:
    """List the GPUs that this PyTorch supports; warn once about those that are too old."""
    if not torch.cuda.is_available():
        return ()
    archs = [int(arch.split('_')[1].rstrip('af')) for arch in torch.cuda.get_arch_list()]
    oldest = divmod(min(archs), 10)
    gpus = [torch.device('cuda', i) for i in range(torch.cuda.device_count())]
    old = [gpu for gpu in gpus if torch.cuda.get_device_capability(gpu) < oldest]
    if old:
        names = ', '.join(f'{torch.cuda.get_device_name(gpu)} ({gpu})' for gpu in old)
        warnings.warn(
            f'{names}: ignored, because PyTorch {torch.__version__} has machine code for '
            f'compute capability {oldest[0]}.{oldest[1]} and up only. Use the MXNet chapters '
            'for such a GPU.',
            stacklevel=2,
        )
    return tuple(gpu for gpu in gpus if gpu not in old)


@functools.cache
def device_for(rank: int, ranks: int, gpus: tuple[torch.device, ...]) -> torch.device:
    """Choose the device of one of this machine's processes; rank 0 warns if GPUs stay unused."""
    if ranks <= len(gpus):
        return gpus[rank]
    if gpus and rank == 0:
        warnings.warn(
            f'{ranks} processes but only {len(gpus)} usable GPU(s) on this machine: all train on '
            f'the CPU, one core each. To use GPUs, start at most {len(gpus)} processes',
            stacklevel=3,
        )
    return torch.device('cpu')


def check_group() -> None:
    """Raise unless this process belongs to a process group."""
    if not dist.is_initialized():
        raise RuntimeError(
            'this process has no process group: call this under %%px after ranks(2, group=True), '
            'in launch(function, 2), or under torchrun after join_group()'
        )


def join_group(**options: Any) -> None:
    """Join the ranks' process group, NCCL on GPUs or gloo on CPUs, with PyTorch's ``options``."""
    if 'RANK' not in os.environ:
        raise RuntimeError('this process has no rank: start it with torchrun')
    rank, size = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])
    gpu = this_device().type == 'cuda'
    if gpu:
        torch.cuda.set_device(this_device())
    dist.init_process_group('nccl' if gpu else 'gloo', rank=rank, world_size=size, **options)


def load_in_turn(load: Callable[..., T], *args: Any) -> T:
    """Load data on the first rank, then on the others, so that it is downloaded only once."""
    if dist.get_rank() > 0:
        # The first rank has already warned about the data.
        warnings.filterwarnings('ignore', category=OfflineDataWarning)
        dist.barrier()
    loaded = load(*args)
    if dist.get_rank() == 0:
        dist.barrier()
    return loaded
