"""Timelines: what several lanes did, and how much of it at the same time."""

from __future__ import annotations

import collections
import functools
import html
import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import checks
from ..display import Table
from .picture import draw, percent
from .spans import KINDS, Span
from .trace import chrome_trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    Intervals = Sequence[Sequence[float]]  # pairs of start and end, in order


class Lanes:
    """What several lanes did, and when.

    Parameters
    ----------
    spans : iterable of Span
        In any order. Spans of one lane may overlap: they are drawn one below the other.
    title : str
        What it is called in a picture.
    lanes : iterable of str
        Lanes to show even if they did nothing.

    Attributes
    ----------
    spans : list of Span
        By their start.
    lanes : list of str
        Sorted, ``cpu(2)`` before ``cpu(10)``.
    title : str

    Raises
    ------
    TypeError
        If ``spans`` holds anything but spans.

    Examples
    --------
    >>> timeline = Lanes([
    ...     Span('cpu(0)', 'forward', 'Convolution', 0.0, 0.75),
    ...     Span('cpu(1)', 'forward', 'Convolution', 0.25, 1.0),
    ... ])
    >>> timeline.lanes, timeline.overlap, timeline.busy('cpu(0)')
    (['cpu(0)', 'cpu(1)'], 0.5, 0.75)
    """

    def __init__(
        self, spans: Iterable[Span] = (), title: str = '', lanes: Iterable[str] = ()
    ) -> None:
        self.spans: list[Span] = []
        self.lanes: list[str] = []
        self.add(spans, lanes)
        self.title = title

    def add(self, spans: Iterable[Span], lanes: Iterable[str] = ()) -> None:
        """Take in more of what happened.

        Parameters
        ----------
        spans, lanes
            See the parameters of the class.

        Raises
        ------
        TypeError
            If ``spans`` holds anything but spans; nothing is added then.
        """
        spans = list(spans)
        strange = [s for s in spans if not isinstance(s, Span)]
        if strange:
            raise TypeError(f'a timeline is made of Spans, not of {checks.shown(strange[0])}')
        self.spans = sorted([*self.spans, *spans], key=lambda s: (s.start, s.end))
        self.lanes = sorted({*self.lanes, *lanes, *(s.lane for s in spans)}, key=_natural)

    def __repr__(self) -> str:
        if not self.spans:
            return f'<Lanes {self.title!r}: nothing was recorded>'
        title = f'{self.title}\n' if self.title else ''
        return f'{title}{self.table()!r}'

    def _repr_html_(self) -> str:
        if not self.spans:
            return html.escape(repr(self))
        return f'<b>{html.escape(self.title)}</b>{self.table()._repr_html_()}'

    @property
    def seconds(self) -> float:
        """float: from the first start to the last end."""
        start, end = self.ends()
        return end - start

    def ends(self) -> tuple[float, float]:
        """When the first span starts and the last one ends; an error if there is nothing."""
        start = min((s.start for s in self.spans), default=0)
        end = max((s.end for s in self.spans), default=0)
        if end <= start:
            name = f' in {self.title!r}' if self.title else ''
            raise ValueError(
                f'nothing was recorded{name}: no device did anything that took time; put the '
                'training step inside the recorded block'
            )
        return start, end

    def busy(self, lane: str) -> float:
        """Tell how much a lane works.

        Parameters
        ----------
        lane : str
            One of ``lanes``.

        Returns
        -------
        float
            Share of ``seconds`` in which it does at least one thing, 0 to 1.

        Raises
        ------
        ValueError
            If there is no such lane, or nothing was recorded.
        """
        seconds = self.seconds
        if lane not in self.lanes:
            raise ValueError(f'no lane {lane!r} here, only {", ".join(self.lanes)}')
        return _length(self._work(lane)) / seconds

    @property
    def overlap(self) -> float:
        """float: share of ``seconds`` in which at least two lanes work, 0 to 1."""
        seconds = self.seconds
        return _length(_shared(self._work(lane) for lane in self.lanes)) / seconds

    def _work(self, lane: str, kind: str | None = None) -> Intervals:
        """When a lane works (at one kind of work): starts and ends, apart from each other."""
        kinds = KINDS if kind is None else (kind,)
        return _union((s.start, s.end) for s in self.spans if s.lane == lane and s.kind in kinds)

    def _rest(self, lane: str) -> Intervals:
        """When a lane has nothing to do."""
        start, end = self.ends()
        edges = [start, *itertools.chain.from_iterable(self._work(lane)), end]
        return [(a, b) for a, b in zip(edges[::2], edges[1::2]) if a < b]

    def kinds(self) -> list[str]:
        """List the kinds of work that occur.

        Returns
        -------
        list of str
            In the order of ``KINDS``.
        """
        found = {s.kind for s in self.spans}
        return [kind for kind in KINDS if kind in found]

    def table(self) -> Table:
        """Say how each lane spends its time, and how much of it is spent by two at once.

        Returns
        -------
        Table
            A row per lane: shares of ``seconds`` in which it is busy, idle, and at each kind of
            work. The last row, if there are several lanes: shares in which at least two are.

        Raises
        ------
        ValueError
            If nothing was recorded.
        """
        seconds, kinds = self.seconds, self.kinds()
        states: list[Callable[[str], Intervals]] = [self._work, self._rest]
        states += [functools.partial(self._work, kind=kind) for kind in kinds]
        rows: list[list[Any]] = [[lane, *(state(lane) for state in states)] for lane in self.lanes]
        if len(rows) > 1:
            together = [_shared(state(lane) for lane in self.lanes) for state in states]
            rows.append(['at least two at once', *together])
        cells = [[name, *(percent(_length(t) / seconds) for t in times)] for name, *times in rows]
        return Table(cells, ['lane', 'busy', 'idle', *kinds])

    def operators(self, n: int = 10) -> Table:
        """List what took most of the time, over all lanes.

        Parameters
        ----------
        n : int
            How many names.

        Returns
        -------
        Table
            Name, kind, number of calls, their milliseconds together, and the share of these in the
            time of all operators.

        Raises
        ------
        TypeError, ValueError
            If ``n`` is not an integer of at least 1, or nothing was recorded.
        """
        checks.positive_int('n', n)
        self.ends()
        calls: collections.Counter[tuple[str, str]] = collections.Counter()
        total: collections.Counter[tuple[str, str]] = collections.Counter()  # seconds
        for s in self.spans:
            calls[s.name, s.kind] += 1
            total[s.name, s.kind] += s.seconds  # type: ignore[assignment]  # typed for integers
        rows = [
            (*key, calls[key], f'{1e3 * t:.2f}', percent(t / total.total()))
            for key, t in total.most_common(n)
        ]
        return Table(rows, ['operator', 'kind', 'calls', 'total ms', 'share'])

    def plot(self, *others: Lanes) -> Figure:
        """Draw who did what when: a row per lane, a bar per span, empty where a lane is idle.

        Parameters
        ----------
        *others : Lanes
            To compare with: each gets a panel below, on the same time axis.

        Returns
        -------
        matplotlib.figure.Figure
            As a cell's last value it shows itself; ``.savefig('run.png')`` keeps it. Each panel
            starts with its own first span, at 0 ms. What would be narrower than a
            hundredth of an inch is drawn that wide.

        Raises
        ------
        ValueError
            If nothing was recorded in one of them.
        TypeError
            If one is no timeline.
        """
        for other in others:
            if not isinstance(other, Lanes):
                raise TypeError(f'plot compares with Timelines, not with {checks.shown(other)}')
        return draw((self, *others))

    def save_picture(self, path: str | Path) -> None:
        """Write the picture of ``plot`` into a file.

        Parameters
        ----------
        path : str or Path
            Its ending says the format: ``.png``, ``.svg`` or ``.pdf``.

        Raises
        ------
        ValueError
            If nothing was recorded, or matplotlib does not know the format.
        OSError
            If the file cannot be written.
        """
        self.plot().savefig(path, dpi=150)

    def save_trace(self, path: str | Path) -> None:
        """Write a trace that Chrome's viewer (``chrome://tracing``) and Perfetto's can open.

        Parameters
        ----------
        path : str or Path
            For example ``'step.json'``; drag it into https://ui.perfetto.dev.

        Raises
        ------
        ValueError
            If nothing was recorded.
        OSError
            If the file cannot be written.

        Notes
        -----
        The JSON object of Chrome's *Trace Event Format*: a process per lane, an event of phase
        ``X`` per span with its kind as category, times in microseconds.
        """
        trace = chrome_trace(self)
        Path(path).write_text(json.dumps(trace), encoding='utf-8')


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Sort key by which ``cpu(2)`` comes before ``cpu(10)``."""
    return [(0, int(p), '') if p.isdigit() else (1, 0, p) for p in re.split(r'(\d+)', name)]


def _union(intervals: Iterable[tuple[float, float]]) -> Intervals:
    """Join intervals that overlap or touch."""
    joined: list[list[float]] = []
    for start, end in sorted(intervals):
        if joined and start <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([start, end])
    return joined


def _shared(lanes: Iterable[Intervals]) -> Intervals:
    """Find when at least two lanes are in the state whose times each of ``lanes`` lists."""
    edges = sorted(
        edge for times in lanes for start, end in times for edge in ((start, 1), (end, -1))
    )
    depths = itertools.accumulate(step for _, step in edges)
    return [(a[0], b[0]) for (a, b), d in zip(itertools.pairwise(edges), depths) if d >= 2]


def _length(intervals: Intervals) -> float:
    return math.fsum(end - start for start, end in intervals)
