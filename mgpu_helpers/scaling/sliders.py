"""Sliders: how a training step scales, for devices, links, batches and models of one's choice."""

from __future__ import annotations

import base64
import functools
from typing import TYPE_CHECKING, Any

from .. import checks
from ..display import (
    BLUE,
    GREY,
    INK,
    LOOK,
    ORANGE,
    RED,
    WHITE,
    percent,
    png,
    quantity,
    show_figures,
)
from ..lanes import KINDS
from .curves import step, strong_scaling, weak_scaling
from .drawings import in_units
from .links import Link
from .machines import MACHINES, Machine
from .models import MODELS, Layer, Model

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .curves import Scaling, Step

MOST = 4096  # devices at the right end of the curve
# What a convolutional network computes for each parameter, and what a V100 keeps up with it.
WORK = MODELS['ResNet-50'].flops / MODELS['ResNet-50'].parameters
FLOPS = MACHINES['p3.16xlarge'].flops
# ResNet-50 with 25 Gb/s: the allreduce takes a little longer than the backward pass
START: dict[str, Any] = {
    'devices': 64,
    'bandwidth': 3.125e9,
    'latency': 14e-6,
    'batch': 32,
    'parameters': 25_600_000,
}
# Each slider's unit (None: a count, written out) and values, in ten steps for a power of ten.
SLIDERS: dict[str, tuple[str | None, list[Any]]] = {
    'devices': (None, [2**i for i in range(13)]),
    'bandwidth': ('B/s', [10 ** (i / 10) for i in range(80, 121)]),
    'latency': ('s', [10 ** (i / 10) for i in range(-60, -29)]),
    'batch': (None, [2**i for i in range(11)]),
    'parameters': ('', [round(10 ** (i / 10)) for i in range(50, 101)]),
}


def picture(
    devices: int = START['devices'],
    bandwidth: float = START['bandwidth'],
    latency: float = START['latency'],
    batch: int = START['batch'],
    parameters: int = START['parameters'],
) -> Figure:
    """Draw how well up to 4,096 devices work together, and where the time of a step goes.

    Above: weak scaling, which keeps the ``batch`` per device, and strong scaling, which keeps that
    of all ``devices`` together. Below: one step, with a ring. ``bandwidth`` is in bytes a second,
    ``latency`` in seconds. The model computes 320 operations for each parameter and example, as
    ResNet-50 does, on V100s.
    """
    checks.positive_int('devices', devices)
    if devices > MOST:
        raise ValueError(f'devices must be at most {MOST}, not {devices}: the curve ends there')
    checks.positive_int('parameters', parameters)
    machine = Machine('chosen', FLOPS, Link('chosen', latency, bandwidth))
    model = Model('chosen', [Layer('all', parameters, WORK * parameters)])
    counts = sorted({2**i for i in range(MOST.bit_length())} | {devices})
    chosen = step(model, batch, devices, machine)
    whole = batch * devices
    fewer = [k for k in counts if k <= whole]  # nobody is left without an example
    weak = weak_scaling(model, batch, counts, machine)
    return _draw(weak, strong_scaling(model, whole, fewer, machine), chosen)


def explore(**start: Any) -> Explorer:
    """Show ``picture`` with sliders that change it; where widgets do not run, the picture alone.

    ``start`` says where the sliders begin: ``devices``, ``bandwidth``, ``latency``, ``batch``,
    ``parameters``.
    """
    return Explorer(**start)


