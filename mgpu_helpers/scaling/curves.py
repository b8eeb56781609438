"""How long a training step takes, and how that grows with the devices: formulas, no simulation.

A step is a forward pass, a backward pass that takes twice as long, and the part of the allreduce
that does not fit behind the backward pass. Devices are equally fast, the gradient is ready bit by
bit, and nothing else gets in the way: what this predicts is the best that a machine can do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import checks
from ..display import Table, percent, quantity
from .machines import communication_seconds

if TYPE_CHECKING:
    from .machines import Machine
    from .models import Model


@dataclass(frozen=True)
class Step:
    """Where the seconds of one training step go."""

    devices: int
    batch: int  # examples on each
    overhead: float
    forward: float
    backward: float
    communication: float
    exposed: float  # of the communication, what comes after the backward pass has ended

    @property
    def seconds(self) -> float:
        """Of the whole step."""
        return self.overhead + self.forward + self.backward + self.exposed


def step(
    model: Model,
    batch: int,
    devices: int,
    machine: Machine,
    algorithm: str = 'ring',
    overlap: bool = True,
    buckets: int = 1,
) -> Step:
    """Work out a training step in its parts, with ``batch`` examples on each device.

    ``overlap`` lets gradients travel during the backward pass; they are sent in ``buckets``
    allreduces.
    """
    checks.model(model)
    checks.positive_int('batch', batch)
    communication = communication_seconds(devices, model.nbytes, machine, algorithm, buckets)
    forward = batch * model.flops / machine.flops
    backward = 2 * forward  # gradients of the inputs and of the parameters, each like a forward
    hidden = min(communication, backward) if overlap else 0.0
    exposed = communication - hidden
    return Step(devices, batch, machine.overhead, forward, backward, communication, exposed)


def hiding_batch(model: Model, devices: int, machine: Machine, algorithm: str = 'ring') -> int:
    """Find the smallest batch per device behind whose backward pass the allreduce fits.

    By hand: b examples keep the backward pass busy for 2 b F / R seconds (F operations forward for
    one, R a second); the allreduce takes C; so b is C R / 2 F, rounded up.
    """
    checks.model(model)
    communication = communication_seconds(devices, model.nbytes, machine, algorithm)
    backward_of_one = 2 * model.flops / machine.flops
    return max(1, math.ceil(communication / backward_of_one))


@dataclass(frozen=True)
class Scaling:
    """A training step on more and more devices."""

    steps: list[Step]  # one for each number of devices
    examples: list[int]  # in each step, on all devices together
    single: float  # examples a second on one device: what speed-up is measured against

    @property
    def devices(self) -> list[int]:
        """How many, entry by entry."""
        return [step.devices for step in self.steps]

    @property
    def seconds(self) -> list[float]:
        """Time of a step."""
        return [step.seconds for step in self.steps]

    @property
    def throughput(self) -> list[float]:
        """Examples a second."""
        return [n / s for n, s in zip(self.examples, self.seconds, strict=True)]

    @property
    def speedup(self) -> list[float]:
        """How many times the throughput of one device."""
        return [rate / self.single for rate in self.throughput]

    @property
    def efficiency(self) -> list[float]:
        """Speed-up per device, 1 at best."""
        return [s / k for s, k in zip(self.speedup, self.devices, strict=True)]

    def table(self) -> Table:
        """Lay the numbers of devices out, one per row."""
        columns = (self.steps, self.throughput, self.speedup, self.efficiency)
        rows = [
            [
                f'{step.devices:,}',
                f'{step.batch:,}',
                quantity(step.seconds, 's'),
                quantity(step.communication, 's'),
                quantity(step.exposed, 's'),
                f'{rate:,.0f}',
                f'{speedup:.1f}' if speedup < 100 else f'{speedup:,.0f}',
                percent(efficiency),
            ]
            for step, rate, speedup, efficiency in zip(*columns, strict=True)
        ]
        headers = 'devices,batch on each,step,allreduce,not hidden,examples/sec,speed-up,efficiency'
        return Table(rows, headers.split(','))


def weak_scaling(
    model: Model,
    batch_per_device: int,
    device_counts: Sequence[int],
    machine: Machine,
    **options: Any,
) -> Scaling:
    """Let the batch grow with the devices: each always has ``batch_per_device`` examples.

    ``options`` are ``algorithm``, ``overlap`` and ``buckets``, as in ``step``.
    """
    checks.model(model)
    checks.counts('device_counts', device_counts)
    checks.positive_int('batch_per_device', batch_per_device)
    runs = [(k, batch_per_device * k) for k in device_counts]
    return _scaling(model, machine, runs, batch_per_device, options)


def strong_scaling(
    model: Model,
    global_batch: int,
    device_counts: Sequence[int],
    machine: Machine,
    **options: Any,
) -> Scaling:
    """Share one batch among more and more devices: the work stays, the part of each shrinks.

    Where it cannot be shared out evenly, the largest part sets the time. It is measured against one
    device with the whole batch, whether that would fit there or not; ``options`` as above.
    """
    checks.model(model)
    checks.counts('device_counts', device_counts)
    checks.positive_int('global_batch', global_batch)
    if max(device_counts) > global_batch:
        raise ValueError(
            f'a batch of {global_batch:,} cannot be shared by {max(device_counts):,} devices: some '
            'would get no example; use a larger batch or fewer devices'
        )
    runs = [(k, global_batch) for k in device_counts]
    return _scaling(model, machine, runs, global_batch, options)


def _scaling(
    model: Model,
    machine: Machine,
    runs: Sequence[tuple[int, int]],
    batch_of_one: int,
    options: dict[str, Any],
) -> Scaling:
    """Work out a step for each (devices, examples), and one device to compare with."""
    steps = [step(model, math.ceil(n / k), k, machine, **options) for k, n in runs]
    single = batch_of_one / step(model, batch_of_one, 1, machine, **options).seconds
    return Scaling(steps, [n for _, n in runs], single)
