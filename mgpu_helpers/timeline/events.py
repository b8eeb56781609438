"""MXNet's profiler, usable any number of times: start, stop, read what it wrote.

By itself it writes one file per process: a second ``dump()`` fails, and ``dump(False)`` leaves the
JSON unfinished. Here every recording has a file of its own, whose part of the JSON array is closed.
"""

from __future__ import annotations

import ctypes
import functools
import json
import tempfile
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import mxnet as mx
from mxnet import nd, profiler
from mxnet.base import MXNetError

if TYPE_CHECKING:
    from pathlib import Path

    Record = dict[str, Any]  # an event as the profiler writes it

LINK = 'WaitForLink'  # a slow link's waiting, which it notes itself
# The engine's own operators, and what some operators set up on first use.
NOISE = ('DeleteVariable', 'WaitForVar', 'ResourceParallelRandomSetSeed', LINK)
MARKER = '_eye'  # an operator that says which thread works for which device


class Event(NamedTuple):
    """An operator that ran: on which device, called what, from when to when (seconds)."""

    lane: str
    name: str
    start: float
    end: float


def wall_clock() -> float:
    """Give the time by the clock of MXNet's records; its profiler knows no steadier one."""
    return time.time()


def lane_of(device_type: str, device_id: int | str) -> str:
    """Name the lane on which a device's work is done; pinned memory is filled by the first CPU."""
    return f'{device_type}({device_id})' if device_type in ('cpu', 'gpu') else 'cpu(0)'


class Profiler:
    """MXNet's profiler for one recording; it writes into ``folder``, an empty one.

    A RuntimeError, if somebody else has switched it on, or it cannot write.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / 'recording.json'
        # It writes once more when the process ends, and first removes what has that name: so the
        # name must be none that exists (/dev/null would be gone, for root) or could be made.
        self._nowhere = folder / 'no such folder' / 'nothing.json'
        before = folder / 'before.json'
        _configure(before)
        began = 1e6 * wall_clock()
        nd.eye(1).wait_to_read()
        records = _dump(before)
        if any(e.get('ts', 0) >= began for e in records):
            _configure(self._nowhere)
            with tempfile.NamedTemporaryFile('w', delete=False) as kept:
                json.dump({'traceEvents': records}, kept)
            raise RuntimeError(
                "MXNet's own profiler is already on. Switch it off, with "
                "mxnet.profiler.set_state('stop'), then record. What it had recorded so far is in "
                f'{kept.name}'
            )

    def start(self) -> None:
        """Start, after all devices have finished earlier work."""
        nd.waitall()
        _configure(self._file)
        profiler.set_state('run')

    def stop(self, devices: Iterable[mx.Context]) -> list[Event]:
        """Stop, and give the operators that ran, by their start.

        ``devices`` are all that may have worked; they must be idle.
        """
        end = 1e6 * wall_clock()
        devices = list(dict.fromkeys([mx.cpu(0), *devices]))
        try:
            for device in devices:  # one after the other, so that their order tells which is which
                nd.eye(1, ctx=device).wait_to_read()
            nd.waitall()
            profiler.set_state('stop')
            records = sorted(_pairs(_dump(self._file)), key=lambda e: e['ts'])
        finally:  # an interrupt may come at any moment, and must not leave it on
            profiler.set_state('stop')
            _configure(self._nowhere)
        markers = [e for e in records if e['ts'] >= end and e['name'] == MARKER]
        # The profiler numbers devices up to the machine's cores; what comes after is taken for
        # other things. Threads are not mixed up.
        threads = {e['tid']: str(device) for e, device in zip(markers, devices)}
        lanes = _places()
        return [
            Event(
                threads.get(e['tid']) or lanes.get(e['pid'], 'cpu(0)'),
                *(e['name'], e['ts'] / 1e6, e['end'] / 1e6),
            )
            for e in records
            if e['ts'] < end
        ]


def unknown(device_type: str, number: int) -> bool:
    """Tell whether MXNet's profiler has no room for this device: cores, GPUs, and two more."""
    return device_type == 'cpu' and number >= len(_places())


def check_known(device_type: str, number: int) -> None:
    """Raise unless MXNet's profiler knows this device; an unknown one ends the process."""
    if unknown(device_type, number):
        room = len(_places())
        raise ValueError(
            f"cpu({number}) cannot be recorded: MXNet's profiler would end this process. On this "
            f'machine it knows cpu(0) to cpu({room - 1}); use at most {room} devices while '
            'recording'
        )
    if device_type == 'gpu' and number >= mx.context.num_gpus():
        raise ValueError(
            f'gpu({number}) cannot be recorded: MXNet finds {mx.context.num_gpus()} GPUs here'
        )


def _configure(path: Path) -> None:
    options = ('profile_symbolic', 'profile_imperative')
    nothing = ('profile_api', 'profile_memory', 'aggregate_stats')
    try:
        profiler.set_config(
            filename=str(path), **dict.fromkeys(options, True), **dict.fromkeys(nothing, False)
        )
    except MXNetError:
        # After a dump() that ended it "for good" it complains, and works all the same. Whether it
        # does is seen when it has written.
        pass


def _dump(path: Path) -> list[Record]:
    """Let the profiler write, and read it: a list of its records; empty if it never ran."""
    try:
        profiler.dump(False)
    except MXNetError:
        return []  # it never ran
    if not path.exists():
        raise RuntimeError(
            f"MXNet's profiler did not write {path.name}: it cannot be used any more in this "
            'process; restart it (in a notebook: the kernel)'
        )
    text = path.read_text().strip()
    inner = text[text.index('[') + 1 :] if text.startswith('{') else text
    return json.loads(f'[{inner.strip(",")}]')


@functools.cache
def _places() -> dict[int, str]:
    """Name the lanes of devices as the profiler numbers them; pinned and shared memory are last."""
    cores = ctypes.CDLL(None).get_nprocs()  # what C++ calls the hardware's concurrency
    numbers = {'cpu': cores, 'gpu': mx.context.num_gpus()}
    names = [lane_of(kind, i) for kind, n in numbers.items() for i in range(n)]
    return dict(enumerate([*names, 'cpu(0)', 'cpu(0)']))


def _pairs(records: Iterable[Record]) -> Iterator[Record]:
    """Yield the records of beginnings, each with its ``end`` (microseconds)."""
    begun = {}
    for e in records:
        if e.get('cat') != 'operator' or e['ph'] not in 'BE' or e['name'] in NOISE:
            continue
        key = e['pid'], e['tid'], e['name']  # a thread does one thing at a time
        if e['ph'] == 'B':
            begun[key] = e
        elif key in begun:
            yield begun.pop(key) | {'end': e['ts']}
