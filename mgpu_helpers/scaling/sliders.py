"""Sliders: how a training step scales, for devices, links, batches and models of one's choice."""

from __future__ import annotations

import base64
import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import arguments, display
from ..display import percent, png, quantity
from ..lanes import KINDS
from .bill import plot_bill
from .curves import Step, step, strong_scaling
from .links import Link
from .machines import MACHINES, Machine
from .models import MODELS, Layer, Model

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 4096  # devices at the right end of the curve
# What a convolutional network computes for each parameter, and what a V100 keeps up with it.
WORK = MODELS['ResNet-50'].flops / MODELS['ResNet-50'].parameters
FLOPS = MACHINES['p3.16xlarge'].flops
# Each slider's unit (None: a count, written out) and values, in ten steps for a power of ten.
SLIDERS: dict[str, tuple[str | None, list[Any]]] = {
    'devices': (None, [2**i for i in range(13)]),
    'bandwidth': ('B/s', [10 ** (i / 10) for i in range(80, 121)]),
    'latency': ('s', [10 ** (i / 10) for i in range(-60, -29)]),
    'batch': (None, [2**i for i in range(11)]),
    'parameters': ('', [round(10 ** (i / 10)) for i in range(50, 101)]),
}


def picture(
    devices: int = 64,
    bandwidth: float = 3.125e9,  # 25 Gb/s: the allreduce takes a little longer than the backward
    latency: float = 14e-6,
    batch: int = 32,
    parameters: int = 25_600_000,  # ResNet-50
) -> Figure:
    """Draw how well up to 4,096 devices work together, and where the time of a step goes.

    Above: weak scaling, which keeps the ``batch`` per device, and strong scaling, which keeps that
    of all ``devices`` together. Below: one step, with a ring. ``bandwidth`` is in bytes a second,
    ``latency`` in seconds. The model computes 320 operations for each parameter and example, as
    ResNet-50 does, on V100s.
    """
    arguments.whole_number('devices', devices, least=1, most=MOST)
    arguments.positive_int('parameters', parameters)
    machine = Machine('chosen', FLOPS, Link('chosen', latency, bandwidth))
    model = Model('chosen', [Layer('all', parameters, WORK * parameters)])
    counts = sorted({2**i for i in range(MOST.bit_length())} | {devices})
    alone = step(model, batch, 1, machine).seconds
    weak = {k: k * alone / step(model, batch, k, machine).seconds for k in counts}
    whole = batch * devices
    fewer = [k for k in counts if k <= whole]  # nobody is left without an example
    strong = dict(zip(fewer, strong_scaling(model, whole, fewer, machine).speedup, strict=True))
    return _draw(weak, strong, step(model, batch, devices, machine))


BILL: dict[str, tuple[str | None, list[Any]]] = {
    'parameters': ('', [10 ** (i / 10) for i in range(80, 121)]),
    'tokens': ('', [10 ** (i / 10) for i in range(90, 141)]),
    'gpus': (None, [2**i for i in range(15)]),
    'mfu': (None, [i / 20 for i in range(1, 15)]),
    'critical': ('', [10 ** (i / 10) for i in range(60, 91)]),
    'price': (None, [i / 4 for i in range(1, 41)]),
}
TITLES = {
    'batch': 'batch per device',
    'gpus': 'H100s',
    'mfu': 'MFU',
    'critical': 'critical batch, tokens',
    'price': 'price of a GPU hour',
}


class Explorer:
    """A picture with ``sliders``, by name, and the ``image`` that follows them, as PNG.

    ``start`` says where the sliders begin, as the arguments of ``draw`` do. Where widgets do not
    run, a notebook shows the first picture alone.
    """

    def __init__(
        self,
        draw: Callable[..., Figure] = picture,
        choices: dict[str, tuple[str | None, list[Any]]] = SLIDERS,
        /,
        **start: Any,
    ) -> None:
        self._draw = draw
        bound = inspect.signature(draw).bind(**start)
        bound.apply_defaults()
        self._choice = bound.arguments
        self._first = png(draw(**self._choice))  # says what is wrong before anything is shown
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
        for name, (unit, values) in choices.items():
            values = sorted({*values, self._choice[name]})
            titles = [f'{v:,}' if unit is None else quantity(v, unit).strip() for v in values]
            slider = widgets.SelectionSlider(
                options=list(zip(titles, values, strict=True)),
                value=self._choice[name],
                description=TITLES.get(name, name),
                style={'description_width': '11em'},
                layout={'width': '100%', 'max_width': '640px'},
            )
            slider.observe(functools.partial(self._move, name), 'value')
            self.sliders[name] = slider
        self.view = widgets.VBox([*self.sliders.values(), self.image])

    def _move(self, name: str, change: dict[str, Any]) -> None:
        self._choice[name] = change['new']
        self.image.value = png(self._draw(**self._choice))

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        """The sliders; or, where there is no kernel, the first picture."""
        values = ', '.join(f'{name}={value!r}' for name, value in self._choice.items())
        return {
            **self.view._repr_mimebundle_(),
            'text/plain': f'sliders, and what they show: {self._draw.__name__}({values})',
            'image/png': base64.b64encode(self._first).decode(),
        }


