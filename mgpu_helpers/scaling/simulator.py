"""Training steps played through: what each device does, and what it waits for.

The formulas of ``curves`` need every device to be as fast as any other. Here each computes layer by
layer in its own time, and gradients travel in buckets, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from .. import checks
from ..collectives.algorithms import OURS
from ..collectives.counting import count
from ..collectives.filling import fill_buckets
from ..display import Table, percent, quantity
from ..timeline.lanes import Lanes, Span
from .inputs import check_machine
from .machines import Machine, communication_seconds
from .models import FLOAT32

if TYPE_CHECKING:
    from .links import Link
    from .models import Model

    # Name, gradient_bytes (0 without parameters), seconds of forward and backward pass.
    LayerTimes = tuple[str, float, float, float]
    Travel = tuple[str, float, float]  # lane, start, end

DRAWN = 16  # devices up to which a timeline is kept
PLAYED = 64  # devices up to which messages can be simulated one by one
MOST = 10**8  # devices times steps: 8 bytes each


@dataclass(frozen=True)
class Simulation:
    """What a simulation found; seconds are those of one step, the mean over all steps."""

    title: str
    devices: int
    batch: int  # examples that each device takes in a step
    seconds: float  # from forward pass to update
    alone: float  # seconds on one device that waits for nobody
    exposed: float  # seconds in which the last backward pass is done and the network is not
    # (devices,), the share of the time in which each does not compute, 0 to 1.
    waiting: np.ndarray = field(repr=False)
    _spans: list[Span] = field(repr=False)

    @property
    def throughput(self) -> float:
        """Examples a second, of all devices together."""
        return self.devices * self.batch / self.seconds

    @property
    def efficiency(self) -> float:
        """Throughput of a device as a share of that of one device alone, 0 to 1."""
        return self.alone / self.seconds

    @property
    def timeline(self) -> Lanes:
        """What each device and the network did when; for up to 16 devices."""
        if self.devices > DRAWN:
            raise ValueError(
                f'{self.devices} devices are too many for a picture: simulate {DRAWN} or fewer'
            )
        return Lanes(self._spans, self.title)

    def table(self, *others: Simulation) -> Table:
        """Lay the main figures out, a row for this simulation and each of the others."""
        rows = [
            (
                s.title,
                s.devices,
                quantity(s.seconds, 's'),
                quantity(s.exposed, 's'),
                percent(s.waiting.mean()),
                f'{s.throughput:,.0f}',
                percent(s.efficiency),
            )
            for s in (self, *others)
        ]
        heads = ['simulated', 'devices', 'step', 'exposed', 'waiting', 'examples/sec', 'efficiency']
        return Table(rows, heads)


def simulate(
    model: Model | Sequence[LayerTimes],
    batch: int,
    devices: int,
    machine: Machine | Link,
    algorithm: str = 'ring',
    bucket_bytes: float | None = 25 * 2**20,
    overlap: bool = True,
    spread: float = 0.0,
    update: float = 0.0,
    steps: int = 1,
    seed: int = 0,
    messages: bool = False,
    title: str | None = None,
) -> Simulation:
    """Simulate data-parallel training steps, with ``batch`` examples on each device.

    ``model`` may be a list of layers, with times for this batch; then a link will do as a machine.
    ``bucket_bytes``: see ``fill_buckets``; None sends each layer's gradient by itself. A device's
    computing in a step takes longer by a factor, drawn from a log-normal distribution with mean 1
    and standard deviation ``spread``. ``update`` is what the optimizer takes, in seconds.
    ``messages`` plays each allreduce message by message, on up to 64 devices.
    """
    layers, overhead = _layers(model, batch, machine)
    checks.positive_int('devices', devices)
    checks.positive_int('steps', steps)
    if devices * steps > MOST:
        raise ValueError(
            f'{devices:,} devices times {steps:,} steps are more than {MOST:,}: simulate fewer '
            'devices or steps'
        )
    checks.not_negative('spread', spread)
    if spread > 1:
        raise ValueError(
            f'spread must be at most 1, not {spread}: the standard deviation as a share of the mean'
        )
    checks.whole_number('seed', seed)
    checks.not_negative('update in seconds', update)
    works = [('compute', 'overhead', overhead)] if overhead else []
    works.append(('forward', 'forward', sum(forward for _, _, forward, _ in layers)))
    works += [('backward', name, backward) for name, _, _, backward in reversed(layers)]
    done = np.cumsum([seconds for *_, seconds in works])  # when each ends, in a step begun at 0
    # The backward pass ends with the first layer, so layer i's gradient is there with work -1 - i.
    sent = [i for i, (_, nbytes, _, _) in enumerate(layers) if nbytes]
    sizes = [layers[i][1] for i in sent]
    each = [[i] for i in reversed(range(len(sizes)))]
    buckets = each if bucket_bytes is None else fill_buckets(sizes, bucket_bytes)
    filled = [done[-1 - sent[bucket[-1]]] for bucket in buckets]
    network = _network(machine, devices, algorithm, messages)
    travels = [network(sum(sizes[i] for i in bucket)) for bucket in buckets]
    costs = [max((end for _, _, end in travel), default=0.0) for travel in travels]

    factors = _factors(spread, steps, devices, seed)
    begin, free, exposed, spans = np.zeros(devices), 0.0, 0.0, []
    for longer in factors:  # one step: by what the computing of each device takes longer
        computed, starts = float((begin + done[-1] * longer).max()), []
        # Buckets fill in the same order on all devices, and the network carries one at a time:
        # each leaves when all devices have filled it and the one before has arrived.
        for full, cost in zip(filled, costs):
            ready = float((begin + full * longer).max()) if overlap else computed
            starts.append(max(free, ready))
            free = starts[-1] + cost
        summed = max(free, computed)
        exposed += summed - computed
        updated = summed + update * longer  # each goes on to its next step at once
        if devices <= DRAWN:
            ends = begin + np.outer([0, *done], longer)
            spans += _spans(works, [*ends, updated], zip(starts, travels), summed)
        begin = updated
    end, alone = float(begin.max()), float(done[-1] + update)
    # Clipped, because a device that never waits may miss 0 by a rounding.
    waiting = (1 - alone * factors.sum(axis=0) / end).clip(0)
    title = title or ', '.join(
        [getattr(model, 'name', 'layers'), algorithm, *([] if overlap else ['no overlap'])]
    )
    return Simulation(title, devices, batch, end / steps, alone, exposed / steps, waiting, spans)


def _spans(
    works: Sequence[tuple[str, str, float]],
    ends: Sequence[np.ndarray],
    buckets: Iterable[tuple[float, Sequence[Travel]]],
    summed: float,
) -> list[Span]:
    """Draw one step: ``ends`` of each work (devices,) after its begin, then of the update."""
    found = []
    for device, times in enumerate(np.transpose(ends).tolist()):
        starts = [*times[:-2], summed]
        named = zip([*works, ('update', 'update', 0)], starts, times[1:])
        found += [(f'device {device}', kind, name, a, b) for (kind, name, _), a, b in named]
    for i, (start, travel) in enumerate(buckets, 1):
        found += [(lane, 'allreduce', f'bucket {i}', start + a, start + b) for lane, a, b in travel]
    return [Span(*one) for one in found if one[-1] > one[-2]]


def _network(
    machine: Machine | Link, devices: int, algorithm: str, messages: bool
) -> Callable[[float], list[Travel]]:
    """Make what says which lanes carry so many bytes from when to when: one, or each sender's."""
    joined = machine if isinstance(machine, Machine) else Machine('links', 1.0, machine)
    communication_seconds(devices, 1, joined, algorithm)  # says so if this one cannot run here
    if not messages:
        return lambda n: [('network', 0.0, communication_seconds(devices, n, joined, algorithm))]
    checks.one_of('algorithm, played message by message,', algorithm, OURS)
    if devices > PLAYED:
        raise ValueError(
            f'{devices} devices are too many to simulate message by message: use at most '
            f'{PLAYED}, or messages=False'
        )
    numbers = devices << (devices.bit_length() - 1)  # so many can be cut as each of them does
    counted, link = count(OURS[algorithm], devices, numbers), joined.slowest(devices)

    def carry(nbytes: float) -> list[Travel]:
        played = counted.travel(lambda n: link.seconds(n * nbytes / (FLOAT32 * numbers)))
        return [(f'device {m.source} sends', m.start, m.end) for m in played]

    return carry


