"""What a device has to keep in its memory to train."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import arguments
from ..display import BLUE, GREEN, GREY, ORANGE, PINK, panels
from .models import FLOAT32, Model

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PARTS = {'parameters': BLUE, 'gradients': ORANGE, 'optimizer_state': PINK, 'activations': GREEN}


@dataclass(frozen=True)
class Memory:
    """What one device has to keep, in bytes."""

    label: str  # in a table or picture
    parameters: float
    gradients: float
    optimizer_state: float
    activations: float

    @property
    def total(self) -> float:
        """Bytes of all four."""
        return self.parameters + self.gradients + self.optimizer_state + self.activations

    def plot(self, *others: Memory, limit: float | None = None) -> Figure:
        """Draw the parts as bars, this one's and others', and a line at ``limit`` bytes."""
        from matplotlib.ticker import EngFormatter

        rows = range(1 + len(others))
        figure, axes = panels(height=1.3 + 0.36 * len(rows))
        start = [0.0] * len(rows)
        for part, color in PARTS.items():
            sizes = [getattr(one, part) for one in (self, *others)]
            axes.barh(rows, sizes, left=start, color=color, label=part.replace('_', ' '))
            start = [a + b for a, b in zip(start, sizes)]
        if limit:
            axes.axvline(limit, linestyle='--', color=GREY, label='memory of the device')
        axes.set_yticks(rows, [one.label for one in (self, *others)])
        axes.invert_yaxis()  # the first on top
        axes.set_xlabel('on each device')
        axes.grid(visible=False, axis='y')
        axes.xaxis.set_major_formatter(EngFormatter('B'))
        figure.legend(loc='outside upper center', ncols=5, fontsize='small')
        return figure


def memory_per_device(
    model: Model,
    batch: int,
    optimizer_state: int = 0,
    label: str | None = None,
    stage: int = 0,
    devices: int = 1,
) -> Memory:
    """Count the bytes that one device needs to train, with ``batch`` examples on it.

    ``optimizer_state`` is how many float32 the optimizer keeps for each parameter: none for SGD, 1
    with momentum, 2 for Adam, 3 where it keeps the parameters too. ZeRO's ``stage`` 1 shares them
    among ``devices``, 2 the gradients as well, 3 the parameters. Of activations each layer's output
    and its norm's count, once; real frameworks need more: inputs, workspaces, buckets.
    """
    arguments.model(model)
    arguments.positive_int('batch', batch)
    arguments.positive_int('devices', devices)
    arguments.whole_number('optimizer_state', optimizer_state)
    arguments.whole_number('stage', stage, most=3)
    state, gradients, parameters = (devices if stage >= first else 1 for first in (1, 2, 3))
    return Memory(
        label or f'{model.name}, {batch:,} per device',
        model.nbytes / parameters,
        model.nbytes / gradients,
        FLOAT32 * optimizer_state * model.parameters / state,
        model.value_bytes * batch * model.activations,
    )
