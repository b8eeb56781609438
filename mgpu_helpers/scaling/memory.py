"""What a device has to keep in its memory to train."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import checks
from .inputs import check_model
from .models import FLOAT32

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..display import Table
    from .models import Model


@dataclass(frozen=True)
class Memory:
    """What one device has to keep, in bytes.

    Parameters
    ----------
    label : str
        What it is called in a picture.
    parameters, gradients, optimizer_state, activations : float
        Bytes of each.

    Examples
    --------
    >>> Memory('small', 4.0, 4.0, 0.0, 12.0).total
    20.0
    """

    label: str
    parameters: float
    gradients: float
    optimizer_state: float
    activations: float

    @property
    def total(self) -> float:
        """float: bytes of all four."""
        return self.parameters + self.gradients + self.optimizer_state + self.activations

    def table(self, *others: Memory) -> Table:
        """Lay the parts out, one row for this and each of the others.

        Returns
        -------
        mgpu_helpers.display.Table
        """
        from .drawings import memory_table

        return memory_table((self, *others))

    def plot(self, *others: Memory, limit: float | None = None) -> Figure:
        """Draw the parts as bars, this one's and others', and a line at ``limit`` bytes.

        Returns
        -------
        matplotlib.figure.Figure
        """
        from .drawings import draw_memory

        return draw_memory((self, *others), limit)


def memory_per_device(
    model: Model, batch: int, optimizer_state: int = 0, label: str | None = None
) -> Memory:
    """Count the bytes that one device needs to train; data parallelism shares only the batch.

    Parameters
    ----------
    model : Model
        What is trained, in float32.
    batch : int
        Examples on each device.
    optimizer_state : int
        Values that the optimizer keeps for each parameter: 0 for plain SGD, 1 with momentum, 2 for
        Adam.
    label : str, optional
        What it is called in a picture.

    Returns
    -------
    Memory

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    Notes
    -----
    Counted are each layer's output and its normalization's, once, since the backward pass needs
    them. Left out, so that real frameworks need more: inputs, outputs of pooling and of additions,
    the work space of convolutions, buckets, and what the framework and the driver keep.

    Examples
    --------
    >>> from mgpu_helpers.scaling import MODELS
    >>> memory = memory_per_device(MODELS['ResNet-50'], batch=96, optimizer_state=1)
    >>> f'{memory.activations / 1e9:.1f} of {memory.total / 1e9:.1f} GB'
    '8.5 of 8.8 GB'
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