explore = Explorer


def explore_bill(**start: Any) -> Explorer:
    """Show ``plot_bill`` with sliders for its arguments, which begin at those of ``start``."""
    return Explorer(plot_bill, BILL, **start)


def _draw(weak: dict[int, float], strong: dict[int, float], chosen: Step) -> Figure:
    """Draw speed-up and efficiency by devices, and the chosen step below them."""
    from matplotlib.figure import Figure

    display.show_figures()
    # Margins that stay: laid out anew for every choice, the picture would twitch.
    figure = Figure(figsize=(8, 4.9), facecolor=display.LOOK['facecolor'])
    margins = {'left': 0.1, 'right': 0.97, 'top': 0.94, 'bottom': 0.1, 'hspace': 0.55}
    left, right, below = figure.subplot_mosaic(
        [['speed-up', 'efficiency'], ['step', 'step']], height_ratios=[3, 1], gridspec_kw=margins
    ).values()
    for axes in (left, right, below):
        axes.grid(alpha=0.3)
        axes.set_axisbelow(True)
        axes.spines[['top', 'right']].set_visible(False)
    left.plot([1, MOST], [1, MOST], '--', color=display.GREY, label='ideal')
    right.axhline(1, linestyle='--', color=display.GREY)
    names = f'{chosen.batch:,} on each', f'{chosen.batch * chosen.devices:,} in all'
    for speedup, label, color in zip((weak, strong), names, display.CYCLE):
        shares = {k: value / k for k, value in speedup.items()}
        for axes, curve in ((left, speedup), (right, shares)):
            axes.plot(*zip(*curve.items()), 'o-', color=color, markersize=4, label=label)
    faster = weak[chosen.devices]
    efficiency = faster / chosen.devices
    for axes, here in ((left, faster), (right, efficiency)):
        axes.plot([chosen.devices], [here], 'o', color=display.RED, ms=9, clip_on=False, zorder=5)
        axes.set_xscale('log', base=2)
        axes.set_xlabel('devices')
    left.set_yscale('log', base=2)
    for axis in (left.xaxis, left.yaxis, right.xaxis):
        axis.set_ticks([4**i for i in range(7)])
        axis.set_major_formatter('{x:,.0f}')
    left.set_ylim(min(0.6, 0.7 * min(weak.values())), 1.6 * MOST)
    left.legend(fontsize='small', frameon=False)
    left.set_title(f'speed-up over one device: {faster:,.3g}', size='medium')
    right.set_ylim(0, 1.05)
    right.yaxis.set_major_formatter(lambda share, _: percent(share))
    right.set_title(f'efficiency, speed-up per device: {percent(efficiency)}', size='medium')
    _draw_step(below, chosen)
    return figure


def _draw_step(axes: Axes, chosen: Step) -> None:
    """Draw one step: what is computed, and below it the allreduce, which ends with the step."""
    from matplotlib.ticker import EngFormatter

    seconds, communication = chosen.seconds, chosen.communication
    bars = (
        (1, chosen.overhead, chosen.forward, 'forward', KINDS['forward']),
        (1, chosen.overhead + chosen.forward, chosen.backward, 'backward', KINDS['backward']),
        (0, seconds - communication, communication - chosen.exposed, 'hidden', display.ORANGE),
        (0, seconds - chosen.exposed, chosen.exposed, 'not hidden', display.ORANGE),
    )
    for row, start, length, name, color in bars:
        alpha = 0.45 if name == 'hidden' else 1
        axes.barh(row, length, left=start, height=0.75, color=color, alpha=alpha)
        if length > 0.25 * seconds:  # where it fits
            middle, ink = start + length / 2, display.WHITE if name == 'backward' else display.INK
            text = f'{name}, {quantity(length, "s")}'
            axes.text(middle, row, text, color=ink, ha='center', va='center')
    axes.set_yticks([1, 0], ['compute', 'allreduce'])
    axes.set(xlim=(0, seconds), ylim=(-0.5, 1.5))
    axes.xaxis.set_major_formatter(EngFormatter('s'))
    axes.set_title(
        f'one step on {chosen.devices:,} devices: {quantity(seconds, "s")}, in which the '
        f'allreduce takes {quantity(communication, "s")}',
        size='medium',
    )
