"""Checks of arrays that lie on devices, beside the shared ones: one call each.

Each raises before anything is changed, and names the value, what was expected and the way out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..checks import alike, shown
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
    devices = [x.context for x in data]
    twice = [d for i, d in enumerate(devices) if d in devices[:i]]
    if twice:
        raise ValueError(
            f'two arrays are on {twice[0]}, of {devices}: an allreduce sums over devices, one '
            'array on each; add up what is on one device first'
        )


def bucket(arrays: Sequence[NDArray]) -> None:
    """Raise unless ``arrays`` can be laid end to end: of one type, on one device, at least one."""
    if not isinstance(arrays, (list, tuple)) or not all(hasattr(x, 'shape') for x in arrays):
        raise TypeError(f'a bucket takes a list of arrays, not {shown(arrays)}')
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
