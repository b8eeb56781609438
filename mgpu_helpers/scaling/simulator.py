"""Training steps played through event by event: what each device does, and what it waits for.

The formulas of ``curves`` need every device to be as fast as any other. Here each computes layer by
layer in its own time, gradients travel in buckets, and what happens next is whatever comes first.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .. import checks
from ..display import Table
from ..lanes import Lanes
from .drawings import milliseconds
from .events import DRAWN, Network, Run
from .inputs import check_machine
from .machines import Machine
from .models import FLOAT32

if TYPE_CHECKING:
    from ..lanes import Span
    from .events import Phase
    from .links import Link
    from .models import Model

    LayerTimes = tuple[str, float, float, float]  # name, gradient_bytes, forward, backward

BYTES, STEP_BYTES = 240, 48  # of a device: tracemalloc found 168 for one step, 456 for ten


class Work(NamedTuple):
    """What one layer asks of a device in one step.

    Parameters
    ----------
    name : str
        What it is called in a picture.
    gradient_bytes : float
        Bytes of its gradient; 0 for a layer without parameters.
    forward, backward : float
        Seconds of computing.
    """

    name: str
    gradient_bytes: float
    forward: float
    backward: float


@dataclass(frozen=True)
class Simulation:
    """What a simulation found.

    Parameters
    ----------
    title : str
        What was simulated.
    devices, batch : int
        How many devices, and how many examples each takes in a step.
    seconds : float
        Of one step, from forward pass to update; the mean over all steps.
    alone : float
        Seconds of a step on one device that waits for nobody.
    exposed : float
        Seconds of a step in which the last device's backward pass is done and the network is not.
    waiting : array of float
        For each device, the share of the time in which it does not compute, 0 to 1.
    """

    title: str
    devices: int
    batch: int
    seconds: float
    alone: float
    exposed: float
    waiting: np.ndarray = field(repr=False)
    _spans: list[Span] | None = field(repr=False, default=None)

    @property
    def throughput(self) -> float:
        """float: examples a second, of all devices together."""
        return self.devices * self.batch / self.seconds

    @property
    def efficiency(self) -> float:
        """float: throughput of a device as a share of that of one device alone, 0 to 1."""
        return self.alone / self.seconds

    @property
    def timeline(self) -> Lanes:
        """Timeline: what each device and the network did when; for up to 16 devices."""
        if self._spans is None:
            raise ValueError(
                f'{self.devices} devices are too many for a picture: simulate {DRAWN} or fewer'
            )
        return Lanes(self._spans, self.title)

    def table(self, *others: Simulation) -> Table:
        """Lay the main figures out, a row for this simulation and each of the others.

        Returns
        -------
        Table
        """
        rows = [
            (
                s.title,
                s.devices,
                milliseconds(s.seconds),
                milliseconds(s.exposed),
                f'{s.waiting.mean():.0%}',
                f'{s.throughput:,.0f}',
                f'{s.efficiency:.0%}',
            )
            for s in (self, *others)
        ]
        return Table(
            rows,
            ['simulated', 'devices', 'step', 'exposed', 'waiting', 'examples/sec', 'efficiency'],
        )


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
    """Simulate data-parallel training steps.

    Parameters
    ----------
    model : Model or list of (name, gradient_bytes, forward_seconds, backward_seconds)
        The network, layers in forward order. Given as a list, with its times for this batch.
    batch : int
        Examples on each device.
    devices : int
        How many there are.
    machine : Machine or Link
        What a device computes and what it is connected with; for a list, a link is enough.
    algorithm : str
        A name in ``ALGORITHMS``, or ``'hierarchical'`` on a machine.
    bucket_bytes : float or None
        Gradients travel together in buckets of at most so many bytes, filled from the last layer
        on; None: each layer's alone. A layer is never cut, so a larger one travels alone.
    overlap : bool
        Whether a bucket may travel during the backward pass (else after that of all devices).
    spread : float
        Standard deviation of a device's computing time, as a share of its mean.
    update : float
        Seconds that the optimizer takes once a device has all sums.
    steps : int
        How many to simulate.
    seed : int
        Of the random times: the same seed gives the same.
    messages : bool
        Whether each collective is played through message by message, up to 64 devices.
    title : str, optional
        What it is called in a table or picture.

    Returns
    -------
    Simulation

    Raises
    ------
    TypeError, ValueError
        If an argument is not of its kind or range, if there is no such algorithm, or if memory does
        not suffice for so many devices. Before anything is simulated.

    Notes
    -----
    All computing of a device in a step takes longer or shorter by one factor, drawn anew for every
    device and step from a log-normal distribution with mean 1 and standard deviation ``spread``.
    The network carries one collective at a time, in the order of the backward pass; one starts when
    all devices have the gradients of its bucket. A device updates when it has all sums, and goes on
    to the next step at once.

    Examples
    --------
    >>> from mgpu_helpers.scaling import Link
    >>> layers = [('first', 100, 1.0, 2.0), ('second', 300, 1.0, 2.0)]
    >>> link = Link('example', latency=0.5, bandwidth=100.0)
    >>> found = simulate(layers, 10, 2, link, bucket_bytes=None)
    >>> found.seconds, found.exposed, found.throughput
    (10.0, 4.0, 2.0)
    """
    work, overhead = _work(model, batch, machine)
    _check(devices, bucket_bytes, spread, steps, update, seed)
    network = Network(machine, devices, algorithm, messages)
    _fits_in_memory(devices, steps)
    factors = _factors(spread, steps, devices, seed).tolist()
    run = Run(*_phases(work, overhead, update, bucket_bytes), network, steps, factors)
    run.go(overlap)
    return _result(run, title or _title(model, algorithm, overlap), batch)


def _result(run: Run, title: str, batch: int) -> Simulation:
    alone = sum(run.seconds)
    waiting = 1 - alone * np.sum(run.factors, axis=0) / run.end
    return Simulation(
        title,
        run.devices,
        batch,
        run.end / run.steps,
        alone,
        run.exposed / run.steps,
        waiting.clip(0),  # a device that never waits may miss 0 by a rounding
        run.spans,
    )


def _title(model: Model | Sequence[LayerTimes], algorithm: str, overlap: bool) -> str:
    """Name a simulation by what it simulates."""
    named = [getattr(model, 'name', 'layers'), algorithm, *([] if overlap else ['no overlap'])]
    return ', '.join(named)


def _work(
    model: Model | Sequence[LayerTimes], batch: int, machine: Machine | Link
) -> tuple[list[Work], float]:
    """Give the layers as Work, and the seconds of a step that do not depend on them."""
    checks.positive_int('batch', batch)
    if hasattr(model, 'layers'):
        check_machine(machine)
        assert isinstance(machine, Machine)
        seconds = [batch * layer.flops / machine.flops for layer in model.layers]
        return [
            Work(layer.name, FLOAT32 * layer.parameters, t, 2 * t)
            for layer, t in zip(model.layers, seconds)
        ], machine.overhead
    if isinstance(model, str) or not hasattr(model, '__iter__'):
        raise TypeError(
            f"model must be a Model, such as MODELS['VGG-16'], or a list of layers, not "
            f'{checks.shown(model)}'
        )
    work = [_one(layer) for layer in model]
    if not sum(layer.forward + layer.backward for layer in work):
        raise ValueError('no layer takes any time: give at least one with seconds above 0')
    return work, getattr(machine, 'overhead', 0.0)


def _one(layer: LayerTimes) -> Work:
    """Check one layer of a list."""
    if not isinstance(layer, (list, tuple)) or len(layer) != 4:
        raise TypeError(
            'a layer must be (name, gradient_bytes, forward_seconds, backward_seconds), not '
            f'{checks.shown(layer)}'
        )
    work = Work(*layer)
    for name in Work._fields[1:]:
        checks.not_negative(f'{name} of layer {work.name!r}', getattr(work, name))
    return work


def _check(
    devices: int, bucket_bytes: float | None, spread: float, steps: int, update: float, seed: int
) -> None:
    checks.positive_int('devices', devices)
    checks.positive_int('steps', steps)
    checks.not_negative('spread', spread)
    if spread > 1:
        raise ValueError(
            f'spread must be at most 1, not {spread}: the standard deviation as a share of the mean'
        )
    checks.whole_number('seed', seed)
    checks.not_negative('update in seconds', update)
    if bucket_bytes is not None:
        checks.positive_number('bucket_bytes', bucket_bytes)


def _phases(
    work: Sequence[Work], overhead: float, update: float, bucket_bytes: float | None
) -> tuple[list[Phase], dict[int, int], list[float]]:
    """List what a device does in a step, and fill buckets in the order of the backward pass.

    Gives (kind, name, seconds) of each phase, which phases close which bucket, and the buckets'
    bytes. The last phase is the update, the one before it the end of the backward pass.
    """
    phases = [('compute', 'overhead', overhead)] if overhead else []
    phases.append(('forward', 'forward', sum(layer.forward for layer in work)))
    closes, sizes, last = {}, [], None  # `last`: the phase that computes a bucket's last gradient
    for layer in reversed(work):
        size = layer.gradient_bytes
        if size and last is not None and sizes[-1] + size <= (bucket_bytes or 0):
            del closes[last]
            sizes[-1] += size
        elif size:
            sizes.append(size)
        if size:
            last = len(phases)
            closes[last] = len(sizes) - 1
        phases.append(('backward', layer.name, layer.backward))
    return [*phases, ('update', 'update', update)], closes, sizes


def _factors(spread: float, steps: int, devices: int, seed: int) -> np.ndarray:
    """Draw by what each device's computing in each step is longer; the mean is 1."""
    if not spread:
        return np.ones((steps, devices))
    variance = np.log1p(spread**2)  # of the logarithm
    rng = np.random.default_rng(seed)
    return rng.lognormal(-variance / 2, np.sqrt(variance), (steps, devices))


def _fits_in_memory(devices: int, steps: int) -> None:
    """Raise if so many devices would not fit into what is free now."""
    each, free = BYTES + STEP_BYTES * steps, free_memory()
    if free is not None and devices * each > free:
        raise ValueError(
            f'{devices:,} simulated devices need {devices * each / 1e9:,.1f} GB, and '
            f'{free / 1e9:,.1f} GB are free: at most {free // each:,} fit; simulate fewer devices '
            'or steps'
        )


def free_memory() -> int | None:
    """Give the bytes of memory that no process uses; None where the system does not say.

    Examples
    --------
    >>> free = free_memory()
    >>> free is None or free > 0
    True
    """
    try:
        return os.sysconf('SC_AVPHYS_PAGES') * os.sysconf('SC_PAGE_SIZE')
    except (AttributeError, ValueError):  # Windows has no sysconf, macOS not this value
        return None
