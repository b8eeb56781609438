"""Draw arrays on several devices for the MXNet exercises, and check their sums."""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import mxnet as mx
import numpy as np
from mxnet import nd
from mxnet.ndarray import NDArray

from .checking import around, expect
from .sums import expect_sum

Arrays = list[NDArray]


def on_devices(rng: random.Random, k: int, shape: Sequence[int] = (3, 4)) -> Arrays:
    """Draw one array of whole numbers per device; their sums are exact in any order."""
    draw = np.random.default_rng(rng.randrange(2**32))
    values = draw.integers(1, 100, (k, *shape)).astype('float64')
    return [nd.array(v, ctx=mx.cpu(i), dtype='float64') for i, v in enumerate(values)]


def expect_sums(allreduce: Callable[[Arrays], None], arrays: Arrays) -> None:
    """Raise a hint unless ``allreduce`` writes the sum of all arrays into each one, in place."""
    data, before = list(arrays), [x.asnumpy() for x in arrays]
    allreduce(data)
    after, total = [x.asnumpy() for x in arrays], sum(before)
    done = all(np.array_equal(x, total) for x in after)
    hint = 'the list now holds new arrays, but the devices still have their old ones: '
    hint += "'data[i] = ...' changes the list; 'data[i][:] = ...' and copyto(data[i]) write into "
    hint += 'the array'
    expect(done or all(x is y for x, y in zip(data, arrays)), hint)
    expect_sum(before, after, 'devices')


@around
def one_device_each() -> Iterator[None]:
    """Raise a hint if arrays on different devices are added, which MXNet allows on CPUs."""

    def of_one(add: Callable[..., Any]) -> Callable[..., Any]:
        def checked(x: NDArray, y: Any) -> Any:
            places = x.context, getattr(y, 'context', x.context)
            hint = f'an array on {places[1]} was added to one on {places[0]}, which fails on GPUs'
            expect(places[0] == places[1], f'{hint}: x.copyto(device) makes a copy there')
            return add(x, y)

        return checked

    add, iadd = of_one(nd.NDArray.__add__), of_one(nd.NDArray.__iadd__)
    with (
        mock.patch.object(nd.NDArray, '__add__', add),
        mock.patch.object(nd.NDArray, '__iadd__', iadd),
    ):
        yield
