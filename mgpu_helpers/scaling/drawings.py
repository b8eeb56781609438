"""What the pictures of this room share, and the one of the algorithms' costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import checks
from ..display import CYCLE, GREY, panels, quantity
from .costs import COSTS, meeting_point

if TYPE_CHECKING:
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from .links import Link

STYLES: list[dict[str, Any]] = [
    {'color': color, 'marker': marker, 'markersize': 4} for color, marker in zip(CYCLE, 'osD^vP')
]


def in_units(axis: Axis, unit: str) -> None:
    """Label an axis in quantities: 1 kB, 20 µs."""
    from matplotlib.ticker import NullFormatter

    axis.set_major_formatter(lambda value, _: quantity(value, unit))
    axis.set_minor_formatter(NullFormatter())


def plot_costs(devices: int, link: Link) -> Figure:
    """Draw what an allreduce costs with each algorithm, for 1 kB to 1 GB.

    A line marks where butterfly and halving-doubling meet, if they do. ``sharded`` is left out: its
    curve is that of ``ring``.
    """
    checks.whole_number('devices', devices, least=2)
    sizes = [int(10 ** (i / 2)) for i in range(6, 19)]
    names = [name for name in COSTS if name != 'sharded']
    costs = {name: [COSTS[name](devices, n, link) for n in sizes] for name in names}
    figure, axes = panels(height=3.6)
    for style, (name, cost) in zip(STYLES, costs.items()):
        axes.plot(sizes, cost, label=name, **style)
    if devices > 2 and not devices & (devices - 1):
        meet = meeting_point(devices, link)
        axes.axvline(meet, color=GREY, ls='--', label=f'they meet at {quantity(meet, "B")}')
    axes.set(xscale='log', yscale='log', xlabel='gradient', ylabel='time')
    axes.set_title(f'{devices:,} devices, {link.name}')
    in_units(axes.xaxis, 'B')
    in_units(axes.yaxis, 's')
    axes.legend(fontsize='small')
    return figure
