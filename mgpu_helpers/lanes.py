"""What ran when, on which lane: spans of time, their picture, tables and trace.

A lane is whatever works on its own: a device, a link, a process. The times may have been measured
(``mgpu_helpers.timeline``) or computed (``mgpu_helpers.scaling``); nothing here asks which.
"""

import collections
import itertools
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path

from . import checks
from .display import Table, show_figures
from .history import LOOK

# Okabe and Ito's colours, told apart with any colour vision. Work is blue: `forward` and `backward`
# where the two are known apart, else `compute`.
KINDS = {
    'compute': '#0072B2',
    'forward': '#56B4E9',
    'backward': '#004F7C',
    'copy': '#009E73',
    'allreduce': '#E69F00',
    'update': '#CC79A7',
}
MOVING = ('copy', 'allreduce')  # what a device can do beside its computing

# The nearest that Chrome's viewer has names for (Perfetto's picks its own colours by name).
_CHROME = {
    'compute': 'vsync_highlight_color',
    'forward': 'rail_response',
    'backward': 'light_memory_dump',
    'copy': 'rail_load',
    'allreduce': 'rail_idle',
    'update': 'detailed_memory_dump',
}
_DARK = ('compute', 'backward', 'copy')  # white letters on these
_EMPTY, _EDGE, _INK = '#FFFFFF', '#C9C7C1', '#1F1F1F'
_LETTER = 0.056  # width of a letter of a bar's name, inches
_WIDTH = 8  # of a picture, inches


@dataclass(frozen=True)
class Span:
    """One piece of work on one lane.

    Parameters
    ----------
    lane : str
        Who worked, for example ``'cpu(0)'``.
    kind : str
        One of ``KINDS``.
    name : str
        What was done, for example ``'Convolution'``.
    start, end : float
        Seconds, from any moment that all spans of a timeline share.

    Raises
    ------
    TypeError
        If lane or name is no text, or a time no number.
    ValueError
        If the kind is unknown, a time is not finite, or the end lies before the start.

    Examples
    --------
    >>> Span('cpu(0)', 'forward', 'Convolution', 0.25, 1.0).seconds
    0.75
    """

    lane: str
    kind: str
    name: str
    start: float
    end: float

    def __post_init__(self):
        for what in ('lane', 'name'):
            if not isinstance(getattr(self, what), str):
                raise TypeError(f'{what} must be a text, not {checks.shown(getattr(self, what))}')
        if self.kind not in KINDS:
            raise ValueError(f'kind must be one of {", ".join(KINDS)}, not {self.kind!r}')
        for what in ('start', 'end'):
            checks.finite_number(what, getattr(self, what))
        if self.end < self.start:
            raise ValueError(
                f'{self.name} on {self.lane} ends at {self.end} s, before it starts at '
                f'{self.start} s: swap the two'
            )

    @property
    def seconds(self):
        """float: how long it took."""
        return self.end - self.start


