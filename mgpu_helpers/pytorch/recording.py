"""Record each rank's work over time with ``torch.profiler``, in one file per rank."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import torch.distributed as dist
from torch.profiler import profile


@contextlib.contextmanager
def recorded(folder: str | Path) -> Iterator[None]:
    """Profile a block of code; write ``rank-0.json``, ..., for ``timeline.read_traces``."""
    with _quiet():
        profiler = profile()
        profiler.start()
    yield
    with _quiet():
        profiler.stop()
        profiler.export_chrome_trace(str(Path(folder) / f'rank-{dist.get_rank()}.json'))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress what the profiler's C++ code writes to stderr as it starts and stops."""
    kept = os.dup(2)
    with open(os.devnull, 'wb') as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
