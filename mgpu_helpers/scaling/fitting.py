"""Latency and bandwidth fitted to measured times: the cost model of the machine at hand.

Knows no framework: what is measured is any function that moves so many bytes and waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload

import numpy as np

from .. import checks
from ..display import LOOK, Table, progress, show_figures
from .costs import ALGORITHMS
from .links import Link
from .models import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Number = TypeVar('Number', float, np.ndarray)
# 4 kB to 65.5 MB. Not 64 MiB: glibc takes blocks of that size for a thread fresh from the system
# every time, and chapter 1's allreduce then spends 45 ms, not 14, most of it in 16,385 page faults.
SIZES = tuple(4000 * 2**i for i in range(15))
LEAST = 3  # sizes that a straight line needs before its error says anything
# Okabe and Ito's colours, told apart with any colour vision.
COLOURS = ('#0072B2', '#E69F00', '#009E73', '#CC79A7', '#D55E00', '#56B4E9')
STYLES: tuple[dict[str, Any], ...] = ({'ls': '--'}, {'ls': '-'})  # in the caches, in main memory


def measure(
    run: Callable[[int], object],
    sizes: Iterable[int] = SIZES,
    repeats: int = 20,
    seconds: float = 3.0,
    label: str = 'measuring',
) -> list[float]:
    """Time a function at several sizes.

    Parameters
    ----------
    run : callable
        ``run(nbytes)`` does it once and waits until it is done, for example one allreduce of
        ``nbytes`` on each device. What it needs should exist already: allocating is timed too.
    sizes : sequence of int
        Bytes.
    repeats : int
        Rounds through all sizes, at most.
    seconds : float
        No round begins after so many seconds, once three are done.
    label : str
        What stands before the progress bar.

    Returns
    -------
    list of float
        For each size the shortest time, in seconds.

    Raises
    ------
    TypeError, ValueError
        If ``run`` cannot be called, a size or ``repeats`` is no integer of at least 1, there is no
        size, or ``seconds`` is no number above 0.

    Notes
    -----
    The shortest, because whatever else runs on the machine only makes times longer: in four
    measurements of two allreduces on a shared machine with two cores, the median of nine repeats
    differed by up to a factor of 1.96, the shortest by up to 1.75. In rounds, so that one
    disturbance does not hit all repeats of one size. Each timed call follows one that does not
    count: after the largest size the caches hold nothing of the smallest, which then took four
    times as long.

    Examples
    --------
    >>> times = measure(lambda nbytes: bytes(nbytes), sizes=[1000, 1000000], repeats=3)
    >>> len(times)
    2
    """
    if not callable(run):
        raise TypeError(f'run must be a function of a number of bytes, not {checks.shown(run)}')
    sizes = _sizes(sizes)
    checks.positive_int('repeats', repeats)
    checks.positive_number('seconds', seconds)
    best = dict.fromkeys(sizes, float('inf'))
    begin = time.perf_counter()
    with progress(range(repeats), label, unit='round') as turns:
        for turn in turns:
            if turn >= 3 and time.perf_counter() - begin > seconds:
                break
            for nbytes in sizes:
                best[nbytes] = min(best[nbytes], _time(run, nbytes))
    return [best[nbytes] for nbytes in sizes]


def _time(run: Callable[[int], object], nbytes: int) -> float:
    """Run twice, time the second."""
    run(nbytes)
    start = time.perf_counter()
    run(nbytes)
    return time.perf_counter() - start


def _sizes(sizes: Iterable[int]) -> list[int]:
    """Give sizes as a list, or say what is wrong with them."""
    sizes = list(sizes)
    for nbytes in sizes:
        checks.positive_int('a size in bytes', nbytes)
    if not sizes:
        raise ValueError('there is no size to measure: pass one or more, in bytes')
    return sizes


class Line(NamedTuple):
    """What a message costs in one regime: ``alpha + nbytes / bandwidth`` seconds.

    Parameters
    ----------
    alpha : float
        Seconds that every call takes, at least 0.
    bandwidth : float
        Bytes a second, above 0.
    """

    alpha: float
    bandwidth: float

    def seconds(self, nbytes: Number) -> Number:
        """Give the time for ``nbytes``, a number or an array, in seconds."""
        return self.alpha + nbytes / self.bandwidth


@dataclass(frozen=True, eq=False, repr=False)
class Fit:
    """Two lines through measured times: one for what fits into the caches, one for what does not.

    Parameters
    ----------
    label : str
        What was measured.
    nbytes : array of int
        Sizes, ascending.
    measured : array of float
        Their times, in seconds.
    cache, memory : Line
        Latency and bandwidth up to ``border`` and from there on.
    border : float
        Bytes. Where the lines cross, if they do between the last size of one and the first of the
        other; else half way between these two (in their logarithms), and there the model jumps.
    """

    label: str
    nbytes: np.ndarray
    measured: np.ndarray
    cache: Line
    memory: Line
    border: float

    @overload
    def seconds(self, nbytes: float) -> float: ...

    @overload
    def seconds(self, nbytes: np.ndarray) -> np.ndarray: ...

    def seconds(self, nbytes: float | np.ndarray) -> float | np.ndarray:
        """Predict the time for any size.

        Parameters
        ----------
        nbytes : float or array
            Bytes.

        Returns
        -------
        float or array
            Seconds.
        """
        n = np.asarray(nbytes)
        times = np.where(n <= self.border, self.cache.seconds(n), self.memory.seconds(n))
        return times if n.ndim else float(times)

    @property
    def errors(self) -> np.ndarray:
        """array of float: predicted / measured - 1 at each size."""
        return self.seconds(self.nbytes) / self.measured - 1

    @property
    def median_error(self) -> float:
        """float: median of the errors' amounts; 0.2 are 20 %."""
        return float(np.median(abs(self.errors)))

    @property
    def worst_error(self) -> float:
        """float: the largest of the errors' amounts."""
        return float(np.max(abs(self.errors)))

    def against(
        self, nbytes: Iterable[int], seconds: Iterable[float], label: str | None = None
    ) -> Fit:
        """Hold the same two lines against other measurements, which they have not seen.

        Parameters
        ----------
        nbytes, seconds, label
            As ``fit`` takes them.

        Returns
        -------
        Fit
            Same lines; ``errors``, ``table`` and ``plot`` are those of the new points.
        """
        nbytes, seconds = _points(nbytes, seconds)
        return replace(self, nbytes=nbytes, measured=seconds, label=label or self.label)

    def link(self, algorithm: str, devices: int, regime: str = 'memory') -> Link:
        """Work out the single link that makes an algorithm's formula give this line.

        Parameters
        ----------
        algorithm : str
            Whose times were fitted: a name in ``costs.ALGORITHMS``.
        devices : int
            How many took part, at least 2.
        regime : str
            ``'cache'`` or ``'memory'``.

        Returns
        -------
        Link
            Latency and bandwidth of one message. Put into the formula of another algorithm, it
            predicts that one without measuring it.

        Raises
        ------
        ValueError
            If the algorithm, the regime or the number of devices is none of these.
        """
        if algorithm not in ALGORITHMS:
            raise ValueError(
                f'no formula for {checks.shown(algorithm)}: choose one of {", ".join(ALGORITHMS)}'
            )
        if regime not in ('cache', 'memory'):
            raise ValueError(f"regime must be 'cache' or 'memory', not {checks.shown(regime)}")
        checks.whole_number('devices', devices, least=2)
        cost, line = ALGORITHMS[algorithm], getattr(self, regime)
        # A formula is messages * latency + share * nbytes / bandwidth: two calls give the two.
        both, doubled = (cost(devices, n, Link('unit', 1.0, 1.0)) for n in (1, 2))
        share = doubled - both
        # A latency of 0, which a fit may find, is none that a link can have.
        latency = max(line.alpha / (both - share), 1e-12)
        return Link(f'{self.label}, {regime}', latency, line.bandwidth * share, 'fitted')

    def table(self) -> Table:
        """Lay measured and predicted times out, a row per size.

        Returns
        -------
        Table
        """
        rows = [
            (
                short(n) + 'B',
                time_text(t),
                time_text(self.seconds(n)),
                f'{round(100 * error):+d}%',
                regime,
            )
            for n, t, error, regime in zip(
                self.nbytes,
                self.measured,
                self.errors,
                np.where(self.nbytes <= self.border, 'cache', 'memory'),
            )
        ]
        return Table(rows, ['size', 'measured', 'predicted', 'error', 'line'])

    def __repr__(self) -> str:
        lines = (
            f'{name}: {time_text(line.alpha)} + bytes / {line.bandwidth / 1e9:.3g} GB/s'
            for name, line in (('cache', self.cache), ('memory', self.memory))
        )
        return (
            f'{self.label or "fit"}, {", ".join(lines)}; border {short(self.border)}B; '
            f'error: median {self.median_error:.0%}, largest {self.worst_error:.0%}'
        )

    def plot(self, *others: Fit) -> Figure:
        """Draw measured times as points and the model as lines, and below them the errors.

        Parameters
        ----------
        *others : Fit
            More fits in the same picture.

        Returns
        -------
        matplotlib.figure.Figure
            Broken line up to the border, solid line beyond it.

        Raises
        ------
        TypeError
            If one of the others is no fit.
        """
        for other in others:
            if not isinstance(other, Fit):
                raise TypeError(f'plot compares with fits, not with {checks.shown(other)}')
        return _draw((self, *others))


