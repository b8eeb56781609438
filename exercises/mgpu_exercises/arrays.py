"""Arrays on several devices for the exercises with MXNet, and what sums of them must be."""

import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import mxnet as mx
import numpy as np
from mxnet import nd
from mxnet.ndarray import NDArray

from .checking import Hint, expect

Arrays = list[NDArray]


def on_devices(rng: random.Random, k: int, shape: Sequence[int] = (3, 4)) -> Arrays:
    """Draw one array per device, of whole numbers: their sums are exact in any order."""
    draw = np.random.default_rng(rng.randrange(2**32))
    values = draw.integers(1, 100, (k, *shape)).astype('float64')
    return [nd.array(v, ctx=mx.cpu(i), dtype='float64') for i, v in enumerate(values)]


def expect_sums(allreduce: Callable[[Arrays], None], arrays: Arrays) -> None:
    """Raise a hint unless a function leaves the sum in each of these very arrays."""
    k, data, total = len(arrays), list(arrays), sum(x.asnumpy() for x in arrays)
    before = [x.asnumpy() for x in arrays]
    allreduce(data)
    after = [x.asnumpy() for x in arrays]
    where = [i for i, x in enumerate(after) if np.array_equal(x, total)]
    if len(where) == k:
        return
    if any(x is not y for x, y in zip(data, arrays)):
        raise Hint(
            'the list holds other arrays now, and the devices still have their old ones: '
            "'data[i] = ...' changes the list; 'data[i][:] = ...' and copyto(data[i]) write into "
            'the array'
        )
    if all(np.array_equal(x, y) for x, y in zip(after, before)):
        raise Hint('no array has changed: the sum is to be written into those of the list')
    if any(np.array_equal(x, total / k) for x in after):
        raise Hint(f'with {k} devices some hold the mean: leave the sum; the update divides')
    if where and all(np.array_equal(after[i], before[i]) for i in range(k) if i not in where):
        raise Hint(f'of {k} devices only {where} hold the sum: it has to go back to all the others')
    raise Hint(
        f'with {k} devices of shape {arrays[0].shape}, {where or "none"} hold the sum, and others '
        'hold something new: was an array added that held a sum already, or has one been '
        'forgotten? Print them for two devices'
    )


@contextlib.contextmanager
def one_device_each() -> Iterator[None]:
    """Refuse sums of arrays on different devices, which MXNet lets pass between CPUs."""

    def of_one(add: Callable[..., Any]) -> Callable[..., Any]:
        def checked(x: NDArray, y: Any) -> Any:
            places = x.context, getattr(y, 'context', x.context)
            hint = f'an array on {places[1]} was added to one on {places[0]}, which GPUs refuse'
            expect(places[0] == places[1], f'{hint}: x.copyto(device) gives a copy there')
            return add(x, y)

        return checked

    add, iadd = of_one(nd.NDArray.__add__), of_one(nd.NDArray.__iadd__)
    with (
        mock.patch.object(nd.NDArray, '__add__', add),
        mock.patch.object(nd.NDArray, '__iadd__', iadd),
    ):
        yield
