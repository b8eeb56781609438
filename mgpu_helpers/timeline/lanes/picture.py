"""The picture of spans: a panel for each recording, a row per lane, a bar per span."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...display import EDGE, INK, LOOK, WHITE, panels, percent, quantity
from .spans import KINDS, MOVING, Span, ends, rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DARK = ('compute', 'backward', 'copy')  # white letters on these
_LETTER = 0.056  # width of a letter of a bar's name, inches
_WIDTH = 8  # of a picture, inches


def draw(shown: Sequence[Any]) -> Figure:
    """Draw Lanes one above the other, on one time axis, which begins with each one's first span.

    What would be narrower than a hundredth of an inch is drawn that wide.
    """
    longest = max(panel.seconds for panel in shown)
    from matplotlib.patches import Patch

    heights = [0.75 * len(panel.lanes) + 0.3 for panel in shown]
    figure, grid = panels(
        len(shown),
        height=sum(heights) + 0.85,
        sharex=True,
        squeeze=False,
        gridspec_kw={'height_ratios': heights},
    )
    figure.get_layout_engine().set(hspace=0.1)  # a panel's title away from the axis above it
    for axes, panel in zip(grid[:, 0], shown, strict=True):
        _draw_panel(axes, panel, longest)
    grid[-1, 0].set_xlabel('time, ms')
    kinds = {s.kind for panel in shown for s in panel.spans}
    marks = [Patch(color=color, label=kind) for kind, color in KINDS.items() if kind in kinds]
    marks.append(Patch(facecolor=WHITE, edgecolor=EDGE, label='idle'))
    figure.legend(
        handles=marks,
        loc='outside upper center',
        ncols=len(marks),
        frameon=False,
        handlelength=1.4,
        columnspacing=1.6,
    )
    return figure


def _draw_panel(axes: Axes, panel: Any, longest: float) -> None:
    """Draw what ``Lanes`` show; the time axis is ``longest`` seconds long."""
    first, last = ends(panel.spans)
    inch = longest / (_WIDTH - 0.4 - 0.085 * max(map(len, panel.lanes)))  # in seconds, along x
    for y, spans in enumerate(panel.by_lane().values()):
        axes.broken_barh([(0, 1e3 * (last - first))], (y - 0.4, 0.8), fc=WHITE, ec=EDGE, lw=0.8)
        dealt = rows(spans)
        height = 0.8 / max(len(dealt), 1)
        for i, row in enumerate(dealt):
            _draw_row(axes, row, first, inch, y - 0.4 + i * height, height)
    axes.grid(False)
    axes.set_xlim(-2 * longest, 1005 * longest)
    axes.set_ylim(len(panel.lanes) - 0.45, -0.55)  # the first lane on top
    axes.set_yticks(range(len(panel.lanes)), panel.lanes)
    axes.tick_params(axis='y', length=0)
    axes.tick_params(axis='x', labelbottom=True)
    axes.spines[['top', 'left', 'right']].set_visible(False)
    axes.set_facecolor(LOOK['facecolor'])  # white is for idle
    axes.set_title(panel.title, loc='left', fontsize='medium')
    together = f', two or more at work: {percent(panel.overlap)}' * (len(panel.lanes) > 1)
    axes.set_title(f'{quantity(last - first, "s")}{together}', loc='right', fontsize='small')


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
            line: dict[str, Any] = {'color': WHITE, 'alpha': 0.4, 'lw': 0.5, 'zorder': 1.3}
            axes.vlines(1e3 * (s.start - first), y, y + height, **line)
        if height > 0.15 and s.seconds > (_LETTER * len(s.name) + 0.08) * inch:
            middle = 1e3 * ((s.start + s.end) / 2 - first), y + height / 2
            ink = WHITE if s.kind in _DARK else INK
            axes.text(*middle, s.name, color=ink, fontsize=7, ha='center', va='center')