def fit(nbytes: Iterable[int], seconds: Iterable[float], label: str = '') -> Fit:
    """Fit latency and bandwidth, once for the caches and once for main memory.

    Parameters
    ----------
    nbytes : sequence of int
        At least six different sizes.
    seconds : sequence of float
        The time of each, for example from ``measure``.
    label : str
        What was measured.

    Returns
    -------
    Fit

    Raises
    ------
    TypeError, ValueError
        If sizes and times differ in number, are not above 0, or are too few; or if no two straight
        lines with a bandwidth above 0 fit, because times do not grow with the size.

    Notes
    -----
    Each line is the one with the least sum of squared *relative* errors, so that 4 KB count as much
    as 64 MB, among those with alpha at least 0. Each has at least three sizes; the border stands
    where the sum over both is least.

    Examples
    --------
    >>> sizes = [4096 * 4**i for i in range(8)]
    >>> found = fit(sizes, [10e-6 + n / 5e9 + 1e-3 * (n > 10**6) for n in sizes], 'example')
    >>> f'{found.cache.alpha * 1e6:.1f} µs, {found.memory.bandwidth / 1e9:.1f} GB/s'
    '10.0 µs, 5.0 GB/s'
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
    if not nbytes:
        raise ValueError('no size was measured: pass one or more, each with its time')
    for n, t in zip(nbytes, seconds):
        checks.positive_int('a size in bytes', n)
        checks.positive_number('a time in seconds', t)
    if len(set(nbytes)) < len(nbytes):
        raise ValueError('a size stands in the list twice: pass one time for each size')
    order = np.argsort(nbytes)
    return np.array(nbytes)[order], np.array(seconds, dtype=float)[order]


def _line(n: np.ndarray, t: np.ndarray) -> Line | None:
    """Find the line of least squared relative errors with alpha >= 0; None if it does not rise."""
    alpha, beta = np.linalg.lstsq(np.stack([1 / t, n / t], 1), np.ones(len(n)), rcond=None)[0]
    if alpha < 0:
        alpha, beta = 0.0, (n / t).sum() / (n / t).dot(n / t)
    return Line(float(alpha), float(1 / beta)) if beta > 0 else None


def _border(cache: Line, memory: Line, last: float, first: float) -> float:
    """Where one line ends and the other begins, between sizes ``last`` and ``first``."""
    slope = 1 / cache.bandwidth - 1 / memory.bandwidth
    crossing = (memory.alpha - cache.alpha) / slope if slope else 0
    return float(crossing if last <= crossing < first else np.sqrt(last * first))


def time_text(seconds: float) -> str:
    """Write a time in the unit that leaves 1 to 999.

    Examples
    --------
    >>> time_text(0.00123), time_text(45e-6)
    ('1.23 ms', '45 µs')
    """
    for unit, scale in (('s', 1), ('ms', 1e3), ('µs', 1e6)):
        if seconds * scale >= 1:
            return f'{seconds * scale:.3g} {unit}'
    return f'{seconds * 1e6:.2g} µs'


def _draw(fits: Sequence[Fit]) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, NullFormatter, PercentFormatter

    show_figures()
    figure = Figure(figsize=(8, 5.2), **LOOK)
    times, errors = figure.subplots(2, sharex=True, gridspec_kw={'height_ratios': [3, 1]})
    for i, one in enumerate(fits):
        _draw_fit(times, errors, one, COLOURS[i % len(COLOURS)])
    times.set(xscale='log', yscale='log', ylabel='time')
    times.yaxis.set_major_formatter(FuncFormatter(lambda t, _: time_text(t)))
    times.yaxis.set_minor_formatter(NullFormatter())
    _explain(times, [one.label for one in fits])
    errors.axhspan(-0.2, 0.2, color='#85837E', alpha=0.15, lw=0, label='±20%')
    errors.legend(fontsize='small', frameon=False, loc='lower right', borderpad=0)
    reach = 1.15 * max(0.4, *(one.worst_error for one in fits))
    errors.set(xlabel='bytes on each device', ylabel='error', ylim=(-reach, reach))
    errors.yaxis.set_major_formatter(PercentFormatter(1))
    errors.xaxis.set_minor_formatter(NullFormatter())
    errors.xaxis.set_major_formatter(FuncFormatter(lambda n, _: short(n) + 'B'))
    for axes in (times, errors):
        axes.grid(alpha=0.3)
        axes.spines[['top', 'right']].set_visible(False)
        axes.tick_params(which='minor', length=0)
    return figure


def _draw_fit(times: Axes, errors: Axes, one: Fit, colour: str) -> None:
    """Draw one fit's points, its two lines, and its errors."""
    times.plot(one.nbytes, one.measured, 'o', color=colour, markersize=5.5, mec=LOOK['facecolor'])
    ends = one.nbytes[0], one.border, one.nbytes[-1]
    for line, low, high, style in zip((one.cache, one.memory), ends, ends[1:], STYLES):
        if low < high:
            n = np.geomspace(low, high, 50)
            times.plot(n, line.seconds(n), color=colour, lw=1.5, **style)
    errors.plot(one.nbytes, one.errors, 'o', color=colour, markersize=4)


def _explain(axes: Axes, labels: Sequence[str]) -> None:
    """Add two legends: which colour is which fit, and what points and lines mean."""
    from matplotlib.lines import Line2D

    ink = '#4A4A4A'
    marks = [Line2D([], [], ls='', marker='o', markersize=5, color=ink, label='measured')]
    for where, style in zip(('caches', 'main memory'), STYLES):
        marks.append(Line2D([], [], color=ink, lw=1.5, label=f'model, {where}', **style))
    meaning = axes.legend(handles=marks, fontsize='small', frameon=False, loc='lower right')
    if any(labels):
        axes.add_artist(meaning)  # a second legend would replace the first
        lines = [Line2D([], [], lw=3, color=colour) for colour in COLOURS[: len(labels)]]
        axes.legend(lines, labels, fontsize='small', frameon=False, loc='upper left')