def _layers(
    model: Model | Sequence[LayerTimes], batch: int, machine: Machine | Link
) -> tuple[Sequence[LayerTimes], float]:
    """Give the layers' times, and the seconds of a step that do not depend on them."""
    checks.positive_int('batch', batch)
    if hasattr(model, 'layers'):
        check_machine(machine)
        assert isinstance(machine, Machine)
        times = [(one, batch * one.flops / machine.flops) for one in model.layers]
        layers = [(one.name, FLOAT32 * one.parameters, t, 2 * t) for one, t in times]
        return layers, machine.overhead
    if isinstance(model, str) or not hasattr(model, '__iter__'):
        raise TypeError(
            f"model must be a Model, such as MODELS['VGG-16'], or a list of layers, not "
            f'{checks.shown(model)}'
        )
    model = list(model)
    for layer in model:
        if not isinstance(layer, (list, tuple)) or len(layer) != 4:
            raise TypeError(
                'a layer must be (name, gradient_bytes, forward_seconds, backward_seconds), not '
                f'{checks.shown(layer)}'
            )
        for name, value in zip(('gradient_bytes', 'forward', 'backward'), layer[1:]):
            checks.not_negative(f'{name} of layer {layer[0]!r}', value)
    if not any(forward or backward for _, _, forward, backward in model):
        raise ValueError('no layer takes any time: give at least one with seconds above 0')
    return model, getattr(machine, 'overhead', 0.0)


def _factors(spread: float, steps: int, devices: int, seed: int) -> np.ndarray:
    """Draw by what each device's computing in each step is longer, (steps, devices); mean 1."""
    if not spread:
        return np.ones((steps, devices))
    variance = np.log1p(spread**2)  # of the logarithm
    rng = np.random.default_rng(seed)
    return rng.lognormal(-variance / 2, np.sqrt(variance), (steps, devices))
