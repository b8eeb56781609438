"""Latency and bandwidth fitted to measured times: the cost model of the machine at hand.

Knows no framework: what is measured is any function that moves so many bytes and waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from .. import checks
from ..display import GREY, LOOK, SOFT, panels, percent, progress, quantity
from .drawings import STYLES, in_units
from .inputs import check_counts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Number = TypeVar('Number', float, np.ndarray)
# 4 kB to 65.5 MB. Not 64 MiB: glibc takes blocks of that size for a thread fresh from the system
# every time, and chapter 1's allreduce then spends 45 ms, not 14, most of it in 16,385 page faults.
SIZES = tuple(4000 * 2**i for i in range(15))
LEAST = 3  # sizes that a straight line needs before its error says anything
COLOURS = [style['color'] for style in STYLES]
LINES = ('--', '-')  # in the caches, in main memory


def measure(
    run: Callable[[int], object],
    sizes: Sequence[int] = SIZES,
    repeats: int = 20,
    seconds: float = 3.0,
    label: str = 'measuring',
) -> list[float]:
    """Time ``run(nbytes)`` at several sizes, in rounds; give the shortest of each, in seconds.

    ``run`` does it once and waits; what it needs should exist already. No round begins after
    ``seconds``, once three are done. The shortest, because other work only makes times longer: in
    four measurements the median of nine differed by up to a factor of 1.96, the shortest by 1.75.
    Each timed call follows one that does not count: after the largest size the caches hold nothing
    of the smallest, which then took four times as long.
    """
    checks.function('run', run, 'of a number of bytes')
    check_counts('sizes', sizes)
    checks.positive_int('repeats', repeats)
    checks.positive_number('seconds', seconds)
    best = dict.fromkeys(sizes, float('inf'))
    begin = time.perf_counter()
    with progress(range(repeats), label, unit='round') as turns:
        for turn in turns:
            if turn >= 3 and time.perf_counter() - begin > seconds:
                break
            for nbytes in sizes:
                run(nbytes)
                start = time.perf_counter()
                run(nbytes)
                best[nbytes] = min(best[nbytes], time.perf_counter() - start)
    return [best[nbytes] for nbytes in sizes]


class StraightLine(NamedTuple):
    """What a message costs in one regime: ``alpha + nbytes / bandwidth`` seconds."""

    alpha: float  # seconds that every call takes, at least 0
    bandwidth: (
        float  # the array's bytes a second: of an allreduce, its algorithm bandwidth; above 0
    )

    def seconds(self, nbytes: Number) -> Number:
        """Give the time for ``nbytes``, a number or an array, in seconds."""
        return self.alpha + nbytes / self.bandwidth


@dataclass(frozen=True, eq=False, repr=False)
class Fit:
    """Two lines through measured times: one for what fits into the caches, one for what does not.

    They meet at ``border``: where the lines cross, if they do between the last size of one and the
    first of the other; else half way between these two (in their logarithms), and there the model
    jumps.
    """

    label: str  # what was measured
    nbytes: np.ndarray  # sizes, ascending
    measured: np.ndarray  # their times, in seconds
    cache: StraightLine  # up to ``border``
    memory: StraightLine  # from there on
    border: float  # bytes

    def seconds(self, nbytes: Number) -> Number:
        """Predict the time for ``nbytes``, a number or an array, in seconds."""
        n = np.asarray(nbytes)
        return np.where(n <= self.border, self.cache.seconds(n), self.memory.seconds(n))[()]

    @property
    def errors(self) -> np.ndarray:
        """Predicted / measured - 1 at each size."""
        return self.seconds(self.nbytes) / self.measured - 1

    @property
    def median_error(self) -> float:
        """Median of the errors' amounts; 0.2 are 20 %."""
        return float(np.median(abs(self.errors)))

    @property
    def worst_error(self) -> float:
        """The largest of the errors' amounts."""
        return float(np.max(abs(self.errors)))

    def __repr__(self) -> str:
        lines = (
            f'{name}: {quantity(line.alpha, "s")} + bytes / {quantity(line.bandwidth, "B/s")}'
            for name, line in (('cache', self.cache), ('memory', self.memory))
        )
        return (
            f'{self.label or "fit"}, {", ".join(lines)}; border {quantity(self.border, "B")}; '
            f'error: median {percent(self.median_error)}, largest {percent(self.worst_error)}'
        )

    def plot(self, *others: Fit) -> Figure:
        """Draw measured times as points, the models of this and other fits as lines, and errors.

        Broken line up to the border, solid line beyond it; the errors lie below.
        """
        for other in others:
            if not isinstance(other, Fit):
                raise TypeError(f'plot compares with fits, not with {checks.shown(other)}')
        return _draw((self, *others))


