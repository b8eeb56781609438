"""Checks of gradients, buckets and what an allreduce takes, beside the shared ones: one call each.

Each raises before anything is changed, and names the value, what was expected and the way out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..checks import alike, list_of_arrays, shown, step
from ..checks import function as function
from ..checks import lists_of_gradients as lists_of_gradients
from ..checks import positive_int as positive_int
from .counting import Counted

if TYPE_CHECKING:
    from mxnet.ndarray import NDArray


def _dense(x: object) -> bool:
    """Tell whether this is one of MXNet's dense nd arrays, without loading MXNet."""
    return (type(x).__module__, type(x).__name__) == ('mxnet.ndarray.ndarray', 'NDArray')


def one_per_device(data: Sequence[NDArray]) -> None:
    """Raise unless ``data`` holds arrays that can be summed, each on a device of its own."""
    alike(data)
    strange = [x for x in data if not (_dense(x) or isinstance(x, Counted))]
    if strange:  # sparse arrays and mx.np's behave otherwise: some sums would be wrong, silently
        kind = type(strange[0])
        raise TypeError(
            f"expected MXNet's (dense) nd arrays, one per device, not {kind.__module__}."
            f'{kind.__name__}: convert with nd.array(x, ctx=device)'
        )


def steps(
    batches: Sequence[tuple[NDArray, NDArray]],
    device_params: Sequence[Sequence[NDArray]],
    devices: Sequence[object],
    lr: float,
    sync: object,
) -> None:
    """Raise unless one training step can be taken with these batches together; see ``step``."""
    if not isinstance(batches, (list, tuple)) or not all(
        isinstance(batch, (list, tuple)) and len(batch) == 2 for batch in batches
    ):
        raise TypeError(f'expected a list of batches, each a pair (X, y), not {shown(batches)}')
    if not batches:
        raise ValueError('no batch to train on: the list is empty; pass at least one pair (X, y)')
    for X, y in batches:
        step(X, y, device_params, devices, lr, sync)


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


def holding(params: Sequence[NDArray], bucket: Any) -> None:
    """Raise unless the gradients of these parameters have their places in a bucket."""
    if not hasattr(bucket, 'parts'):
        raise TypeError(f'bucket must be a Bucket(params), not {shown(bucket)}')
    same_layout(params, bucket.parts)


def same_layout(arrays: Sequence[NDArray], parts: Sequence[NDArray]) -> None:
    """Raise unless ``arrays`` are like ``parts``, in this order: shape, type and device."""
    if not isinstance(arrays, (list, tuple)) or not all(map(_dense, arrays)):
        raise TypeError(f"expected a list of MXNet's nd arrays, not {shown(arrays)}")
    found, shapes = ([x.shape for x in listed] for listed in (arrays, parts))
    if found != shapes:
        raise ValueError(
            f'this bucket was made for arrays of the shapes {shapes}, not {found}: make a new one '
            'for them'
        )
    for x, part in zip(arrays, parts):
        if x.context != part.context:
            raise ValueError(
                f'this bucket is on {part.context}, and one of the arrays on {x.context}: make '
                'a bucket on each device'
            )
        if x.dtype != part.dtype:
            raise TypeError(
                f'this bucket holds {part.dtype.__name__}, and one of the arrays is of '
                f'{x.dtype.__name__}: make a bucket for each type'
            )
