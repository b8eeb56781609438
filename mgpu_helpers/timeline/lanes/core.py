"""What several lanes did, and how much of it at the same time."""

from __future__ import annotations

import collections
import html
import itertools
import json
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import checks
from ...display import Table, percent
from .picture import draw
from .spans import KINDS, Span, ends, rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    Intervals = Sequence[Sequence[float]]  # pairs of start and end, in order


class Lanes:
    """What several lanes did, and when.

    Spans may come in any order, and those of one lane may overlap: they are drawn one below the
    other. ``lanes`` names all of them, sorted, ``cpu(2)`` before ``cpu(10)``.
    """

    def __init__(self, spans: Iterable[Span] = (), title: str = '') -> None:
        self.spans: list[Span] = []
        self.title = title
        self.add(spans)

    def add(self, spans: Iterable[Span]) -> None:
        """Take in more of what happened."""
        self.spans = sorted([*self.spans, *spans], key=lambda s: (s.start, s.end))
        self.lanes = sorted({s.lane for s in self.spans}, key=_natural)

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
        """From the first start to the last end."""
        start, end = ends(self.spans, self.title)
        return end - start

    @property
    def overlap(self) -> float:
        """Share of ``seconds`` in which at least two lanes work, 0 to 1."""
        seconds = self.seconds
        return _length(_shared(self._work(lane) for lane in self.lanes)) / seconds

    def by_lane(self) -> dict[str, list[Span]]:
        """Give the spans of each lane, in order."""
        return {lane: [s for s in self.spans if s.lane == lane] for lane in self.lanes}

    def _work(self, lane: str, kind: str | None = None) -> Intervals:
        """When a lane works (at one kind of work): starts and ends, apart from each other."""
        kinds = KINDS if kind is None else (kind,)
        return _union((s.start, s.end) for s in self.spans if s.lane == lane and s.kind in kinds)

    def _rest(self, lane: str) -> Intervals:
        """When a lane has nothing to do."""
        start, end = ends(self.spans, self.title)
        edges = [start, *itertools.chain.from_iterable(self._work(lane)), end]
        return [(a, b) for a, b in zip(edges[::2], edges[1::2]) if a < b]

    def table(self) -> Table:
        """Say how each lane spends its time, and how much of it is spent by two at once.

        A row per lane: shares of ``seconds`` in which it is busy, idle, and at each kind of work.
        The last row, if there are several lanes: shares in which at least two are.
        """
        seconds, found = self.seconds, {s.kind for s in self.spans}
        kinds = [kind for kind in KINDS if kind in found]
        times = {
            lane: [self._work(lane), self._rest(lane), *(self._work(lane, kind) for kind in kinds)]
            for lane in self.lanes
        }
        if len(times) > 1:
            times['at least two at once'] = [_shared(of_all) for of_all in zip(*times.values())]
        rows = [
            [name, *(percent(_length(t) / seconds) for t in row)] for name, row in times.items()
        ]
        return Table(rows, ['lane', 'busy', 'idle', *kinds])

    def operators(self) -> Table:
        """List the ten names that took most of the time of all operators, over all lanes."""
        ends(self.spans, self.title)
        took = collections.defaultdict(list)
        for s in self.spans:
            took[s.name, s.kind].append(s.seconds)
        most = sorted(took, key=lambda key: -sum(took[key]))[:10]
        total = sum(map(sum, took.values()))
        rows = [
            (*key, len(took[key]), f'{1e3 * sum(took[key]):.2f}', percent(sum(took[key]) / total))
            for key in most
        ]
        return Table(rows, ['operator', 'kind', 'calls', 'total ms', 'share'])

    def plot(self, *others: Lanes) -> Figure:
        """Draw who did what when: a row per lane, a bar per span, empty where a lane is idle.

        Others, to compare with, each get a panel below, on the same time axis; each panel starts
        with its own first span, at 0 ms. ``.savefig('step.png')`` keeps it.
        """
        for other in others:
            if not isinstance(other, Lanes):
                raise TypeError(f'plot compares with other Lanes, not with {checks.shown(other)}')
        return draw([self, *others])

    def save_trace(self, path: str | Path) -> None:
        """Write a trace, such as ``'step.json'``, for Chrome and https://ui.perfetto.dev.

        Chrome's *Trace Event Format*: a process per lane, an event of phase ``X`` per span with its
        kind as category, times in microseconds from the first start.
        """
        start, _ = ends(self.spans, self.title)
        events: list[dict[str, Any]] = []
        for pid, (lane, spans) in enumerate(self.by_lane().items(), 1):
            for what, value in (('name', lane), ('sort_index', pid)):
                args = {what: value}
                events.append({'ph': 'M', 'name': f'process_{what}', 'pid': pid, 'args': args})
            for tid, row in enumerate(rows(spans), 1):  # spans of one thread must not overlap
                for s in row:
                    where = {'pid': pid, 'tid': tid, 'ts': round(1e6 * (s.start - start), 3)}
                    took = {'dur': round(1e6 * s.seconds, 3)}
                    events.append({'ph': 'X', 'name': s.name, 'cat': s.kind, **where, **took})
        trace = {'traceEvents': events, 'displayTimeUnit': 'ms', 'otherData': {'title': self.title}}
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
