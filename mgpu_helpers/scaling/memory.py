"""The memory that a device needs to train."""

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
        """The sum of all four, in bytes."""
        return self.parameters + self.gradients + self.optimizer_state + self.activations


def memory_per_device(
    model: Model,
    batch: int,
    optimizer_state: int = 0,
    stage: int = 0,
    devices: int = 1,
) -> Memory:
    """Count the bytes that one device needs to train, with ``batch`` examples on it.

    ``optimizer_state`` is how many float32 the optimizer keeps for each parameter: none for SGD, 1
    with momentum, 2 for Adam, 3 where it keeps the parameters too. ZeRO's ``stage`` 1 shares them
    among ``devices``, 2 the gradients as well, 3 the parameters. Of activations each layer's output
    and its norm's count, once; real frameworks need more: inputs, workspaces, buckets.
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
