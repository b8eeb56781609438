"""What the pictures of this room share, and the one of the algorithms' costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import checks
from ..display import BLUE, GREEN, GREY, ORANGE, PINK, RED, SKY, panels, percent, quantity
from .costs import ALGORITHMS, meeting_point

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from .links import Link

STYLES: list[dict[str, Any]] = [
    {'color': color, 'marker': marker, 'markersize': 4}
    for color, marker in zip((BLUE, ORANGE, GREEN, PINK, SKY, RED), 'osD^vP')
]


def in_units(axis: Axis, unit: str) -> None:
    """Label an axis in quantities: 1 kB, 20 µs."""
    from matplotlib.ticker import NullFormatter

    axis.set_major_formatter(lambda value, _: quantity(value, unit))
    axis.set_minor_formatter(NullFormatter())


def in_powers_of_two(axes: Axes, which: str, values: Sequence[float]) -> None:
    """Count an axis, ``'x'`` or ``'y'``, in powers of two, written out: 1, 2, 4, ... 1,024."""
    getattr(axes, f'set_{which}scale')('log', base=2)
    low, high = (math.floor(math.log2(f(values))) for f in (min, max))
    ticks = [2.0**i for i in range(low, high + 1)]
    ticks = ticks[:: math.ceil(len(ticks) / 12)]  # for as many there is room
    axis = getattr(axes, f'{which}axis')
    axis.set_ticks(ticks, [f'{tick:,g}' for tick in ticks], fontsize=7 if len(ticks) > 7 else 9)
    axis.set_ticks([], minor=True)


def in_shares(axes: Axes, title: str) -> None:
    """Count the y axis in percent, from nothing to a little above all."""
    axes.set(title=title, ylim=(0, 1.05))
    axes.yaxis.set_major_formatter(lambda share, _: percent(share))


def plot_costs(devices: int, link: Link) -> Figure:
    """Draw what an allreduce costs with each algorithm, for 1 kB to 1 GB.

    A line marks where butterfly and halving-doubling meet, if they do. ``sharded`` is left out: its
    curve is that of ``ring``.
    """
    checks.whole_number('devices', devices, least=2)
    sizes = [int(10 ** (i / 2)) for i in range(6, 19)]
    names = [name for name in ALGORITHMS if name != 'sharded']
    costs = {name: [ALGORITHMS[name](devices, n, link) for n in sizes] for name in names}
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
