"""The memory that a device needs for training."""

from __future__ import annotations

from dataclasses import dataclass

from .. import arguments
from .models import FLOAT32, Model


@dataclass(frozen=True)
class Memory:
    """The memory that one device needs, in bytes."""

    parameters: float
    gradients: float
    optimizer_state: float
    activations: float

    @property
    def total(self) -> float:
        """Return the sum of all four, in bytes."""
        return self.parameters + self.gradients + self.optimizer_state + self.activations


def memory_per_device(
    model: Model,
    batch: int,
    optimizer_state: int = 0,
    stage: int = 0,
    devices: int = 1,
) -> Memory:
    """Count the bytes that one device needs for training, with ``batch`` examples on it.

    ``optimizer_state`` is the number of float32 values that the optimizer stores per parameter:
    none for SGD, 1 with momentum, 2 for Adam, 3 with a copy of the parameters. ZeRO's ``stage`` 1
    shards them over ``devices``, 2 also the gradients, 3 also the parameters. Activations count
    each layer's output and its norm's, once; real frameworks need more: inputs, workspaces,
    buckets.
    """
    arguments.check(model=model)
    arguments.positive_int('batch', batch)
    arguments.positive_int('devices', devices)
    arguments.whole_number('optimizer_state', optimizer_state)
    arguments.whole_number('stage', stage, most=3)
    state, gradients, parameters = (devices if stage >= first else 1 for first in (1, 2, 3))
    return Memory(
        model.nbytes / parameters,
        model.nbytes / gradients,
        FLOAT32 * optimizer_state * model.parameters / state,
        model.value_bytes * batch * model.activations,
    )
