"""Show what ran when, on which lane (a device, a link, a process), as a table and a picture."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from . import display
from .display import Table, percent, quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Work is blue; a backward pass in two halves is `input gradient` and `weight gradient`.
KINDS = {
    'compute': display.BLUE,
    'forward': display.SKY,
    'backward': display.DEEP,
    'input gradient': display.DEEP,
    'weight gradient': display.BLUE,
    'copy': display.GREEN,
    'allreduce': display.ORANGE,
    'all-gather': display.GREEN,
    'reduce-scatter': display.ORANGE,
    'update': display.PINK,
    'python': display.GREY,
}
PYTHON = 'Python'  # an extra lane, like the ports of the devices
PORT = ' sends'  # ends the name of a port's lane
MOVING = ('copy', 'allreduce', 'all-gather', 'reduce-scatter')  # can run while a device computes
DARK = (display.BLUE, display.DEEP, display.GREEN)  # white letters on these
LETTER = 0.056  # width of a letter in a bar's name, in inches
WIDTH = 8  # of a picture, in inches


@dataclass(frozen=True)
class Span:
    """One piece of work on one lane."""

    lane: str  # the device or port, such as 'cpu(0)'
    kind: str  # one of KINDS
    name: str  # the operation, such as 'Convolution'
    start: float  # seconds; all spans of one recording count from the same moment
    end: float

    @property
    def seconds(self) -> float:
        """Return the duration of this span."""
        return self.end - self.start


class Lanes:
    """The work of several lanes over time; spans on the same lane may overlap."""

    def __init__(self, spans: Iterable[Span] = (), title: str = '') -> None:
        self.title, self.spans = title, list[Span]()
        self.add(spans)

    def add(self, spans: Iterable[Span]) -> None:
        """Add spans, keeping all of them sorted by time."""
        self.spans = sorted([*self.spans, *spans], key=lambda s: (s.start, s.end))
        lanes = {s.lane for s in self.spans}
        self.lanes = sorted(lanes, key=lambda lane: re.sub(r'\d+', lambda i: i[0].zfill(9), lane))

    def __repr__(self) -> str:
        return f'<Lanes {self.title!r}: {len(self.spans)} spans on {", ".join(self.lanes)}>'

    @property
    def ends(self) -> tuple[float, float]:
        """Return the first start and the last end."""
        start = min((s.start for s in self.spans), default=0)
        end = max((s.end for s in self.spans), default=0)
        if end <= start:
            way = 'put the training step inside the recorded block'
            raise ValueError(f'{self.title!r} has no recorded work: {way}')
        return start, end

    @property
    def seconds(self) -> float:
        """Return the time from the first start to the last end."""
        start, end = self.ends
        return end - start

    @property
    def overlap(self) -> float:
        """Return the share of time, 0 to 1, with two or more devices (not ports) busy."""
        return float(self._shares([])[-1][0])

    def by_lane(self) -> dict[str, list[Span]]:
        """Return the spans of each lane, in order."""
        return {lane: [s for s in self.spans if s.lane == lane] for lane in self.lanes}

    def table(self) -> Table:
        """Tabulate each lane's shares of time; a last row has two or more lanes at once."""
        kinds = [kind for kind in KINDS if any(s.kind == kind for s in self.spans)]
        names = [*self.lanes, 'at least two at once']
        rows = [[name, *map(percent, row)] for name, row in zip(names, self._shares(kinds))]
        return Table(rows if len(self.lanes) > 1 else rows[:1], ['lane', 'busy', 'idle', *kinds])

    def _shares(self, kinds: Sequence[str]) -> np.ndarray:
        """Return shares of time (lanes + 1, 2 + kinds); the last row is two or more at once."""
        first, last = self.ends
        moments = np.unique([moment for s in self.spans for moment in (s.start, s.end)])
        # The activity of each lane between two moments; two spans at once count once.
        doing = np.zeros((len(self.lanes), 2 + len(kinds), len(moments) - 1), dtype=bool)
        for i, spans in enumerate(self.by_lane().values()):
            for s in spans:
                when = slice(*np.searchsorted(moments, (s.start, s.end)))
                doing[i, 0, when] = True
                if s.kind in kinds:
                    doing[i, 2 + kinds.index(s.kind), when] = True
        doing[:, 1] = ~doing[:, 0]
        ports = [lane == PYTHON or lane.endswith(PORT) for lane in self.lanes]
        devices = np.invert(ports) if not all(ports) else slice(None)
        two = doing[devices].sum(axis=0) >= 2
        return np.concatenate([doing, two[None]]) @ (np.diff(moments) / (last - first))

    def plot(self, *others: Lanes) -> Figure:
        """Draw a row per lane and a bar per span; gaps are idle time.

        ``others`` are drawn below, for comparison; in each panel the first span starts at 0 ms.
        """
        from matplotlib.patches import Patch

        shown = [self, *others]
        longest = max(panel.seconds for panel in shown)
        heights = [0.75 * len(panel.lanes) + 0.3 for panel in shown]
        options: dict[str, Any] = {'sharex': True, 'squeeze': False, 'height_ratios': heights}
        figure, grid = display.panels(len(shown), 1, sum(heights) + 0.85, WIDTH, **options)
        figure.get_layout_engine().set(hspace=0.1)  # a panel's title away from the axis above it
        for axes, panel in zip(grid[:, 0], shown, strict=True):
            _draw_panel(axes, panel, longest)
        grid[-1, 0].set_xlabel('time, ms')
        kinds = {s.kind for panel in shown for s in panel.spans}
        marks = [Patch(color=color, label=kind) for kind, color in KINDS.items() if kind in kinds]
        marks.append(Patch(facecolor=display.WHITE, edgecolor=display.EDGE, label='idle'))
        options = {'ncols': len(marks), 'columnspacing': 1.6, 'handlelength': 1.4}
        figure.legend(handles=marks, loc='outside upper center', frameon=False, **options)
        return figure


