"""Checks of gradients, buckets and what an allreduce takes, beside the shared ones: one call each.

Each raises before anything is changed, and names the value, what was expected and the way out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..checks import alike, list_of_arrays
from ..checks import function as function
from ..checks import lists_of_gradients as lists_of_gradients
from ..checks import positive_int as positive_int
from .counting import Counted

if TYPE_CHECKING:
    from mxnet.ndarray import NDArray


def one_per_device(data: Sequence[NDArray]) -> None:
    """Raise unless ``data`` holds arrays that can be summed, each on a device of its own."""
    alike(data)
    for kind in map(type, data):
        # Sparse arrays and mx.np's behave otherwise: some sums would be wrong, silently.
        dense = (kind.__module__, kind.__name__) == ('mxnet.ndarray.ndarray', 'NDArray')
        if not dense and kind is not Counted:
            raise TypeError(
                f"expected MXNet's (dense) nd arrays, one per device, not {kind.__module__}."
                f'{kind.__name__}: convert with nd.array(x, ctx=device)'
            )


def same_gradients(grads: Sequence[Sequence[NDArray]]) -> None:
    """Raise unless each device has gradients of the same shapes, at least one."""
    lists_of_gradients(grads)
    for i, of_all in enumerate(zip(*grads)):
        shapes = [tuple(g.shape) for g in of_all]
        if len(set(shapes)) > 1:
            raise ValueError(
                f'gradient {i} has different shapes on the devices, {shapes}: they are not of '
                'replicas of one network'
            )


def bucket(arrays: Sequence[NDArray]) -> None:
    """Raise unless ``arrays`` can be laid end to end: of one type, on one device, at least one."""
    list_of_arrays('arrays', arrays, 'those that share the bucket')
    if not arrays:
        raise ValueError('a bucket needs at least one array; the list is empty')
    types = sorted({getattr(x.dtype, '__name__', str(x.dtype)) for x in arrays})
    if len(types) > 1:
        raise TypeError(
            f'a bucket is one array, so of one type, not of {" and ".join(types)}: make a bucket '
            "for each type, or convert with .astype('float32')"
        )
    devices = sorted({str(x.context) for x in arrays})
    if len(devices) > 1:
        raise ValueError(
            f'a bucket is on one device, and these arrays are on {", ".join(devices)}: make one '
            'bucket per device'
        )
