"""Sliders: how a training step scales, for devices, links, batches and models of one's choice."""

from __future__ import annotations

import base64
import io
import math
from typing import TYPE_CHECKING, Any

from .. import checks
from ..display import LOOK, show_figures
from ..lanes import KINDS
from .costs import ALGORITHMS
from .curves import step, weak_scaling
from .drawings import milliseconds
from .links import Link
from .machines import MACHINES, Machine
from .models import MODELS, Layer, Model

if TYPE_CHECKING:
    from types import ModuleType

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .curves import Scaling, Step

MOST = 4096  # devices at the right end of the curve
# What a convolutional network computes for each parameter, and what a V100 keeps up with it.
WORK = MODELS['ResNet-50'].flops / MODELS['ResNet-50'].parameters
FLOPS = MACHINES['p3.16xlarge'].flops
TICKS = tuple(4**i for i in range(7))
CHOSEN, MUTED = '#D55E00', '#525252'
BACKWARD, EXPOSED = {'color': KINDS['backward']}, {'color': KINDS['allreduce']}
HIDDEN = {'color': '#F5D899'}  # the same, lighter
# ResNet-50 with 25 Gb/s: the allreduce takes a little longer than the backward pass
START: dict[str, Any] = {
    'devices': 64,
    'bandwidth': 3.125e9,
    'latency': 14e-6,
    'batch': 32,
    'parameters': 25_600_000,
}


def picture(
    devices: int = START['devices'],
    bandwidth: float = START['bandwidth'],
    latency: float = START['latency'],
    batch: int = START['batch'],
    parameters: int = START['parameters'],
    algorithm: str = 'ring',
    overlap: bool = True,
    flops: float = FLOPS,
) -> Figure:
    """Draw how well so many devices work together, and where the time of a step goes.

    Parameters
    ----------
    devices : int
        How many, up to 4,096.
    bandwidth : float
        Of the link between them, in bytes a second.
    latency : float
        Of one message, in seconds.
    batch : int
        Examples on each device.
    parameters : int
        Of the model. It computes 320 operations for each of them and each example, as ResNet-50.
    algorithm : str
        A name in ``ALGORITHMS``.
    overlap : bool
        Whether gradients travel during the backward pass.
    flops : float
        Operations a second that a device keeps up; the default is a V100's.

    Returns
    -------
    matplotlib.figure.Figure
        Above: throughput over that of one device, and that per device, with the batch per device
        kept. Below: one step of the chosen machine.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    Examples
    --------
    >>> len(picture(devices=8, bandwidth=1e9).axes)
    3
    """
    checks.positive_int('devices', devices)
    if devices > MOST:
        raise ValueError(f'devices must be at most {MOST}, not {devices}: the curve ends there')
    checks.positive_int('batch', batch)
    checks.positive_int('parameters', parameters)
    checks.one_of('algorithm', algorithm, ALGORITHMS)
    machine = Machine('chosen', flops, Link('chosen', latency, bandwidth))
    model = Model('chosen', [Layer('all', parameters, WORK * parameters)])
    options: dict[str, Any] = {'algorithm': algorithm, 'overlap': overlap}
    counts = sorted({2**i for i in range(MOST.bit_length())} | {devices})
    curve = weak_scaling(model, batch, counts, machine, **options)
    chosen = step(model, batch, devices, machine, **options)
    return _draw(curve, chosen)


def explore(**start: Any) -> Explorer:
    """Show ``picture`` with sliders that change it; where widgets do not run, the picture alone.

    Parameters
    ----------
    **start
        Where the sliders begin: ``devices``, ``bandwidth``, ``latency``, ``batch``, ``parameters``;
        and, without a slider, ``algorithm``, ``overlap``, ``flops``. As in ``picture``.

    Returns
    -------
    Explorer
        As a cell's last value it shows itself.

    Raises
    ------
    ModuleNotFoundError
        If ipywidgets is not installed.
    TypeError, ValueError
        If a start value is out of range.

    Examples
    --------
    >>> explore(devices=8).sliders['devices'].value
    8
    """
    return Explorer(**start)


