"""What a device has to keep in its memory to train."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import checks
from ..display import BLUE, GREEN, GREY, ORANGE, PINK, Table, panels, quantity
from .drawings import in_units
from .inputs import check_model
from .models import FLOAT32

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .models import Model

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

    def table(self, *others: Memory) -> Table:
        """Lay the parts out, one row for this and each of the others."""
        rows = [
            [one.label, *(quantity(getattr(one, part), 'B') for part in (*PARTS, 'total'))]
            for one in (self, *others)
        ]
        return Table(rows, ['training', *(part.replace('_', ' ') for part in PARTS), 'together'])

    def plot(self, *others: Memory, limit: float | None = None) -> Figure:
        """Draw the parts as bars, this one's and others', and a line at ``limit`` bytes."""
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
        in_units(axes.xaxis, 'B')
        figure.legend(loc='outside upper center', ncols=5, fontsize='small')
        return figure


def memory_per_device(
    model: Model, batch: int, optimizer_state: int = 0, label: str | None = None
) -> Memory:
    """Count the bytes that one device needs to train in float32; devices share only the batch.

    ``optimizer_state`` is how many values the optimizer keeps for each parameter: 0 for plain SGD,
    1 with momentum, 2 for Adam. Counted are each layer's output and its normalization's, once,
    since the backward pass needs them. Left out, so that real frameworks need more: inputs, outputs
    of pooling and additions, work space of convolutions, buckets, what framework and driver keep.
    """
    check_model(model)
    checks.positive_int('batch', batch)
    checks.whole_number('optimizer_state', optimizer_state)
    return Memory(
        label or f'{model.name}, {batch:,} per device',
        model.nbytes,
        model.nbytes,
        optimizer_state * model.nbytes,
        FLOAT32 * batch * model.activations,
    )
