"""Processes that form a group, one for each device.

``launch`` starts them, from a notebook or a script; ``torchrun`` does from the shell.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import socket
import tempfile
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist

from .. import checks
from ..data import OfflineDataWarning, environment_for_children
from ..display import Line
from ..processes import run_workers
from .stand_ins import usable_gpus

T = TypeVar('T')


def this_device() -> torch.device:
    """Tell the device of this process, one of those that ``launch`` or ``torchrun`` started.

    A GPU of its own if the machine has a usable one for each of them; else the CPU: the process, on
    one core, is the stand-in.
    """
    environ = os.environ
    rank, ranks = int(environ.get('LOCAL_RANK', 0)), int(environ.get('LOCAL_WORLD_SIZE', 1))
    return device_for(rank, ranks, usable_gpus())


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
            'this process belongs to no group: call what uses one in launch(function, num_gpus), '
            'or inside of process_group(), started by torchrun'
        )


@contextlib.contextmanager
def process_group() -> Iterator[None]:
    """Join the other processes of this run, for the length of a ``with`` block.

    Rank and world size stand in the environment, where ``launch`` and ``torchrun`` put them;
    collectives use NCCL between GPUs and gloo between CPUs.
    """
    if 'RANK' not in os.environ:
        raise RuntimeError('no rank: start this process with launch(...) or torchrun')
    rank, size = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])
    # launch: a file through which the processes find each other, so that no port can be in use.
    # torchrun: the address and the port that it chose, MASTER_ADDR and MASTER_PORT.
    path = os.environ.get('MGPU_STORE')
    store = dist.FileStore(path, size) if path else None
    gpu = this_device().type == 'cuda'
    if gpu:
        torch.cuda.set_device(this_device())
    dist.init_process_group('nccl' if gpu else 'gloo', store=store, rank=rank, world_size=size)
    yield
    # Not after an error: the others would hear that this rank is gone before it has said why.
    dist.destroy_process_group()
    # A DistributedDataParallel is part of a cycle, so it would live on, hold the group, and leave
    # gloo's threads running into the interpreter's end: 3 of 12 torchruns aborted there with
    # "terminate called without an active exception" (PyTorch 2.13); with this line, 0 of 30.
    gc.collect()


def agree_on(seed: int | None) -> int:
    """Give every rank the first one's seed, a new one if that is ``None``."""
    if seed is None:
        seed = int(np.random.default_rng().integers(2**32))
    agreed = [seed]
    dist.broadcast_object_list(agreed, src=0)
    return agreed[0]


def load_in_turn(load: Callable[..., T], *args: Any) -> T:
    """Load data, the first rank before the others: if they must be fetched, then once."""
    if dist.get_rank() > 0:
        # What there is to say about the data, the first rank says.
        warnings.filterwarnings('ignore', category=OfflineDataWarning)
        dist.barrier()
    loaded = load(*args)
    if dist.get_rank() == 0:
        dist.barrier()
    return loaded


def _as_member(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    with process_group():
        return function(*args, **kwargs)


def launch(
    function: Callable[..., Any],
    num_gpus: int,
    *args: Any,
    labels: bool = True,
    timeout: float | None = None,
    **kwargs: Any,
) -> list[Any]:
    """Call a function in ``num_gpus`` new processes, one for each device, joined into a group.

    The function may be a notebook's own; in it ``torch.distributed`` is ready, and every process
    gets the same arguments. Gives what it returned, in order of rank. ``labels``: lines that it
    prints begin with ``[rank i]``. If one fails, or after ``timeout`` seconds, all are stopped:
    ``ProcessFailed``, with its traceback, or ``TimeoutError``. None outlives this process.
    """
    checks.positive_int('num_gpus', num_gpus)
    checks.function('function', function, 'to call in each process')
    if timeout is not None:
        checks.positive_number('timeout', timeout)
    line = Line()

    def on_line(name: str, text: str) -> None:
        line.show('')
        print(f'[{name}] {text}' if labels else text)

    with tempfile.TemporaryDirectory(prefix='mgpu-') as folder:
        sizes = dict.fromkeys(('WORLD_SIZE', 'LOCAL_WORLD_SIZE'), str(num_gpus))
        shared = environment_for_children(folder) | _loopback() | sizes
        shared['MGPU_STORE'] = os.path.join(folder, 'store')
        ranks = [str(rank) for rank in range(num_gpus)]
        try:
            return run_workers(
                _as_member,
                [((function, args, kwargs), {})] * num_gpus,
                [f'rank {rank}' for rank in ranks],
                [shared | {'RANK': rank, 'LOCAL_RANK': rank} for rank in ranks],
                on_line,
                lambda name, kind, value: line.show(value),
                timeout,
            )
        finally:
            line.show('')  # a bar that an error or Ctrl-C has stopped


def _loopback() -> dict[str, str]:
    """Keep gloo inside this machine: it would look up the machine's name, which may be unknown."""
    if 'GLOO_SOCKET_IFNAME' in os.environ or not hasattr(socket, 'if_nameindex'):
        return {}
    names = {name for _, name in socket.if_nameindex()}
    return next(({'GLOO_SOCKET_IFNAME': name} for name in ('lo', 'lo0') if name in names), {})