def fit(nbytes: Iterable[int], seconds: Iterable[float], label: str = '') -> Fit:
    """Fit latency and bandwidth, once for the caches and once for main memory.

    ``nbytes`` are at least six different sizes, ``seconds`` the time of each. Each line is the one
    with the least sum of squared *relative* errors, so that 4 KB count as much as 64 MB, among
    those with alpha at least 0. Each has at least three sizes; the border stands where the sum over
    both is least. It is an error if times do not grow with the size: there is no bandwidth then.
    """
    n, t = _points(nbytes, seconds)
    if len(n) < 2 * LEAST:
        raise ValueError(
            f'{len(n)} different sizes are too few for two lines of at least {LEAST} each: '
            f'measure {2 * LEAST} or more'
        )
    cuts = range(LEAST, len(n) - LEAST + 1)
    pairs = [(_line(n[:i], t[:i]), _line(n[i:], t[i:]), i) for i in cuts]
    found = [(a, b, i) for a, b, i in pairs if a and b]
    if not found:
        raise ValueError(
            'the times do not grow with the size, so there is no bandwidth to find: measure '
            'larger sizes, or more repeats'
        )
    fits = [Fit(label, n, t, a, b, _border(a, b, n[i - 1], n[i])) for a, b, i in found]
    return min(fits, key=lambda f: (f.errors**2).sum())


def _points(nbytes: Iterable[int], seconds: Iterable[float]) -> tuple[np.ndarray, np.ndarray]:
    """Give sizes and times as arrays, ascending by size, or say what is wrong with them."""
    nbytes, seconds = list(nbytes), list(seconds)
    if len(nbytes) != len(seconds):
        raise ValueError(
            f'{len(nbytes)} sizes and {len(seconds)} times: there must be one time for each size'
        )
    for n, t in zip(nbytes, seconds):
        checks.positive_int('a size in bytes', n)
        checks.positive_number('a time in seconds', t)
    if len(set(nbytes)) < len(nbytes):
        raise ValueError('a size stands in the list twice: pass one time for each size')
    order = np.argsort(nbytes)
    return np.array(nbytes)[order], np.array(seconds, dtype=float)[order]


def _line(n: np.ndarray, t: np.ndarray) -> StraightLine | None:
    """Find the line of least squared relative errors with alpha >= 0; None if it does not rise."""
    alpha, beta = np.linalg.lstsq(np.stack([1 / t, n / t], 1), np.ones(len(n)), rcond=None)[0]
    if alpha < 0:
        alpha, beta = 0.0, (n / t).sum() / (n / t).dot(n / t)
    return StraightLine(float(alpha), float(1 / beta)) if beta > 0 else None


def _border(cache: StraightLine, memory: StraightLine, last: float, first: float) -> float:
    """Where one line ends and the other begins, between sizes ``last`` and ``first``."""
    slope = 1 / cache.bandwidth - 1 / memory.bandwidth
    crossing = (memory.alpha - cache.alpha) / slope if slope else 0
    return float(crossing if last <= crossing < first else np.sqrt(last * first))


def _draw(fits: Sequence[Fit]) -> Figure:
    from matplotlib.lines import Line2D

    shape: dict[str, Any] = {'sharex': True, 'height_ratios': [3, 1]}
    figure, (times, errors) = panels(2, height=5.2, **shape)
    for one, colour in zip(fits, COLOURS * len(fits)):
        look: dict[str, Any] = {'color': colour, 'lw': 1.5}
        marks = {'ls': '', 'marker': 'o', 'color': colour}
        times.plot(one.nbytes, one.measured, markersize=5.5, mec=LOOK['facecolor'], **marks)
        ends = one.nbytes[0], one.border, one.nbytes[-1]
        for line, low, high, style in zip((one.cache, one.memory), ends, ends[1:], LINES):
            if low < high:
                n = np.geomspace(low, high, 50)
                times.plot(n, line.seconds(n), style, **look)
        errors.plot(one.nbytes, one.errors, markersize=4, **marks)
    times.set(xscale='log', yscale='log', ylabel='time')
    handles = [Line2D([], [], lw=3, color=c, label=one.label) for one, c in zip(fits, COLOURS)]
    handles.append(Line2D([], [], ls='', marker='o', color=SOFT, label='measured'))
    for where, style in zip(('caches', 'main memory'), LINES):
        handles.append(Line2D([], [], color=SOFT, ls=style, label=f'model, {where}'))
    times.legend(handles=handles, fontsize='small', frameon=False)
    errors.axhspan(-0.2, 0.2, color=GREY, alpha=0.15, lw=0, label='±20%')
    errors.legend(fontsize='small', frameon=False, loc='lower right', borderpad=0)
    reach = 1.15 * max(0.4, *(one.worst_error for one in fits))
    errors.set(xlabel='bytes on each device', ylabel='error', ylim=(-reach, reach))
    errors.yaxis.set_major_formatter(lambda share, _: f'{share:.0%}')
    in_units(times.yaxis, 's')
    in_units(errors.xaxis, 'B')
    return figure
