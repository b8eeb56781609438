"""The pictures and tables of ``costs``, ``curves`` and ``memory``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..display import LOOK, Table, show_figures
from .costs import ALGORITHMS
from .inputs import check_counts
from .models import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .curves import Scaling, Step
    from .links import Link
    from .memory import Memory

# Okabe and Ito's colours, told apart with any colour vision, as in the drawn figures.
BLUE, ORANGE, GREEN, PINK = '#0072B2', '#E69F00', '#009E73', '#CC79A7'
STYLES: list[dict[str, Any]] = [
    {'color': color, 'marker': marker, 'markersize': 4}
    for color, marker in zip((BLUE, ORANGE, GREEN, PINK, '#56B4E9', '#D55E00'), 'osD^vP')
]
GREY = '#85837E'
LIMIT = 'memory of the device'
PARTS = {
    'parameters': BLUE,
    'gradients': ORANGE,
    'optimizer_state': PINK,
    'activations': GREEN,
}

SIZES = tuple(4**i for i in range(5, 15))  # 1 KiB to 256 MiB


def plot_costs(devices: int, link: Link, sizes: Sequence[int] = SIZES) -> Figure:
    """Draw what an allreduce costs with each algorithm, from short messages to long ones.

    ``sharded`` is left out: its curve is that of ``ring``.

    Parameters
    ----------
    devices : int
        How many there are.
    link : Link
        What each is connected with.
    sizes : list of float
        Bytes; by default 1 KiB to 256 MiB.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    TypeError, ValueError
        As the algorithms, and if ``sizes`` is no list of integers.

    Examples
    --------
    >>> from mgpu_helpers.scaling import LINKS
    >>> len(plot_costs(8, LINKS['PCIe 3 x16']).axes)
    1
    """
    from matplotlib.figure import Figure

    check_counts('sizes', sizes)
    names = [name for name in ALGORITHMS if name != 'sharded']
    costs = {name: [1000 * ALGORITHMS[name](devices, n, link) for n in sizes] for name in names}
    show_figures()
    figure = Figure(figsize=(8, 3.6), **LOOK)
    axes = figure.subplots()
    for style, (name, cost) in zip(STYLES, costs.items()):
        # Nearly as dear as naive: with gaps, so that both are seen.
        look = {'linestyle': '--'} if name == 'through_host' else {}
        axes.plot(sizes, cost, label=name, **{**style, **look})
    axes.set_xscale('log', base=4)
    axes.set_xticks(sizes, [_binary(n) for n in sizes], fontsize=9)
    axes.set(yscale='log', xlabel='gradient', ylabel='time in ms')
    axes.set_title(f'{devices:,} devices, {link.name}')
    axes.yaxis.set_major_formatter('{x:,g}')
    axes.grid(alpha=0.3)
    axes.legend(fontsize='small')
    return figure


def _binary(nbytes: float) -> str:
    for factor, unit in ((2**30, 'GiB'), (2**20, 'MiB'), (2**10, 'KiB')):
        if nbytes >= factor:
            return f'{nbytes / factor:.3g} {unit}'
    return f'{nbytes} B'


def milliseconds(seconds: float) -> str:
    """Write a time in milliseconds: three digits, or all before the point.

    Examples
    --------
    >>> milliseconds(0.0123456), milliseconds(1.5)
    ('12.3 ms', '1,500 ms')
    """
    ms = 1000 * seconds
    return f'{ms:,.0f} ms' if ms >= 100 or not ms else f'{ms:#.3g} ms'


def scaling_table(scaling: Scaling) -> Table:
    """Lay a ``Scaling`` out; see there.

    Examples
    --------
    >>> from mgpu_helpers.scaling import eight_slower_than_one
    >>> scaling_table(eight_slower_than_one()).rows[-1][0]
    '8'
    """
    columns = (scaling.steps, scaling.throughput, scaling.speedup, scaling.efficiency)
    rows = [
        [
            f'{step.devices:,}',
            f'{step.batch:,}',
            milliseconds(step.seconds),
            milliseconds(step.communication),
            milliseconds(step.exposed),
            f'{rate:,.0f}',
            f'{speedup:.1f}' if speedup < 100 else f'{speedup:,.0f}',
            f'{efficiency:.0%}',
        ]
        for step, rate, speedup, efficiency in zip(*columns, strict=True)
    ]
    headers = 'devices,batch on each,step,allreduce,not hidden,examples/sec,speed-up,efficiency'
    return Table(rows, headers.split(','))


def draw_scaling(scalings: Sequence[Scaling]) -> Figure:
    """Draw speed-up and efficiency of ``Scaling`` objects over the devices; see there.

    Examples
    --------
    >>> from mgpu_helpers.scaling import many_devices
    >>> len(draw_scaling(many_devices()).axes)
    2
    """
    figure, (left, right) = _panels(height=3.4)
    devices = [k for scaling in scalings for k in (1, *scaling.devices)]
    speedups = [x for scaling in scalings for x in scaling.speedup]
    left.plot([1, max(devices)], [1, max(devices)], '--', color=GREY, label='ideal')
    right.axhline(1, linestyle='--', color=GREY)
    for style, scaling in zip(STYLES * len(scalings), scalings):
        left.plot(scaling.devices, scaling.speedup, label=scaling.label, **style)
        right.plot(scaling.devices, scaling.efficiency, **style)
    for axes in (left, right):
        _powers_of_two(axes, 'x', devices)
        axes.set_xlabel('devices')
    _powers_of_two(left, 'y', devices + speedups)
    left.set_title('speed-up over one device')
    left.legend(fontsize='small')
    _shares(right, 'efficiency: speed-up per device')
    return figure


def draw_hiding(steps: Sequence[Step], alone: Sequence[Step], batch: int) -> Figure:
    """Draw when an allreduce hides behind the backward pass; see ``curves.plot_hiding``.

    ``steps`` are one for each batch, ``alone`` the same on one device, ``batch`` is where it hides.

    Examples
    --------
    >>> from mgpu_helpers.scaling import Step
    >>> steps = [Step(2, b, 0, b, 2 * b, 9, max(0, 9 - 2 * b)) for b in (1, 2, 4, 8)]
    >>> alone = [Step(1, b, 0, b, 2 * b, 0, 0) for b in (1, 2, 4, 8)]
    >>> len(draw_hiding(steps, alone, batch=5).axes)
    2
    """
    figure, (left, right) = _panels(height=3.4)
    batches = [step.batch for step in steps]
    backward = [1000 * step.backward for step in steps]
    allreduce = [1000 * step.communication for step in steps]
    left.plot(batches, backward, label='backward pass', **STYLES[0])
    left.plot(batches, allreduce, label='allreduce', **STYLES[1])
    left.fill_between(
        batches,
        backward,
        allreduce,
        where=[b < c for b, c in zip(backward, allreduce)],
        color=ORANGE,
        alpha=0.2,
        interpolate=True,
        label='not hidden',
    )
    left.set(yscale='log', title='time in ms')
    left.yaxis.set_major_formatter('{x:,g}')
    right.plot(batches, [a.seconds / s.seconds for a, s in zip(alone, steps)], **STYLES[2])
    _shares(right, 'efficiency')
    for axes in (left, right):
        _powers_of_two(axes, 'x', batches)
        axes.set_xlabel('batch on each device')
        axes.axvline(batch, linestyle='--', color=GREY)
    # Below the curve on the right of the line, above it on the left: where there is room.
    side, height = ('left', 0.04) if 8 * batch <= max(batches) else ('right', 0.92)
    right.annotate(f' hidden from {batch:,} on ', (batch, height), horizontalalignment=side)
    left.legend(fontsize='small')
    return figure


def memory_table(memories: Sequence[Memory]) -> Table:
    """Lay ``Memory`` objects out, one per row; see there.

    Examples
    --------
    >>> from mgpu_helpers.scaling import Memory
    >>> memory_table([Memory('small', 4e6, 4e6, 0, 12e6)]).rows
    [['small', '4 MB', '4 MB', '0 B', '12 MB', '20 MB']]
    """
    rows = [
        [memory.label, *(short(getattr(memory, part)) + 'B' for part in (*PARTS, 'total'))]
        for memory in memories
    ]
    return Table(rows, ['training', *(part.replace('_', ' ') for part in PARTS), 'together'])


def draw_memory(memories: Sequence[Memory], limit: float | None = None) -> Figure:
    """Draw ``Memory`` objects as bars; see there.

    Examples
    --------
    >>> from mgpu_helpers.scaling import Memory
    >>> len(draw_memory([Memory('small', 4e6, 4e6, 0, 12e6)], limit=16e6).axes)
    1
    """
    from matplotlib.figure import Figure

    show_figures()
    figure = Figure(figsize=(8, 1.3 + 0.36 * len(memories)), **LOOK)
    axes = figure.subplots()
    labels, start = [memory.label for memory in memories], [0] * len(memories)
    for part, color in PARTS.items():
        sizes = [getattr(memory, part) / 1e9 for memory in memories]
        axes.barh(range(len(labels)), sizes, left=start, color=color, label=part.replace('_', ' '))
        start = [a + b for a, b in zip(start, sizes)]
    if limit:
        axes.axvline(limit / 1e9, linestyle='--', color=GREY, label=LIMIT)
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()  # the first on top
    axes.set_xlabel('GB on each device')
    axes.grid(axis='x', alpha=0.3)
    axes.set_axisbelow(True)
    handles, names = axes.get_legend_handles_labels()
    order = sorted(range(len(names)), key=lambda i: names[i] == LIMIT)  # the parts come first
    shown = [handles[i] for i in order], [names[i] for i in order]
    figure.legend(*shown, loc='outside upper center', ncols=5, fontsize='small')
    return figure


def _panels(height: float) -> tuple[Figure, Sequence[Axes]]:
    from matplotlib.figure import Figure

    show_figures()
    figure = Figure(figsize=(8, height), **LOOK)
    panels = figure.subplots(1, 2)
    for axes in panels:
        axes.grid(alpha=0.3)
        axes.tick_params(labelsize='small')
    return figure, panels


def _powers_of_two(axes: Axes, which: str, values: Sequence[float]) -> None:
    """Count an axis in powers of two, written out: 1, 2, 4, ... 1,024."""
    from matplotlib.ticker import NullLocator

    getattr(axes, f'set_{which}scale')('log', base=2)
    low, high = (math.floor(math.log2(f(values))) for f in (min, max))
    ticks = [2.0**i for i in range(low, high + 1)]
    ticks = ticks[:: math.ceil(len(ticks) / 14)]  # for as many there is room
    axis = getattr(axes, f'{which}axis')
    axis.set_ticks(ticks, [f'{tick:,g}' for tick in ticks], fontsize=7 if len(ticks) > 7 else 9)
    axis.set_minor_locator(NullLocator())


def _shares(axes: Axes, title: str) -> None:
    from matplotlib.ticker import PercentFormatter

    axes.set(title=title, ylim=(0, 1.05))
    axes.yaxis.set_major_formatter(PercentFormatter(1))
