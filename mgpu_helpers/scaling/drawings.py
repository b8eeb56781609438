"""The pictures and tables of ``curves`` and ``memory``."""

from ..display import Table, show_figures
from ..history import LOOK

# Okabe and Ito's colours, told apart with any colour vision, as in the drawn figures.
BLUE, ORANGE, GREEN, PINK = '#0072B2', '#E69F00', '#009E73', '#CC79A7'
STYLES = [
    {'color': color, 'marker': marker, 'markersize': 4}
    for color, marker in zip((BLUE, ORANGE, GREEN, PINK, '#56B4E9', '#D55E00'), 'osD^vP')
]
GREY = '#85837E'
PARTS = {
    'parameters': BLUE,
    'gradients': ORANGE,
    'optimizer_state': PINK,
    'activations': GREEN,
}


def milliseconds(seconds):
    """Write a time in milliseconds: three digits, or all before the point.

    Examples
    --------
    >>> milliseconds(0.0123456), milliseconds(1.5)
    ('12.3 ms', '1,500 ms')
    """
    ms = 1000 * seconds
    return f'{ms:,.0f} ms' if ms >= 100 else f'{ms:.3g} ms'


def scaling_table(scaling):
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


def draw_scaling(scalings):
    """Draw speed-up and efficiency of ``Scaling`` objects over the devices; see there.

    Examples
    --------
    >>> from mgpu_helpers.scaling import many_devices
    >>> len(draw_scaling(many_devices()).axes)
    2
    """
    figure, (left, right) = _panels(height=3.4)
    most = max(max(scaling.devices) for scaling in scalings)
    left.plot([1, most], [1, most], '--', color=GREY, label='ideal')
    right.axhline(1, linestyle='--', color=GREY)
    for style, scaling in zip(STYLES * len(scalings), scalings):
        left.plot(scaling.devices, scaling.speedup, label=scaling.label, **style)
        right.plot(scaling.devices, scaling.efficiency, **style)
    for axes in (left, right):
        _powers_of_two(axes, 'x', most)
        axes.set_xlabel('devices')
    _powers_of_two(left, 'y', most)
    left.set_title('speed-up over one device')
    left.legend(fontsize='small')
    _shares(right, 'efficiency: speed-up per device')
    return figure


def draw_hiding(steps, alone, batch):
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
        _powers_of_two(axes, 'x', max(batches))
        axes.set_xlabel('batch on each device')
        axes.axvline(batch, linestyle='--', color=GREY)
    right.annotate(f' hidden from {batch:,} on', (batch, 0.04))
    left.legend(fontsize='small')
    return figure


def memory_table(memories):
    """Lay ``Memory`` objects out, one per row; see there.

    Examples
    --------
    >>> from mgpu_helpers.scaling import Memory
    >>> memory_table([Memory('small', 4e6, 4e6, 0, 12e6)]).rows
    [['small', '4 MB', '4 MB', '0 MB', '12 MB', '20 MB']]
    """
    rows = [
        [memory.label, *(f'{getattr(memory, part) / 1e6:,.3g} MB' for part in (*PARTS, 'total'))]
        for memory in memories
    ]
    return Table(rows, ['training', *(part.replace('_', ' ') for part in PARTS), 'together'])


def draw_memory(memories, limit=None):
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
        axes.axvline(limit / 1e9, linestyle='--', color=GREY, label='memory of the device')
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()  # the first on top
    axes.set_xlabel('GB on each device')
    axes.grid(axis='x', alpha=0.3)
    axes.set_axisbelow(True)
    figure.legend(loc='outside upper center', ncols=5, fontsize='small')
    return figure


def _panels(height):
    from matplotlib.figure import Figure

    show_figures()
    figure = Figure(figsize=(8, height), **LOOK)
    panels = figure.subplots(1, 2)
    for axes in panels:
        axes.grid(alpha=0.3)
    return figure, panels


def _powers_of_two(axes, which, most):
    """Count an axis in powers of two, written out: 1, 2, 4, ... 1,024."""
    from matplotlib.ticker import NullLocator

    getattr(axes, f'set_{which}scale')('log', base=2)
    stride = 1 if most <= 64 else 2  # as many as there is room for
    ticks = [2**i for i in range(0, int(most).bit_length(), stride)]
    axis = getattr(axes, f'{which}axis')
    axis.set_ticks(ticks, [f'{tick:,}' for tick in ticks])
    axis.set_minor_locator(NullLocator())


def _shares(axes, title):
    from matplotlib.ticker import PercentFormatter

    axes.set(title=title, ylim=(0, 1.05))
    axes.yaxis.set_major_formatter(PercentFormatter(1))