class Explorer:
    """``sliders`` by name, the ``image`` that follows them, as PNG, and both in a ``view``."""

    def __init__(self, **start: Any) -> None:
        self._choice = START | start
        self._first = png(picture(**self._choice))  # says what is wrong before anything is shown
        try:
            import ipywidgets as widgets
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "explore() needs ipywidgets: pip install 'mgpu-helpers[notebooks]', or call "
                'picture() with values of your own',
                name='ipywidgets',
            ) from error
        self.image = widgets.Image(value=self._first, format='png', layout={'max_width': '800px'})
        self.sliders = {}
        for name, (unit, values) in SLIDERS.items():
            values = sorted({*values, self._choice[name]})
            titles = [f'{v:,}' if unit is None else quantity(v, unit).strip() for v in values]
            slider = widgets.SelectionSlider(
                options=list(zip(titles, values, strict=True)),
                value=self._choice[name],
                description='batch per device' if name == 'batch' else name,
                style={'description_width': '11em'},
                layout={'width': '100%', 'max_width': '640px'},
            )
            slider.observe(functools.partial(self._move, name), 'value')
            self.sliders[name] = slider
        self.view = widgets.VBox([*self.sliders.values(), self.image])

    def _move(self, name: str, change: dict[str, Any]) -> None:
        self._choice[name] = change['new']
        self.image.value = png(picture(**self._choice))

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


def _draw(weak: Scaling, strong: Scaling, chosen: Step) -> Figure:
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
    left, right = panels['speedup'], panels['efficiency']
    powers = [4**i for i in range(7)]
    labels = [f'{k:,}' for k in powers]
    left.plot([1, MOST], [1, MOST], '--', color=GREY, label='ideal')
    right.axhline(1, linestyle='--', color=GREY)
    here = weak.devices.index(chosen.devices)
    names = f'{chosen.batch:,} on each', f'{weak.examples[here]:,} in all'
    for scaling, label, color in zip((weak, strong), names, (BLUE, ORANGE), strict=True):
        for axes, values in ((left, scaling.speedup), (right, scaling.efficiency)):
            axes.plot(scaling.devices, values, 'o-', color=color, markersize=4, label=label)
    for axes, values in ((left, weak.speedup), (right, weak.efficiency)):
        axes.plot([chosen.devices], [values[here]], 'o', color=RED, ms=9, clip_on=False, zorder=5)
        axes.set_xscale('log', base=2)
        axes.set_xticks(powers, labels)
        axes.set_xlabel('devices')
    left.legend(fontsize='small', frameon=False)
    left.set_yscale('log', base=2)
    left.set_yticks(powers, labels)
    right.set_ylim(0, 1.05)
    right.yaxis.set_major_formatter(lambda share, _: percent(share))
    left.set_ylim(min(0.6, 0.7 * min(weak.speedup)), 1.6 * MOST)
    left.set_title(f'speed-up over one device: {weak.speedup[here]:,.3g}', size='medium')
    title = f'efficiency, speed-up per device: {percent(weak.efficiency[here])}'
    right.set_title(title, size='medium')
    _draw_step(panels['step'], chosen)
    return figure


def _draw_step(axes: Axes, chosen: Step) -> None:
    """Draw one step: what is computed, and below it the allreduce, which ends with the step."""
    hidden = chosen.communication - chosen.exposed
    computed, seconds = chosen.overhead + chosen.forward, chosen.seconds
    begin = seconds - chosen.communication
    bars: tuple[tuple[float, float, float, str, dict[str, Any]], ...] = (
        (1, chosen.overhead, chosen.forward, 'forward', {'color': KINDS['forward']}),
        (1, computed, chosen.backward, 'backward', {'color': KINDS['backward']}),
        (0, begin, hidden, 'hidden', {'color': ORANGE, 'alpha': 0.45}),
        (0, begin + hidden, chosen.exposed, 'not hidden', {'color': ORANGE}),
    )
    for y, start, long, name, look in bars:
        axes.barh(y, long, left=start, height=0.75, **look)
        text = f'{name}, {quantity(long, "s")}' if long > 0.25 * seconds else ''  # where it fits
        ink = WHITE if name == 'backward' else INK
        axes.text(start + long / 2, y, text, color=ink, ha='center', va='center')
    axes.set_yticks([1, 0], ['compute', 'allreduce'])
    axes.set(xlim=(0, seconds), ylim=(-0.5, 1.5))
    in_units(axes.xaxis, 's')
    axes.set_title(
        f'one step on {chosen.devices:,} devices: {quantity(seconds, "s")}, in which the '
        f'allreduce takes {quantity(chosen.communication, "s")}',
        size='medium',
    )
