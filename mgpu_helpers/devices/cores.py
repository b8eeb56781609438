"""How many CPU cores there are for us: one stand-in device is one core, in every framework."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@functools.cache
def usable_cores() -> int:
    """Count the CPU cores that this process may use; affinity and container limits hold."""
    from joblib import cpu_count

    return cpu_count()


def _idle_seconds() -> float:
    """Read for how long the cores that we may use have been idle since the start, added up."""
    ours = {f'cpu{number}' for number in os.sched_getaffinity(0)}
    rows = [line.split() for line in Path('/proc/stat').read_text().splitlines()]
    ticks = sum(int(row[4]) + int(row[5]) for row in rows if row[0] in ours)  # idle, waiting
    return ticks / os.sysconf('SC_CLK_TCK')


def free_cores() -> float:
    """Measure how many of these cores nobody uses, while we wait for half a second.

    On a machine that is busy with something else, two stand-ins may be no faster than one (below
    1.2 times with two busy loops on two cores). Where there is no ``/proc/stat``, all are free.
    """
    try:
        start, idle = time.perf_counter(), _idle_seconds()
    except (OSError, AttributeError):  # not on Linux
        return usable_cores()
    time.sleep(0.5)
    return min((_idle_seconds() - idle) / (time.perf_counter() - start), usable_cores())


def beats(fast: Callable[[], ArrayLike], slow: Callable[[], ArrayLike], by: float = 1.2) -> bool:
    """Tell whether ``fast`` reaches ``by`` times the rate of ``slow``, where cores are free for it.

    Each gives a rate, or several. Both run in turn, at most five times, and the best of each
    counts: other work comes and goes, and only makes slower. Where in three rounds there were no
    two free cores before and after, nobody can tell, and the answer is yes.
    """
    import numpy as np

    best, busy_rounds = [np.zeros(1)] * 2, 0
    for _ in range(5):
        free = free_cores()
        best = [np.maximum(rate, run()) for rate, run in zip(best, (fast, slow))]
        busy_rounds += min(free, free_cores()) <= 1.5
        if np.all(best[0] > by * best[1]) or busy_rounds > 2:
            return True
    return False
