"""Simulate training steps, with gradients in buckets and devices of unequal speed.

In the formulas of ``curves``, every byte is sent as soon as the link is free. Here gradients are
sent in buckets, one after the other, once every device has filled the bucket.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import arguments
from ..collectives.messages import fill_buckets
from .machines import Machine, communication_seconds
from .models import Model


@dataclass(frozen=True)
class Simulation:
    """The result of a simulation; times are in seconds per step, averaged over the steps."""

    seconds: float  # from forward pass to update
    alone: float  # seconds on one device without waiting

    @property
    def efficiency(self) -> float:
        """Return a device's speed relative to one device alone, 0 to 1."""
        return self.alone / self.seconds


def last_arrival(filled: Iterable[Any], seconds: Iterable[float]) -> Any:
    """Return the time at which the last bucket arrives if bucket i is full at ``filled[i]``.

    Each bucket waits for the previous one, then takes its ``seconds``. Times may be arrays.
    """
    free = 0
    for ready, takes in zip(filled, seconds):
        free = np.maximum(free, ready) + takes
    return free


def simulate(
    model: Model,
    batch: int,
    devices: int,
    machine: Machine,
    algorithm: str = 'ring',
    bucket_bytes: float = 25 * 2**20,
    spread: float = 0.0,
    lasting: bool = False,
    steps: int = 1,
    seed: int = 0,
) -> Simulation:
    """Simulate data-parallel training steps, with ``batch`` examples on each device.

    ``bucket_bytes`` is for ``fill_buckets``: 1 sends each layer's gradient alone, 1e12 all of them
    together at the end. A device's computing time is multiplied by a random factor, from a
    log-normal distribution with mean 1 and standard deviation ``spread``: drawn again for every
    step or, if ``lasting``, once for all steps.
    """
    arguments.check(model=model)
    arguments.positive_int('batch', batch)
    arguments.positive_int('steps', steps)
    communication_seconds(devices, 1, machine, algorithm)  # raises if the algorithm cannot run here
    arguments.not_negative('spread', spread)
    arguments.whole_number('seed', seed)
    arguments.whole_number('devices times steps', devices * steps, most=10**8)  # 8 bytes each
    if spread > 1:
        raise ValueError(f'spread must be a fraction of the mean, at most 1, not {spread}')
    forward = np.array([batch * layer.flops / machine.flops for layer in model.layers])
    # The backward pass goes from the last layer to the first: when is each gradient ready?
    ready = machine.overhead + forward.sum() + 2 * forward[::-1].cumsum()[::-1]
    sizes = [model.value_bytes * layer.parameters for layer in model.layers]
    sent = [i for i, size in enumerate(sizes) if size]
    buckets = fill_buckets([sizes[i] for i in sent], bucket_bytes)
    variance = np.log1p(spread**2)  # of the factor's logarithm
    of_each = np.random.default_rng(seed).lognormal(
        -variance / 2, np.sqrt(variance), (1 if lasting else steps, devices)
    )
    # All devices begin a step when the previous one has ended, so each waits for the slowest.
    slowest = of_each.max(axis=1)
    filled = [ready[sent[bucket[-1]]] * slowest for bucket in buckets]
    takes = [
        communication_seconds(devices, sum(sizes[sent[i]] for i in bucket), machine, algorithm)
        for bucket in buckets
    ]
    end = np.maximum(last_arrival(filled, takes), ready[0] * slowest)
    return Simulation(float(end.mean()), float(ready[0]))
