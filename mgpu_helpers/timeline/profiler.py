"""Run MXNet's profiler any number of times, with a separate file for each recording."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import mxnet as mx
from mxnet import nd, profiler
from mxnet.base import MXNetError

from ..lanes import Span

Record = dict[str, Any]  # an event as the profiler writes it

wall_clock = time.time  # MXNet's profiler has no monotonic clock
LINK = 'WaitForLink'  # the wait on a slow link, noted by slow_network
# The engine's own operators, the set-up of a resource on first use, and our slow links.
NOISE = ('DeleteVariable', 'WaitForVar', 'ResourceParallelRandomSetSeed', LINK)


@contextlib.contextmanager
def profiling(spans: list[Span]) -> Iterator[None]:
    """Profile a block of code; append its operators to ``spans``, by start time, as ``compute``."""
    with tempfile.TemporaryDirectory(prefix='mgpu-') as folder:
        # It writes again when the process ends, after removing the file of that name. So the file
        # must not exist (root would remove /dev/null), and creating it must be impossible.
        nowhere, file = Path(folder, 'no such folder', 'a.json'), Path(folder, 'recording.json')
        nd.waitall()
        began = wall_clock()
        try:
            _configure(file)
            profiler.set_state('run')
            yield
            nd.waitall()
        finally:
            try:
                with contextlib.suppress(MXNetError):  # the first error is the one to report
                    nd.waitall()
            finally:  # an interrupt must not leave it running
                profiler.set_state('stop')
            found = sorted(_operators(_dump(file)), key=lambda span: span.start)
            spans += [span for span in found if span.start >= began]
            _configure(nowhere)


@functools.cache
def known_lanes() -> list[str]:
    """List the devices' lanes in the order in which the profiler numbers them."""
    cores = ctypes.CDLL(None).get_nprocs()  # CPUs up to the cores, GPUs, pinned and shared memory
    gpus = [f'gpu({i})' for i in range(mx.context.num_gpus())]
    cpus = [f'cpu({i})' for i in range(cores if gpus else cores + 2)]
    return [*cpus, *gpus, 'cpu(0)', 'cpu(0)'] if gpus else cpus


def check_known(lane: str) -> None:
    """Raise unless the profiler has a number for this device; without one it ends the process."""
    if lane not in known_lanes():
        known = ', '.join(dict.fromkeys(known_lanes()))
        way = f"MXNet's profiler supports only {known}"
        raise ValueError(f'{lane} cannot be recorded: {way}')


def _configure(path: Path) -> None:
    wanted = dict.fromkeys(('profile_symbolic', 'profile_imperative'), True)
    unwanted = dict.fromkeys(('profile_api', 'profile_memory', 'aggregate_stats'), False)
    # After a final dump() it prints an error, but still works.
    with contextlib.suppress(MXNetError):
        profiler.set_config(filename=str(path), **wanted, **unwanted)


def _dump(path: Path) -> list[Record]:
    """Make the profiler write unfinished JSON, and return its records; none if it never ran."""
    try:
        profiler.dump(False)
    except MXNetError:
        return []
    text = path.read_text().strip()
    inner = text[text.index('[') + 1 :] if text.startswith('{') else text
    return json.loads(f'[{inner.strip(",")}]')


def _operators(records: Iterable[Record]) -> Iterator[Span]:
    """Yield a span for each operator, joined from its two records."""
    begun = {}
    for record in records:
        if record.get('cat') != 'operator' or record['name'] in NOISE:
            continue
        key = record['pid'], record['tid'], record['name']  # a thread does one thing at a time
        if record['ph'] == 'B':
            begun[key] = record['ts'] / 1e6
        elif record['ph'] == 'E' and key in begun:
            lane, end = known_lanes()[record['pid']], record['ts'] / 1e6
            yield Span(lane, 'compute', record['name'], begun.pop(key), end)
