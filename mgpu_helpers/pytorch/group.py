"""Processes that form a group, one for each device.

``launch`` starts them, from a notebook or a script; ``torchrun`` does from the shell.
"""

from __future__ import annotations

import contextlib
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
from .devices import num_gpus as count_gpus

T = TypeVar('T')


def this_device() -> torch.device:
    """Tell the device of this process, one of those that ``launch`` or ``torchrun`` started.

    Returns
    -------
    torch.device
        ``cuda:i``, i being the process's number on its machine, if the machine has a usable GPU for
        each of them; else ``cpu``: the process, on one core, is the stand-in.

    Examples
    --------
    >>> this_device().type in ('cpu', 'cuda')
    True
    """
    on_this_machine = int(os.environ.get('LOCAL_WORLD_SIZE', 1))
    if count_gpus() >= on_this_machine:
        return torch.device('cuda', int(os.environ.get('LOCAL_RANK', 0)))
    return torch.device('cpu')


@contextlib.contextmanager
def process_group() -> Iterator[None]:
    """Join the other processes of this run, for the length of a ``with`` block.

    Rank and world size stand in the environment, where ``launch`` and ``torchrun`` put them;
    collectives use NCCL between GPUs and gloo between CPUs.

    Raises
    ------
    RuntimeError
        If this process was started by neither.

    Examples
    --------
    >>> with process_group():
    ...     pass
    Traceback (most recent call last):
    RuntimeError: no rank: start this process with launch(...) or torchrun
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
    """Give every rank the first one's seed, a new one if that is ``None``.

    Parameters
    ----------
    seed : int or None

    Returns
    -------
    int

    Examples
    --------
    >>> launch(agree_on, 2, 7)
    [7, 7]
    """
    if seed is None:
        seed = int(np.random.default_rng().integers(2**32))
    agreed = [seed]
    dist.broadcast_object_list(agreed, src=0)
    return agreed[0]


def load_in_turn(load: Callable[..., T], *args: Any) -> T:
    """Load data, the first rank before the others: if they must be fetched, then once.

    Parameters
    ----------
    load : callable
        Such as ``load_data_fashion_mnist``.
    *args
        For ``load``.

    Returns
    -------
    object
        What ``load`` returned in this process.

    Examples
    --------
    >>> from mgpu_helpers.pytorch import load_data_fashion_mnist
    >>> def batches():
    ...     train_iter, test_iter = load_in_turn(load_data_fashion_mnist, 256, 1000)
    ...     return len(train_iter)
    >>> launch(batches, 2)
    [4, 4]
    """
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

    Parameters
    ----------
    function : callable
        Also one that was defined in a notebook: it travels by value. In it, ``torch.distributed``
        is ready, and ``this_device()`` tells the device.
    num_gpus : int
        How many processes: the world size.
    *args, **kwargs
        For the function, the same in every process.
    labels : bool
        Whether lines that the processes print begin with ``[rank i]``.
    timeout : float, optional
        Seconds after which all are stopped.

    Returns
    -------
    list
        What the function returned, in order of rank.

    Raises
    ------
    TypeError, ValueError
        If ``num_gpus`` is not an integer of at least 1, ``timeout`` no number above 0, or if the
        function or something that it uses cannot be sent; no process has been started then.
    ProcessFailed
        If a process raised or died; the others have been stopped. The message has its traceback.
    TimeoutError
        See ``timeout``.

    Notes
    -----
    What ``torchrun`` does on one machine. In addition, no process outlives this one, however it
    ends, and errors and results come back.

    Examples
    --------
    >>> launch(pow, 2, 2, 3)
    [8, 8]
    """
    checks.positive_int('num_gpus', num_gpus)
    if not callable(function):
        raise TypeError(f'function must be something to call, not {checks.shown(function)}')
    if timeout is not None:
        checks.positive_number('timeout', timeout)
    line = Line()

    def on_line(name: str, text: str) -> None:
        line.show('')
        print(f'[{name}] {text}' if labels else text)

    def on_message(name: str, kind: str, value: str) -> None:
        line.show(value)

    with tempfile.TemporaryDirectory(prefix='mgpu-') as folder:
        shared = {
            'WORLD_SIZE': str(num_gpus),
            'LOCAL_WORLD_SIZE': str(num_gpus),
            'MGPU_STORE': os.path.join(folder, 'store'),
        }
        shared |= environment_for_children() | _loopback()
        ranks = [str(rank) for rank in range(num_gpus)]
        try:
            return run_workers(
                _as_member,
                [((function, args, kwargs), {})] * num_gpus,
                [f'rank {rank}' for rank in ranks],
                [shared | {'RANK': rank, 'LOCAL_RANK': rank} for rank in ranks],
                on_line,
                on_message,
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
