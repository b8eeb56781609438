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


def free_cores() -> float:
    """Measure how many of these cores nobody uses, while we wait for half a second.

    On a machine that is busy with something else, two stand-ins may be no faster than one (below
    1.2 times with two busy loops on two cores). Where there is no ``/proc/stat``, all are free.
    """
    before = _idle_and_all()
    if not before:
        return usable_cores()
    time.sleep(0.5)
    pairs = [(before[core], now) for core, now in _idle_and_all().items()]
    free = [(idle - idle0) / max(1, total - total0) for (idle0, total0), (idle, total) in pairs]
    return min(sum(free), usable_cores())


def beats(fast: Callable[[], ArrayLike], slow: Callable[[], ArrayLike], by: float = 1.2) -> bool:
    """Tell whether ``fast`` reaches ``by`` times the rate of ``slow``, where cores are free for it.

    Each gives a rate, or several. Both run in turn, at most five times, and the best of each
    counts: other work on a machine comes and goes, and only makes slower. Where in most rounds
    there were no two free cores before and after, nobody can tell, and the answer is yes.
    """
    import numpy as np

    best, busy_rounds = [np.zeros(1)] * 2, 0
    for _ in range(5):
        before = free_cores()
        best = [np.maximum(rate, run()) for rate, run in zip(best, (fast, slow))]
        if np.all(best[0] > by * best[1]):
            return True
        busy_rounds += min(before, free_cores()) <= 1.5
        if busy_rounds > 2:
            return True
    return False


def _idle_and_all() -> dict[str, tuple[int, int]]:
    """Read for each core that we may use how long it was idle, and in all, in ticks."""
    try:
        lines = [line.split() for line in Path('/proc/stat').read_text().splitlines()]
        ours = {f'cpu{number}' for number in os.sched_getaffinity(0)}
    except (OSError, AttributeError):  # not on Linux
        return {}
    times = {name: list(map(int, ticks[:8])) for name, *ticks in lines if name in ours}
    return {name: (ticks[3] + ticks[4], sum(ticks)) for name, ticks in times.items()}