class Timeline:
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
    >>> timeline = Timeline([
    ...     Span('cpu(0)', 'forward', 'Convolution', 0.0, 0.75),
    ...     Span('cpu(1)', 'forward', 'Convolution', 0.25, 1.0),
    ... ])
    >>> timeline.lanes, timeline.overlap, timeline.busy('cpu(0)')
    (['cpu(0)', 'cpu(1)'], 0.5, 0.75)
    """

    def __init__(self, spans=(), title='', lanes=()):
        self.spans, self.lanes = [], []
        self.add(spans, lanes)
        self.title = title

    def add(self, spans, lanes=()):
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

    def __repr__(self):
        if not self.spans:
            return f'<Timeline {self.title!r}: nothing was recorded>'
        title = f'{self.title}\n' if self.title else ''
        return f'{title}{self.table()!r}'

    def _repr_html_(self):
        import html

        if not self.spans:
            return html.escape(repr(self))
        return f'<b>{html.escape(self.title)}</b>{self.table()._repr_html_()}'

    @property
    def seconds(self):
        """float: from the first start to the last end."""
        start, end = self._ends()
        return end - start

    def _ends(self):
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

    def busy(self, lane):
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
    def overlap(self):
        """float: share of ``seconds`` in which at least two lanes work, 0 to 1."""
        seconds = self.seconds
        return _length(_shared(self._work(lane) for lane in self.lanes)) / seconds

    def _work(self, lane, kind=None):
        """When a lane works (at one kind of work): starts and ends, apart from each other."""
        kinds = KINDS if kind is None else (kind,)
        return _union((s.start, s.end) for s in self.spans if s.lane == lane and s.kind in kinds)

    def _rest(self, lane):
        """When a lane has nothing to do."""
        start, end = self._ends()
        edges = [start, *itertools.chain.from_iterable(self._work(lane)), end]
        return [(a, b) for a, b in zip(edges[::2], edges[1::2]) if a < b]

    def kinds(self):
        """List the kinds of work that occur.

        Returns
        -------
        list of str
            In the order of ``KINDS``.
        """
        found = {s.kind for s in self.spans}
        return [kind for kind in KINDS if kind in found]

    def table(self):
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
        states = [self._work, self._rest]
        states += [lambda lane, kind=kind: self._work(lane, kind) for kind in kinds]
        rows = [[lane, *(state(lane) for state in states)] for lane in self.lanes]
        if len(rows) > 1:
            together = [_shared(state(lane) for lane in self.lanes) for state in states]
            rows.append(['at least two at once', *together])
        cells = [[name, *(_percent(_length(t) / seconds) for t in times)] for name, *times in rows]
        return Table(cells, ['lane', 'busy', 'idle', *kinds])

    def operators(self, n=10):
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
        self._ends()
        calls, total = collections.Counter(), collections.Counter()
        for s in self.spans:
            calls[s.name, s.kind] += 1
            total[s.name, s.kind] += s.seconds
        rows = [
            (*key, calls[key], f'{1e3 * t:.2f}', _percent(t / total.total()))
            for key, t in total.most_common(n)
        ]
        return Table(rows, ['operator', 'kind', 'calls', 'total ms', 'share'])

    def plot(self, *others):
        """Draw who did what when: a row per lane, a bar per span, empty where a lane is idle.

        Parameters
        ----------
        *others : Timeline
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
            if not isinstance(other, Timeline):
                raise TypeError(f'plot compares with Timelines, not with {checks.shown(other)}')
        timelines = (self, *others)
        longest = max(t.seconds for t in timelines)
        from matplotlib.figure import Figure
        from matplotlib.patches import Patch

        show_figures()
        heights = [0.75 * len(t.lanes) + 0.3 for t in timelines]
        figure = Figure(figsize=(_WIDTH, sum(heights) + 0.85), **LOOK)
        panels = figure.subplots(
            len(timelines), sharex=True, squeeze=False, gridspec_kw={'height_ratios': heights}
        )
        for axes, timeline in zip(panels[:, 0], timelines, strict=True):
            _draw(axes, timeline, longest)
        panels[-1, 0].set_xlabel('time, ms')
        shown = [kind for kind in KINDS if any(kind in t.kinds() for t in timelines)]
        marks = [Patch(color=KINDS[kind], label=kind) for kind in shown]
        marks.append(Patch(facecolor=_EMPTY, edgecolor=_EDGE, label='idle'))
        figure.legend(handles=marks, loc='outside upper center', ncols=len(marks), frameon=False)
        return figure

    def save_picture(self, path):
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

    def save_trace(self, path):
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
        start, _ = self._ends()
        trace = {
            'traceEvents': list(_trace_events(self, start)),
            'displayTimeUnit': 'ms',
            'otherData': {'title': self.title},
        }
        Path(path).write_text(json.dumps(trace), encoding='utf-8')


def _natural(name):
    """Sort key by which ``cpu(2)`` comes before ``cpu(10)``."""
    return [(0, int(p), '') if p.isdigit() else (1, 0, p) for p in re.split(r'(\d+)', name)]


def _union(intervals):
    """Join intervals that overlap or touch."""
    joined = []
    for start, end in sorted(intervals):
        if joined and start <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([start, end])
    return joined


def _shared(lanes):
    """Find when at least two lanes are in the state whose times each of ``lanes`` lists."""
    edges = sorted(
        edge for times in lanes for start, end in times for edge in ((start, 1), (end, -1))
    )
    depths = itertools.accumulate(step for _, step in edges)
    return [(a[0], b[0]) for (a, b), d in zip(itertools.pairwise(edges), depths) if d >= 2]


def _length(intervals):
    return math.fsum(end - start for start, end in intervals)


def _percent(share):
    """Write a share so that little does not look like nothing."""
    return f'{share:.0%}' if not 0 < share < 0.095 else f'{share:.1%}'


