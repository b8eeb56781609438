"""Simulate a slow network between devices that share one memory."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator

from mxnet import Context
from mxnet.base import _LIB, check_call
from mxnet.ndarray import NDArray

from .. import arguments
from ..lanes import PORT, Span
from ..timeline.profiler import LINK, wall_clock
from ..timeline.recording import note

# Messages in flight: number -> source, target, seconds.
_messages: dict[int, tuple[str, str, float]] = {}
_numbers = itertools.count(1)
_ports: dict[str, threading.Lock] = defaultdict(threading.Lock)  # a device receives one at a time


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
def _travel(_: int, number: int) -> None:
    source, target, seconds = _messages.pop(number)
    with _ports[target]:
        start = wall_clock()
        time.sleep(seconds)
        note(Span(f'{source}{PORT}', 'allreduce', f'to {target}', start, wall_clock()))


def _push(message: NDArray, source: Context, seconds: float) -> None:
    """Make an array's readers wait until its message has arrived; devices compute meanwhile."""
    # Each device in MXNet's engine has a thread, so a device that computes nothing serves as the
    # outgoing port. The profiler accepts any number for a device of this type.
    port = (ctypes.c_int * 2)(Context.devstr2type['cpu_shared'], 1000 + source.device_id)
    number = next(_numbers)
    _messages[number] = str(source), str(message.context), seconds
    call = (_travel, ctypes.c_void_p(number), None, port)
    arrays = (None, 0, ctypes.byref(message.handle), 1)  # the arrays that it reads and writes
    check_call(_LIB.MXEnginePushSyncND(*call, *arrays, None, 0, LINK.encode()))


@contextlib.contextmanager
def slow_links(seconds: Callable[[int], float]) -> Iterator[None]:
    """Delay each copy of n bytes between devices by ``seconds(n)``, as over a slow network.

    Devices compute meanwhile; each sends and receives one message at a time. Use it as a context
    manager or a decorator. It is meant for stand-ins, not for MXNet's key-value store.
    """
    arguments.function('seconds', seconds, 'of a number of bytes')
    copyto = NDArray.copyto

    def slowly(self: NDArray, other: NDArray | Context) -> NDArray:
        if self.context == (other.context if isinstance(other, NDArray) else other):
            return copyto(self, other)
        took = seconds(self.size * self.dtype().itemsize)
        arguments.not_negative('seconds(nbytes)', took)
        copy = copyto(self, other)
        _push(copy, self.context, took)
        return copy

    NDArray.copyto = slowly
    try:
        yield
    finally:
        NDArray.copyto = copyto