class Explorer:
    """Sliders and the picture that follows them.

    Parameters
    ----------
    **start
        See ``explore``.

    Attributes
    ----------
    sliders : dict of str to ipywidgets.Widget
        ``devices``, ``bandwidth`` (GB/s), ``latency`` (microseconds), ``batch``, ``parameters``
        (millions).
    image : ipywidgets.Image
        The picture as PNG.
    view : ipywidgets.Widget
        Both.
    """

    def __init__(self, **start: Any) -> None:
        self._choice = START | start
        self._first = _png(picture(**self._choice))  # says what is wrong before anything is shown
        widgets = _widgets()
        self.sliders = _sliders(widgets, self._choice)
        self.image = widgets.Image(value=self._first, format='png', layout={'max_width': '800px'})
        for name, slider in self.sliders.items():
            slider.observe(lambda change, name=name: self._move(name, change['new']), 'value')
        self.view = widgets.VBox([*self.sliders.values(), self.image])

    def _move(self, name: str, value: float) -> None:
        scale = SCALES.get(name, 1)
        self._choice[name] = round(value * scale) if name == 'parameters' else value * scale
        self.image.value = _png(picture(**self._choice))

    def __repr__(self) -> str:
        values = (
            f'{name}={value:.6g}' if isinstance(value, float) else f'{name}={value!r}'
            for name, value in self._choice.items()
        )
        return f'picture({", ".join(values)})'

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        """What a notebook shows: the sliders; or, where there is no kernel, the first picture."""
        return {
            **self.view._repr_mimebundle_(),
            'text/plain': f'sliders, and what they show: {self!r}',
            'image/png': base64.b64encode(self._first).decode(),
        }


POWERS = {'devices': [2**i for i in range(13)], 'batch': [2**i for i in range(11)]}
ENDS = {'bandwidth': (-1, 3, '.3g'), 'latency': (0, 3, '.3g'), 'parameters': (-1, 4, ',.4g')}
STEP = 0.02  # of the exponents, that is 5 percent of the value
TITLES = {
    'devices': 'devices',
    'bandwidth': 'bandwidth, GB/s',
    'latency': 'latency, µs',
    'batch': 'batch per device',
    'parameters': 'parameters, millions',
}
SCALES = {'bandwidth': 1e9, 'latency': 1e-6, 'parameters': 1e6}  # of a slider, to that of picture


def _widgets() -> ModuleType:
    try:
        import ipywidgets
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "explore() needs ipywidgets: pip install 'mgpu-helpers[notebooks]', or call picture() "
            'with values of your own',
            name='ipywidgets',
        ) from error
    return ipywidgets


def _sliders(widgets: ModuleType, start: dict[str, Any]) -> dict[str, Any]:
    """One slider for each value; those over several powers of ten move in powers."""
    sliders = {}
    for name, title in TITLES.items():
        look = {'description': title, 'style': {'description_width': '11em'}}
        look['layout'] = {'width': '100%', 'max_width': '640px'}
        if name in POWERS:
            options = sorted({*POWERS[name], start[name]})
            slider = widgets.SelectionSlider(options=options, value=start[name], **look)
        else:
            value, (low, high, shown) = start[name] / SCALES[name], ENDS[name]
            # A browser moves a slider to its nearest step: let the start value be one.
            low = math.log10(value) - STEP * math.floor((math.log10(value) - low) / STEP)
            slider = widgets.FloatLogSlider(value=value, min=low, max=high, step=STEP, **look)
            slider.readout_format = shown
        sliders[name] = slider
    return sliders


def _png(figure: Figure) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format='png', dpi=100)
    return file.getvalue()


