"""Processes that form a group, one for each device.

``launch`` starts them, from a notebook or a script; ``torchrun`` does from the shell.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import re
import secrets
import socket
import tempfile
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from .. import arguments
from ..data import OfflineDataWarning
from ..processes import ProcessFailed, run_workers
from .stand_ins import usable_gpus

T = TypeVar('T')


def this_device() -> torch.device:
    """Tell the device of this process, one of those that ``launch`` or ``torchrun`` started.

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
            'this process belongs to no group: call what uses one in launch(function, num_gpus), '
            'or inside of process_group(), started by torchrun'
        )


@contextlib.contextmanager
def process_group() -> Iterator[None]:
    """Join the other processes of this run, for the length of a ``with`` block.

    ``launch`` and ``torchrun`` put rank and world size into the environment. Collectives use NCCL
    between GPUs and gloo between CPUs.
    """
    if 'RANK' not in os.environ:
        raise RuntimeError('no rank: start this process with launch(...) or torchrun')
    rank, size = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])
    # With launch, processes find each other through a file, so that no port can be in use; with
    # torchrun at the address and the port that it chose, MASTER_ADDR and MASTER_PORT.
    path = os.environ.get('MGPU_STORE')
    store = dist.FileStore(path, size) if path else None
    gpu = this_device().type == 'cuda'
    if gpu:
        torch.cuda.set_device(this_device())
    dist.init_process_group('nccl' if gpu else 'gloo', store=store, rank=rank, world_size=size)
    yield
    # Not after an error: the others would hear that this rank is gone before it has said why.
    dist.destroy_process_group()
    # DistributedDataParallel is part of a cycle, so it would live on, hold the group, and leave
    # gloo's threads running at the interpreter's end: 3 of 12 torchruns aborted there, "terminate
    # called without an active exception" (PyTorch 2.13); with this line, 0 of 30.
    gc.collect()


def agree_on(seed: int | None) -> int:
    """Give every rank the first one's seed, a new one if that is ``None``."""
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


def _in_group(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
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

    It may be a notebook's own, and every process gets the same arguments. Gives what it returned,
    in order of rank. With ``labels``, lines that it prints begin with ``[rank i]``. If one fails,
    or after ``timeout`` seconds, all are stopped: ``ProcessFailed``, with its traceback, or
    ``TimeoutError``. None outlives this process.
    """
    arguments.positive_int('num_gpus', num_gpus)
    arguments.function('function', function, 'to call in each process')
    if timeout is not None:
        arguments.positive_number('timeout', timeout)

    def on_line(name: str, text: str) -> None:
        print(f'[{name}] {text}' if labels else text)

    with tempfile.TemporaryDirectory(prefix='mgpu-') as folder:
        store = os.path.join(folder, 'store')
        shared = _loopback() | {'MGPU_STORE': store}
        ranks, size = [str(rank) for rank in range(num_gpus)], str(num_gpus)
        shared |= {'WORLD_SIZE': size, 'LOCAL_WORLD_SIZE': size}
        try:
            return run_workers(
                _in_group,
                [((function, args, kwargs), {})] * num_gpus,
                [f'rank {rank}' for rank in ranks],
                [shared | {'RANK': rank, 'LOCAL_RANK': rank} for rank in ranks],
                on_line,
                timeout=timeout,
            )
        except (ProcessFailed, TimeoutError) as error:
            error.args = (f'{error}{_advice(error)}',)
            raise


def _advice(error: ProcessFailed | TimeoutError) -> str:
    """Say what gloo's words mean where the ranks have not made the same calls."""
    text, others = str(error), getattr(error, 'others', {})
    gone = ' and '.join(name for name, status in others.items() if status == 0)
    lost = re.search('by peer|Broken pipe', text)
    if isinstance(error, ProcessFailed) and lost and gone:
        lines = re.findall(r'File "(?!.*site-packages).*", line \d+, in .*\n +(.*)', text)
        what = f'{error.name} waited in {lines[-1]} for {gone}, whose function had returned'
    elif 'collective mismatch' in text or isinstance(error, TimeoutError):
        what = 'The ranks may have been in different calls'
    else:
        return ''
    return (
        f'\n{what}. Every rank has to make the same collective calls in the same order; with '
        'TORCH_DISTRIBUTED_DEBUG=DETAIL in the environment, PyTorch names those that differ.'
    )


def _loopback() -> dict[str, str]:
    """Keep gloo inside this machine: it would look up the machine's name, which may be unknown."""
    if 'GLOO_SOCKET_IFNAME' in os.environ or not hasattr(socket, 'if_nameindex'):
        return {}
    own = [name for _, name in socket.if_nameindex() if name in ('lo', 'lo0')]
    return {'GLOO_SOCKET_IFNAME': own[0]} if own else {}
