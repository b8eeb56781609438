"""Checks of what chapter 3's functions get, beside the shared ones: one call each.

Each raises before anything is changed, and names the value, what was expected and the way out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mxnet import nd

from ..checks import alike, positive_int, shown, step
from .counting import Counted

if TYPE_CHECKING:
    from mxnet import Context
    from mxnet.ndarray import NDArray


def one_per_device(data: Sequence[NDArray]) -> None:
    """Raise unless ``data`` holds arrays that can be summed, each on a device of its own.

    Raises
    ------
    ValueError
        If it is empty, shapes differ, or two arrays are on the same device.
    TypeError
        If it is not a list or tuple of arrays, or the types differ.

    Examples
    --------
    >>> from mgpu_helpers.collectives import Count
    >>> one_per_device([Counted(i, 8, Count(2)) for i in range(2)])
    """
    alike(data)
    strange = [x for x in data if type(x) is not nd.NDArray and not isinstance(x, Counted)]
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
    """Raise unless ``arrays`` can be laid end to end: of one type, on one device, at least one.

    Raises
    ------
    ValueError
        If there is none, or they are on different devices.
    TypeError
        If it is not a list or tuple of arrays, or the types differ.

    Examples
    --------
    >>> from mgpu_helpers.collectives import Count
    >>> bucket([Counted(0, 8, Count(1)), Counted(0, 3, Count(1))])
    """
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
    """Raise unless ``arrays`` are like ``parts``, in this order: shape, type and device.

    Raises
    ------
    TypeError
        If it is not a list of arrays, or a type differs.
    ValueError
        If their number, a shape or a device differs.

    Examples
    --------
    >>> same_layout([nd.zeros((2, 3)), nd.ones(3)], [nd.ones((2, 3)), nd.ones(3)])
    """
    if not isinstance(arrays, (list, tuple)) or not all(type(x) is nd.NDArray for x in arrays):
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


def same_gradients(grads: Sequence[Sequence[NDArray]]) -> None:
    """Raise unless each device has gradients of the same shapes, at least one.

    Raises
    ------
    TypeError
        If it is not a list of lists.
    ValueError
        If there is no device or no gradient, or numbers or shapes differ.

    Examples
    --------
    >>> import numpy as np
    >>> same_gradients([[np.zeros(2)], [np.zeros(2)]])
    """
    lists = (list, tuple)
    if not isinstance(grads, lists) or not all(isinstance(of_one, lists) for of_one in grads):
        raise TypeError(
            f'expected grads[c][i], a list of gradients for each device c, not {shown(grads)}'
        )
    numbers = [len(of_one) for of_one in grads]
    if not numbers or 0 in numbers or len(set(numbers)) > 1:
        raise ValueError(
            f'each device must have the same gradients, at least one; here they have {numbers}'
        )
    for i, of_all in enumerate(zip(*grads)):
        if not all(hasattr(g, 'shape') for g in of_all):
            raise TypeError(f'gradient {i} is not an array on every device: {shown(of_all)}')
        shapes = [tuple(g.shape) for g in of_all]
        if len(set(shapes)) > 1:
            raise ValueError(
                f'gradient {i} has different shapes on the devices, {shapes}: they are not of '
                'replicas of one network'
            )


def layout(grads: Sequence[Sequence[NDArray]]) -> tuple[tuple[Any, ...], ...]:
    """Give what buckets depend on: device, shape and type of each gradient; or raise.

    Raises
    ------
    TypeError, ValueError
        As ``same_gradients``, where these are no gradients.

    Examples
    --------
    >>> len(layout([[nd.ones(2), nd.ones(3)]]))
    2
    """
    try:
        return tuple((g.context, g.shape, g.dtype) for of_one in grads for g in of_one)
    except (AttributeError, TypeError):
        same_gradients(grads)  # says what is wrong
        raise


def steps(
    batches: Sequence[tuple[NDArray, NDArray]],
    device_params: Sequence[Sequence[NDArray]],
    devices: Sequence[Context],
    lr: float,
    sync: object,
) -> None:
    """Raise unless one training step can be taken with these batches; see ``step``.

    Raises
    ------
    TypeError
        If ``batches`` is not a list of pairs, or ``sync`` no function; else as ``step``.
    ValueError
        If there is none; else as ``step``.

    Examples
    --------
    >>> import numpy as np
    >>> steps([(np.zeros((6, 4)), np.zeros(6))], [['W', 'b']], ['cpu(0)'], 0.1, print)
    """
    if not isinstance(batches, (list, tuple)) or not all(
        isinstance(batch, (list, tuple)) and len(batch) == 2 for batch in batches
    ):
        raise TypeError(f'expected a list of batches, each a pair (X, y), not {shown(batches)}')
    if not batches:
        raise ValueError('no batch to train on: the list is empty; pass at least one pair (X, y)')
    for X, y in batches:
        step(X, y, device_params, devices, lr)
    if not callable(sync):
        raise TypeError(f'sync must be a function, such as sync_with(...) gives, not {shown(sync)}')


def allreduce(algorithm: object, bucket_bytes: int | None) -> None:
    """Raise unless gradients can be summed with these; see ``collectives.sync_with``.

    Raises
    ------
    TypeError
        If ``algorithm`` cannot be called, or ``bucket_bytes`` is neither an integer nor ``None``.
    ValueError
        If ``bucket_bytes`` is below 1.

    Examples
    --------
    >>> allreduce(print, bucket_bytes=1_000_000)
    """
    if not callable(algorithm):
        raise TypeError(
            f'algorithm must be a function that sums a list of arrays in place, such as '
            f'allreduce_ring, not {shown(algorithm)}'
        )
    if bucket_bytes is not None:
        positive_int('bucket_bytes', bucket_bytes)
