"""The link of the machine at hand, out of measured times, and what it predicts of others."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from .. import arguments
from ..collectives import OURS, count, slices
from ..display import progress
from .links import Link

Name = TypeVar('Name')
SIZES = tuple(4000 * 4**i for i in range(6))  # 4 kB to 4.1 MB, within the caches of most machines


def measure(
    runs: Mapping[Name, Callable[[int], object]],
    sizes: Sequence[int] = SIZES,
    repeats: int = 20,
    seconds: float = 3.0,
) -> dict[Name, list[float]]:
    """Time each of ``runs`` at several sizes, in rounds; give the shortest of each, in seconds.

    ``runs[name](nbytes)`` does it once and waits; what it needs should exist already. No round
    begins after ``seconds``, once three are done. The shortest, because other work only makes times
    longer: in four measurements medians of nine differed by up to 1.96 times, shortest ones by
    1.75. Each timed call follows one that does not count, which fills the caches.
    """
    arguments.counts('sizes', sizes)
    arguments.positive_int('repeats', repeats)
    arguments.positive_number('seconds', seconds)
    best = {name: dict.fromkeys(sizes, float('inf')) for name in runs}
    begin = time.perf_counter()
    with progress(range(repeats), 'measuring', unit='round') as turns:
        for turn in turns:
            if turn >= 3 and time.perf_counter() - begin > seconds:
                break
            for name, run in runs.items():
                for nbytes in sizes:
                    run(nbytes)
                    start = time.perf_counter()
                    run(nbytes)
                    best[name][nbytes] = min(best[name][nbytes], time.perf_counter() - start)
    return {name: list(times.values()) for name, times in best.items()}


def fit_link(nbytes: Sequence[int], seconds: Sequence[float], messages: Sequence[int]) -> Link:
    """Find the link over which so many ``messages`` of ``nbytes``, in turn, take ``seconds``.

    The line with the least sum of squared *relative* errors, so that 4 kB count as much as 4 MB,
    of latency 1 ns at least. It is an error if times do not grow with the size.
    """
    if not len(nbytes) == len(seconds) == len(messages) or len(set(nbytes)) < 3:
        raise ValueError(
            f'{len(nbytes)} sizes, {len(seconds)} times and {len(messages)} numbers of messages: '
            'give three different sizes or more, and one of the others for each'
        )
    for size, time_taken, number in zip(nbytes, seconds, messages):
        arguments.positive_int('a size in bytes', size)
        arguments.positive_number('a time in seconds', time_taken)
        arguments.positive_int('messages', number)
    ones = np.array(messages) / np.array(seconds)
    per_byte = ones * np.array(nbytes)
    shares = np.stack([ones, per_byte], 1)
    alpha, beta = np.linalg.lstsq(shares, np.ones(len(ones)), rcond=None)[0]
    if alpha <= 0:
        alpha, beta = 1e-9, per_byte.sum() / per_byte.dot(per_byte)
    if beta <= 0:
        raise ValueError(
            'the times do not grow with the size, so there is no bandwidth to find: measure '
            'larger sizes, or more repeats'
        )
    return Link('here', float(alpha), float(1 / beta))


class Here(NamedTuple):
    """A link, fitted to one algorithm, and how far off it is with the five others."""

    link: Link
    ports: float  # median of the absolute errors, as shares, where all pairs talk at once
    bus: float  # the same where messages follow one another


def predict_here(
    arrays: Callable[[int, int], list[Any]], wait: Callable[[], object], seconds: float = 20
) -> Here:
    """Measure all algorithms on two and four devices, fit the butterfly, predict the others.

    ``arrays(k, nbytes)`` makes an array on each of k devices, ``wait()`` waits for them. By a
    bus there are as many latencies as messages, and all their bytes. A message is a copy, then an
    addition or a second copy; in naive and tree the way back is one copy, straight into its place,
    and counts half. The views into which an array is cut send nothing, but cost Python time.
    """
    data = {(k, n): arrays(k, n) for k in (2, 4) for n in SIZES}

    def run(k: int, algorithm: Callable[[list[Any]], None]) -> Callable[[int], object]:
        def once(nbytes: int) -> None:
            algorithm(data[k, nbytes])
            wait()

        return once

    runs = {(name, k): run(k, f) for k in (2, 4) for name, f in OURS.items()}
    runs['views', 4] = lambda nbytes: slices(data[4, nbytes][0], 4)  # makes five
    times = measure(runs, SIZES, repeats=60, seconds=seconds)
    view = min(times.pop(('views', 4))) / 5
    fitted = times.pop(('butterfly', 2)) + times.pop(('butterfly', 4))
    messages = [2] * len(SIZES) + [8] * len(SIZES)
    link = fit_link(2 * SIZES, fitted, messages)
    errors = []
    for (name, k), measured in times.items():
        for nbytes, took in zip(SIZES, measured):
            counted = count(OURS[name], k, nbytes // 4)
            bus = counted.messages * link.latency + counted.matrix().sum() / link.bandwidth
            bus = bus * (0.75 if name in ('naive', 'tree') else 1) + counted.views * view
            errors.append((counted.seconds(link) / took - 1, bus / took - 1))
    return Here(link, *map(float, np.median(np.abs(errors), axis=0)))
