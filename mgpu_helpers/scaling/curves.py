"""The time of a training step, and how it scales with the number of devices, by formulas.

A step is a forward pass, a backward pass that takes twice as long, and the part of the allreduce
that is not hidden behind the backward pass. Devices are equally fast, and gradients can be sent at
any time during the backward pass: the best case.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .. import arguments
from .machines import Machine, communication_seconds
from .models import Model


@dataclass(frozen=True)
class Step:
    """The parts of one training step's time, in seconds."""

    devices: int
    batch: int  # examples on each device
    overhead: float
    forward: float
    backward: float
    communication: float
    exposed: float  # the communication after the end of the backward pass

    @property
    def seconds(self) -> float:
        """Return the time of the whole step."""
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
    """Compute the parts of a training step, with ``batch`` examples on each device.

    With ``overlap``, gradients travel during the backward pass, in ``buckets`` allreduces.
    """
    arguments.check(model=model)
    arguments.positive_int('batch', batch)
    communication = communication_seconds(devices, model.nbytes, machine, algorithm, buckets)
    forward = batch * model.flops / machine.flops
    backward = 2 * forward  # gradients of the inputs and of the parameters, each as long as forward
    exposed = max(0, communication - backward) if overlap else communication
    return Step(devices, batch, machine.overhead, forward, backward, communication, exposed)


def hiding_batch(model: Model, devices: int, machine: Machine, algorithm: str = 'ring') -> int:
    """Find the smallest batch per device whose backward pass hides the allreduce.

    That is the allreduce's time divided by that of one example's backward pass, rounded up.
    """
    one = step(model, 1, devices, machine, algorithm)
    return max(1, math.ceil(one.communication / one.backward))


@dataclass(frozen=True)
class Scaling:
    """The time per batch on an increasing number of devices."""

    batch: int  # examples in each step, on all devices together
    steps: list[Step]  # one per number of devices
    alone: float  # seconds of a step on one device

    @property
    def seconds(self) -> list[float]:
        """Return the time of a step, for each number of devices."""
        return [step.seconds for step in self.steps]

    @property
    def speedup(self) -> list[float]:
        """Return the speed-up over one device, for each number of devices."""
        return [self.alone / step.seconds for step in self.steps]


def strong_scaling(
    model: Model,
    global_batch: int,
    device_counts: Sequence[int],
    machine: Machine,
    **options: Any,
) -> Scaling:
    """Split one batch over more and more devices: the work stays the same, the shards shrink.

    If it does not split evenly, the largest shard sets the time. The speed-up is over one device
    with the whole batch, even if that would not fit; ``options`` are ``algorithm``, ``overlap`` and
    ``buckets``, as in ``step``.
    """
    arguments.check(device_counts=device_counts)
    arguments.positive_int('global_batch', global_batch)
    if max(device_counts) > global_batch:
        raise ValueError(
            f'a batch of {global_batch:,} is too small for {max(device_counts):,} devices, so some '
            'would get no example: use a larger batch or fewer devices'
        )
    alone, *steps = (
        step(model, math.ceil(global_batch / k), k, machine, **options) for k in (1, *device_counts)
    )
    return Scaling(global_batch, steps, alone.seconds)