def _rows_of(spans: Sequence[Span]) -> list[list[Span]]:
    """Arrange spans in rows without overlap: in one if possible, else computation on top."""
    beside = [[s for s in spans if (s.kind in MOVING) == moving] for moving in (False, True)]
    for groups in ([spans], beside):
        rows: list[list[Span]] = []
        for group in groups:
            begin = len(rows)
            for span in group:  # into the first row where it overlaps nothing, except by rounding
                free = (row for row in rows[begin:] if row[-1].end <= span.start + 1e-9)
                row = next(free, None)
                if row is None:
                    rows.append(row := [])
                row.append(span)
        if len(rows) < 2:
            break
    return rows


def _draw_panel(axes: Axes, panel: Lanes, longest: float) -> None:
    first, last = panel.ends
    inch = longest / (WIDTH - 0.4 - 0.085 * max(map(len, panel.lanes)))  # in seconds, along x
    idle = {'facecolor': display.WHITE, 'edgecolor': display.EDGE, 'linewidth': 0.8}
    for y, spans in enumerate(panel.by_lane().values()):
        axes.broken_barh([(0, 1e3 * (last - first))], (y - 0.4, 0.8), **idle)
        rows = _rows_of(spans)
        height = 0.8 / len(rows)
        for i, row in enumerate(rows):
            _draw_row(axes, row, first, inch, y - 0.4 + i * height, height)
    axes.grid(False)
    axes.set(xlim=(-2 * longest, 1005 * longest), ylim=(len(panel.lanes) - 0.45, -0.55))
    axes.set_yticks(range(len(panel.lanes)), panel.lanes)
    axes.tick_params(left=False, labelbottom=True)
    axes.spines[['top', 'left', 'right']].set_visible(False)
    axes.set_title(panel.title, loc='left', fontsize='medium')
    took = quantity(last - first, 's')
    if len(panel.lanes) > 1 and any(s.kind not in MOVING for s in panel.spans):
        took += f', two or more at work: {percent(panel.overlap)}'
    axes.set_title(took, loc='right', fontsize='small')


def _draw_row(
    axes: Axes, row: Sequence[Span], first: float, inch: float, y: float, height: float
) -> None:
    """Draw bars that do not overlap, with names where they fit."""
    row = sorted(row, key=lambda s: s.kind in MOVING)  # communication last, on top: it is short
    # At least 0.01 inch wide, and without edges, which would cover short bars.
    bars = [(1e3 * (s.start - first), 1e3 * max(s.seconds, inch / 100)) for s in row]
    colors = [KINDS[s.kind] for s in row]
    axes.broken_barh(bars, (y, height), facecolors=colors, linewidth=0, zorder=1.1)
    for s, (left, width) in zip(row, bars):
        if s.seconds > 0.06 * inch:  # wide enough to be distinct from the previous bar
            axes.vlines(left, y, y + height, color=display.WHITE, alpha=0.4, lw=0.5, zorder=1.3)
        if height > 0.15 and s.seconds > (LETTER * len(s.name) + 0.08) * inch:
            ink = display.WHITE if KINDS[s.kind] in DARK else display.INK
            middle = left + width / 2, y + height / 2
            axes.text(*middle, s.name, color=ink, fontsize=7, ha='center', va='center')