def _rows(spans):
    """Deal a lane's spans out to rows in which none overlaps another: one row if one will do.

    Else computing comes first and moving below it, so that what is hidden behind what is seen.
    """
    spans = sorted(spans, key=lambda s: (s.start, s.end))
    rows = _deal(spans)
    if len(rows) < 2:
        return rows
    moving = [s for s in spans if s.kind in MOVING]
    return _deal([s for s in spans if s.kind not in MOVING]) + _deal(moving)


def _deal(spans):
    rows = []
    for span in spans:
        free = next((row for row in rows if row[-1].end <= span.start), None)
        if free is None:
            rows.append(free := [])
        free.append(span)
    return rows


def _draw(axes, timeline, longest):
    """Draw one timeline into its panel, whose time axis is ``longest`` seconds long."""
    first, last = timeline._ends()
    for y, lane in enumerate(timeline.lanes):
        axes.broken_barh([(0, 1e3 * (last - first))], (y - 0.4, 0.8), fc=_EMPTY, ec=_EDGE, lw=0.8)
        rows = _rows([s for s in timeline.spans if s.lane == lane])
        height = 0.8 / max(len(rows), 1)
        for i, row in enumerate(rows):
            _draw_row(axes, row, first, longest, y - 0.4 + i * height, height)
    axes.set_xlim(-2 * longest, 1005 * longest)
    axes.set_ylim(len(timeline.lanes) - 0.45, -0.55)  # the first lane on top
    axes.set_yticks(range(len(timeline.lanes)), timeline.lanes)
    axes.tick_params(axis='y', length=0)
    axes.tick_params(axis='x', labelbottom=True)
    axes.spines[['top', 'left', 'right']].set_visible(False)
    axes.set_facecolor(LOOK['facecolor'])  # white is for idle
    axes.set_title(timeline.title, loc='left', fontsize='medium')
    together = f', two or more at work: {_percent(timeline.overlap)}' * (len(timeline.lanes) > 1)
    axes.set_title(f'{1e3 * (last - first):.3g} ms{together}', loc='right', fontsize='small')


def _draw_row(axes, row, first, longest, y, height):
    """Draw bars that do not overlap, and the names of those that have room for them."""
    inch = longest / (0.88 * _WIDTH)  # in seconds, on the time axis
    for kind in {s.kind for s in row}:
        # Without edges, which would make all of a short operator an edge. What moves lies on top:
        # it is short, and the next bar would hide it.
        bars = [s for s in row if s.kind == kind]
        shape = [(1e3 * (s.start - first), 1e3 * max(s.seconds, inch / 100)) for s in bars]
        z = 1.2 if kind in MOVING else 1.1
        axes.broken_barh(shape, (y, height), color=KINDS[kind], linewidth=0, zorder=z)
    for s in row:
        if s.seconds > 0.06 * inch:  # wide enough to be told apart from the bar before it
            line = {'color': _EMPTY, 'alpha': 0.4, 'lw': 0.5, 'zorder': 1.3}
            axes.vlines(1e3 * (s.start - first), y, y + height, **line)
        if s.seconds > (_LETTER * len(s.name) + 0.08) * inch:
            middle = 1e3 * ((s.start + s.end) / 2 - first), y + height / 2
            ink = _EMPTY if s.kind in _DARK else _INK
            axes.text(*middle, s.name, color=ink, fontsize=7, ha='center', va='center')


def _trace_events(timeline, start):
    """Yield the events of a trace: names of processes and threads, then the spans."""
    for pid, lane in enumerate(timeline.lanes, 1):
        yield _name(pid, 0, 'process_name', name=lane)
        yield _name(pid, 0, 'process_sort_index', sort_index=pid)
        rows = _rows([s for s in timeline.spans if s.lane == lane])
        for tid, row in enumerate(rows, 1):
            # Events of one thread must not overlap, unless one lies within the other.
            yield _name(pid, tid, 'thread_name', name='operators')
            for s in row:
                yield {
                    'ph': 'X',
                    'name': s.name,
                    'cat': s.kind,
                    'pid': pid,
                    'tid': tid,
                    'ts': round(1e6 * (s.start - start), 3),
                    'dur': round(1e6 * s.seconds, 3),
                    'cname': _CHROME[s.kind],
                    'args': {'kind': s.kind},
                }


def _name(pid, tid, what, **args):
    return {'ph': 'M', 'name': what, 'pid': pid, 'tid': tid, 'args': args}
