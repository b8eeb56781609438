"""The picture of timelines: a panel for each, a row per lane, a bar per span."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..display import LOOK, show_figures
from .spans import KINDS, MOVING, rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .core import Lanes
    from .spans import Span

_DARK = ('compute', 'backward', 'copy')  # white letters on these
_EMPTY, _EDGE, _INK = '#FFFFFF', '#C9C7C1', '#1F1F1F'
_LETTER = 0.056  # width of a letter of a bar's name, inches
_WIDTH = 8  # of a picture, inches


def percent(share: float) -> str:
    """Write a share so that little does not look like nothing.

    Examples
    --------
    >>> percent(0.45), percent(0.004), percent(0)
    ('45%', '0.4%', '0%')
    """
    return f'{share:.0%}' if not 0 < share < 0.095 else f'{share:.1%}'


def draw(timelines: Sequence[Lanes]) -> Figure:
    """Draw timelines one above the other, on one time axis; see ``Lanes.plot``.

    Examples
    --------
    >>> from mgpu_helpers.lanes import Span, Lanes
    >>> len(draw([Lanes([Span('cpu(0)', 'forward', 'dot', 0.0, 0.5)])]).axes)
    1
    """
    longest = max(t.seconds for t in timelines)
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    show_figures()
    heights = [0.75 * len(t.lanes) + 0.3 for t in timelines]
    figure = Figure(figsize=(_WIDTH, sum(heights) + 0.85), **LOOK)
    figure.get_layout_engine().set(hspace=0.1)  # a panel's title away from the axis above it
    panels = figure.subplots(
        len(timelines), sharex=True, squeeze=False, gridspec_kw={'height_ratios': heights}
    )
    for axes, timeline in zip(panels[:, 0], timelines, strict=True):
        _draw_panel(axes, timeline, longest)
    panels[-1, 0].set_xlabel('time, ms')
    shown = [kind for kind in KINDS if any(kind in t.kinds() for t in timelines)]
    marks = [Patch(color=KINDS[kind], label=kind) for kind in shown]
    marks.append(Patch(facecolor=_EMPTY, edgecolor=_EDGE, label='idle'))
    figure.legend(
        handles=marks,
        loc='outside upper center',
        ncols=len(marks),
        frameon=False,
        handlelength=1.4,
        columnspacing=1.6,
    )
    return figure


def _draw_panel(axes: Axes, timeline: Lanes, longest: float) -> None:
    """Draw one timeline into its panel, whose time axis is ``longest`` seconds long."""
    first, last = timeline.ends()
    inch = longest / (_WIDTH - 0.4 - 0.085 * max(map(len, timeline.lanes)))  # in seconds, along x
    for y, lane in enumerate(timeline.lanes):
        axes.broken_barh([(0, 1e3 * (last - first))], (y - 0.4, 0.8), fc=_EMPTY, ec=_EDGE, lw=0.8)
        dealt = rows([s for s in timeline.spans if s.lane == lane])
        height = 0.8 / max(len(dealt), 1)
        for i, row in enumerate(dealt):
            _draw_row(axes, row, first, inch, y - 0.4 + i * height, height)
    axes.set_xlim(-2 * longest, 1005 * longest)
    axes.set_ylim(len(timeline.lanes) - 0.45, -0.55)  # the first lane on top
    axes.set_yticks(range(len(timeline.lanes)), timeline.lanes)
    axes.tick_params(axis='y', length=0)
    axes.tick_params(axis='x', labelbottom=True)
    axes.spines[['top', 'left', 'right']].set_visible(False)
    axes.set_facecolor(LOOK['facecolor'])  # white is for idle
    axes.set_title(timeline.title, loc='left', fontsize='medium')
    together = f', two or more at work: {percent(timeline.overlap)}' * (len(timeline.lanes) > 1)
    ms = 1e3 * (last - first)
    length = f'{ms:,.0f} ms' if ms >= 100 else f'{ms:.3g} ms'
    axes.set_title(f'{length}{together}', loc='right', fontsize='small')


def _draw_row(
    axes: Axes, row: Sequence[Span], first: float, inch: float, y: float, height: float
) -> None:
    """Draw bars that do not overlap, and the names of those that have room for them."""
    for kind in {s.kind for s in row}:
        # Without edges, which would make all of a short operator an edge. What moves lies on top:
        # it is short, and the next bar would hide it.
        bars = [s for s in row if s.kind == kind]
        shape = [(1e3 * (s.start - first), 1e3 * max(s.seconds, inch / 100)) for s in bars]
        z = 1.2 if kind in MOVING else 1.1
        axes.broken_barh(shape, (y, height), color=KINDS[kind], linewidth=0, zorder=z)
    for s in row:
        if s.seconds > 0.06 * inch:  # wide enough to be told apart from the bar before it
            line: dict[str, Any] = {'color': _EMPTY, 'alpha': 0.4, 'lw': 0.5, 'zorder': 1.3}
            axes.vlines(1e3 * (s.start - first), y, y + height, **line)
        if height > 0.15 and s.seconds > (_LETTER * len(s.name) + 0.08) * inch:
            middle = 1e3 * ((s.start + s.end) / 2 - first), y + height / 2
            ink = _EMPTY if s.kind in _DARK else _INK
            axes.text(*middle, s.name, color=ink, fontsize=7, ha='center', va='center')