def _draw(curve: Scaling, chosen: Step) -> Figure:
    from matplotlib.figure import Figure

    show_figures()
    # Margins that stay: laid out anew for every choice, the picture would twitch.
    figure = Figure(figsize=(8, 4.9), facecolor=LOOK['facecolor'])
    margins = {'left': 0.1, 'right': 0.97, 'top': 0.94, 'bottom': 0.1, 'hspace': 0.55}
    panels: dict[str, Axes] = figure.subplot_mosaic(
        [['speedup', 'efficiency'], ['step', 'step']], height_ratios=[3, 1], gridspec_kw=margins
    )
    for axes in panels.values():
        axes.grid(alpha=0.3)
        axes.set_axisbelow(True)
        axes.spines[['top', 'right']].set_visible(False)
    for name in ('speedup', 'efficiency'):
        _draw_curve(panels[name], curve.devices, getattr(curve, name), chosen.devices)
    here = curve.devices.index(chosen.devices)
    _draw_speedup(panels['speedup'], curve, f'{curve.speedup[here]:,.3g}')
    _draw_efficiency(panels['efficiency'], f'{curve.efficiency[here]:.0%}')
    _draw_step(panels['step'], chosen)
    return figure


def _draw_curve(axes: Axes, devices: list[int], values: list[float], chosen: int) -> None:
    """Draw values over numbers of devices, and where the chosen number lies."""
    axes.plot(devices, values, '.-', color=KINDS['compute'], markersize=5)
    here = values[devices.index(chosen)]
    axes.plot([chosen], [here], 'o', color=CHOSEN, markersize=9, clip_on=False, zorder=5)
    axes.set_xscale('log', base=2)
    axes.set_xticks(TICKS, [f'{n:,}' for n in TICKS])
    axes.tick_params(which='minor', length=0)
    axes.set_xlabel('devices')


def _draw_speedup(axes: Axes, curve: Scaling, here: str) -> None:
    axes.plot(curve.devices, curve.devices, ':', color=MUTED, lw=1, zorder=1)
    axes.set_yscale('log', base=2)
    axes.set_yticks(TICKS, [f'{n:,}' for n in TICKS])
    axes.set_ylim(min(0.6, 0.7 * min(curve.speedup)), 1.6 * MOST)
    axes.tick_params(which='minor', length=0)
    axes.set_title(f'speed-up over one device: {here}', size='medium')


def _draw_efficiency(axes: Axes, here: str) -> None:
    axes.axhline(1, ls=':', color=MUTED, lw=1, zorder=1)
    axes.set_ylim(0, 1.08)
    axes.yaxis.set_major_formatter(lambda share, _: f'{share:.0%}')
    axes.set_title(f'efficiency, speed-up per device: {here}', size='medium')


def _draw_step(axes: Axes, chosen: Step) -> None:
    """Draw one step: what is computed, and below it the allreduce, which ends with the step."""
    hidden = chosen.communication - chosen.exposed
    bars: tuple[tuple[float, float, float, str, dict[str, Any]], ...] = (
        (1, chosen.overhead, chosen.forward, 'forward', {'color': KINDS['forward']}),
        (1, chosen.overhead + chosen.forward, chosen.backward, 'backward', BACKWARD),
        (0, chosen.seconds - chosen.communication, hidden, 'hidden', HIDDEN),
        (0, chosen.seconds - chosen.exposed, chosen.exposed, 'not hidden', EXPOSED),
    )
    for y, start, seconds, name, look in bars:
        axes.barh(y, 1e3 * seconds, left=1e3 * start, height=0.75, **look)
        room = seconds / chosen.seconds / 0.0115  # in letters
        texts = (f'{name}, {milliseconds(seconds)}', name, '')
        text = next(text for text in texts if len(text) <= room)
        ink = '#FFFFFF' if look is BACKWARD else '#1F1F1F'
        axes.text(1e3 * (start + seconds / 2), y, text, color=ink, ha='center', va='center')
    axes.set_yticks([1, 0], ['compute', 'allreduce'])
    axes.tick_params(axis='y', length=0)
    axes.set(xlim=(0, 1e3 * chosen.seconds), ylim=(-0.5, 1.5), xlabel='ms')
    axes.xaxis.set_major_formatter('{x:,g}')
    axes.set_title(
        f'one step on {chosen.devices:,} devices: {milliseconds(chosen.seconds)}, in which the '
        f'allreduce takes {milliseconds(chosen.communication)}',
        size='medium',
    )
