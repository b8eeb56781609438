"""Check the exercises of chapter 1: shards, sums, updates, and replicas that must stay equal."""

import inspect
import random
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import mxnet as mx
import numpy as np
from mxnet import nd

from mgpu_helpers import scratch
from mgpu_helpers.collectives import REGISTRY, allreduce_sharded

from .arrays import expect_sums, on_devices, one_device_each
from .by_hand import by_hand
from .checking import Hint, Numbers, around, expect, expect_value, number, on_paper
from .counting import counted

ARRAY_BYTES = 516_272  # LeNet's 129,068 gradients of 4 bytes


def exercise_1(rng: random.Random, shard_sizes: Callable[..., Any]) -> None:
    """Check the lengths of the shards of n examples on k devices."""
    for n, k in ((6, 2), (7, 2), (256, 3), (11, 4), (3, 3), (5, 1), (rng.randint(20, 99), 7)):
        sizes = list(shard_sizes(n, k))
        case = f'{n} examples on {k} devices gave {sizes}'
        hint = 'lengths are whole numbers, but / gives a float; // drops the fraction'
        expect(all(hasattr(size, '__index__') for size in sizes), hint, case)
        expect(len(sizes) == k, f'return one length for each of the {k} devices', case)
        hint = f'{case}, {sum(sizes)} in all: each example belongs to exactly one shard'
        expect(sum(sizes) == n, hint)
        hint = 'all devices wait for the longest shard, so lengths may differ by at most one'
        expect(max(sizes) - min(sizes) <= 1, hint, case)
        hint = 'the first n mod k devices take one more example each'
        expect(sizes == sorted(sizes, reverse=True), hint, case)


@around
def with_right_sizes(my_split: Any) -> Iterator[None]:
    """Give 1.2 a correct ``shard_sizes`` to call, so that a mistake costs points only once."""

    def shard_sizes(n: int, k: int) -> list[int]:
        return [n // k + (i < n % k) for i in range(k)]

    names = getattr(inspect.unwrap(my_split), '__globals__', {})
    with mock.patch.dict(names, {'shard_sizes': shard_sizes}):
        yield


def exercise_2(rng: random.Random, my_split: Callable[..., Any]) -> None:
    """Check the shards of a batch: in order, each on its own device."""
    for *shape, order in ((4, 2, '01'), (7, 3, '012'), (7, '10'), (5, 1, 3, 2, '12')):
        (X,), devices = on_devices(rng, 1, shape), [mx.cpu(int(i)) for i in order]
        with with_right_sizes(my_split), by_hand(scratch.split_and_load):
            shards, k = list(my_split(X, devices)), len(devices)
        expect(len(shards) == k, f'{len(shards)} shards for {k} devices: return one per device')
        lengths, shapes = [len(s) for s in shards], [s.shape for s in shards]
        n, left = len(X), sum(lengths)
        case = f'{n} examples became shards of {lengths}'
        hint = f'{case}, {left} of {n} in all: what about the last n mod k?'
        expect(left >= n or len(set(lengths)) > 1, hint)
        expect(
            left == n, f'{case}, {left} of {n} in all: each example belongs to exactly one shard'
        )
        hint = f'X has shape {X.shape}, its shards {shapes}: split only the first axis'
        expect(all(s[1:] == X.shape[1:] for s in shapes), hint)
        hint = 'the joined shards are not in the order of the batch: each must be one slice, X[a:b]'
        expect(np.array_equal(np.concatenate([s.asnumpy() for s in shards]), X.asnumpy()), hint)
        places = [s.context for s in shards]
        hint = f'the shards are on {places}, not on {devices}: shard i belongs on devices[i]; '
        hint += 'as_in_context copies it where needed'
        expect(places == devices, hint)
        hint = f'with {k} devices, the first n mod k get one more'
        expect(lengths == [len(s) for s in scratch.split_and_load(X, devices)], hint, case)


def exercise_3(rng: random.Random, my_allreduce: Callable[..., None]) -> None:
    """Check that each array ends with the sum, written in place."""
    ours = [scratch.allreduce, *(a.function for a in REGISTRY.values())]
    for k in (2, 3, 4):
        with one_device_each(), by_hand(*ours):
            expect_sums(my_allreduce, on_devices(rng, k))


def exercise_4(rng: random.Random, my_update: Callable[..., None]) -> None:
    """Check an SGD step with the mean gradient, in place."""
    (value,), lr, n = on_devices(rng, 1), 0.5, 8
    params = scratch.get_params([value, value * 2], mx.cpu())
    for p in params:
        p.grad[:] = p * 16  # so that p - lr / n * grad is 0, exactly
    given = list(params)
    with by_hand(scratch.sgd):
        my_update(given, lr, n)
    hint = 'the list now holds new arrays, without gradients: change each in place, p -= …'
    expect(all(p is q for p, q in zip(params, given)), hint)
    left = [p.asnumpy() / v.asnumpy() for p, v in zip(params, (value, value * 2))]
    first = float(left[0].flat[0])
    hint = 'some parameters are wrong: update each one with its own gradient'
    expect(np.allclose(left, first), hint)
    mistakes = {
        'no parameter has changed: write into each, p -= …; p = p - … makes a new array': 1.0,
        f'each step was {n} times too long: the gradient is a sum over {n} examples': 1 - lr * 16,
        'the step went uphill: to lower the loss, subtract the gradient': 2.0,
    }
    hint = f'a step is lr times the mean gradient, and p.grad is a sum over {n} examples'
    expect_value(first, 0.0, 'a parameter is {} times its old value, not 0', mistakes, hint)


def exercise_5(rng: random.Random, whole_mean: Callable[..., float]) -> None:
    """Check the mean of a batch, computed from the means of uneven shards."""
    for sizes in ((4, 4), (2, 1), (3, 2, 2), (26, 25)):
        shards = [[rng.randrange(64) for _ in range(n)] for n in sizes]
        means = [sum(s) / len(s) for s in shards]
        found, total = whole_mean(means, sizes), sum(map(sum, shards))
        right = total / sum(sizes)
        mistakes = {
            'this is the mean of the means, where an example in a short shard counts for more '
            'than one in a long shard': sum(means) / len(means),
            'divide by the number of examples, not by the number of devices': total / len(sizes),
            'this is the sum over the batch; divide by the number of examples': total,
        }
        case = f'means {[round(m, 4) for m in means]} of {list(sizes)} examples gave {{}}'
        hint = f'not {right:.6g}; weight the mean of each shard by its length'
        expect_value(found, right, case, mistakes, hint, 1e-5)  # float32 is good enough


@on_paper(devices=(3, 5, 6, 7, 9), gigabytes_per_second=(8, 12, 20))
def exercise_6(numbers: Numbers, megabytes: float, messages: int, milliseconds: float) -> None:
    """Check the bytes, messages and time of chapter 1's allreduce, computed on paper."""
    k, speed = numbers.values()
    sent = 2 * (k - 1) * ARRAY_BYTES / 1e6
    mistakes = {
        f'this is one way only; {k - 1} copies go in, and {k - 1} come back': sent / 2,
        'device 0 sends nothing to itself, so only k - 1 devices count': sent * k / (k - 1),
    }
    hint = '129,068 values of 4 bytes, times the number of copies'
    expect_value(megabytes, sent, '{} MB', mistakes, hint, 0.02)
    hint = 'each of the 8 arrays travels separately, in and out'
    expect_value(messages, 2 * (k - 1) * 8, '{} messages', {}, hint)
    hint = f'{sent:.2f} MB at {speed} GB/s; a GB is 1,000 MB, a second 1,000 ms'
    expect_value(milliseconds, sent / speed, '{} ms', {}, hint, 0.02)


def exercise_7(rng: random.Random, by_slices: Callable[..., None]) -> None:
    """Check an allreduce in which each device sums one slice."""
    for k, shape in ((2, (4,)), (2, (3, 4)), (3, (5, 5)), (4, (3,))):
        try:
            with by_hand(allreduce_sharded):
                expect_sums(by_slices, on_devices(rng, k, shape))
        except Hint as hint:
            size = int(np.prod(shape))
            left = '' if size % k == 0 else f' ({size} values on {k} devices: handle the remainder)'
            raise Hint(f'{hint}{left}') from None
    k, size = 4, 400
    busiest = max(counted(by_slices, k, size).additions.values())
    hint = f'one of {k} devices adds {busiest} of {size} numbers: each must add only its own slice'
    expect(busiest <= (k - 1) * size // k, hint)


def exercise_8(rng: random.Random, largest_difference: Callable[..., float]) -> None:
    """Check a measure of how far replicas have drifted apart."""
    for parameter, device, change in ((0, 1, 2.0), (1, 2, 4.0), (1, 1, -8.0), (0, 0, 16.0)):
        (values,) = on_devices(rng, 1)
        replicas = [scratch.get_params([values, values + 1], mx.cpu(i)) for i in range(3)]
        hint = 'these replicas are equal bit for bit, so the difference is 0'
        expect(number(largest_difference(replicas)) == 0, hint)
        replicas[device][parameter][2, 3] += change
        found = number(largest_difference(replicas))
        case = f'one value of parameter {parameter} on device {device} was changed by {change:g}'
        hint = (
            f'{case}, but you found {found:g}: compare all values of each replica, with either sign'
        )
        expect(found == abs(change), hint)
    (values,) = on_devices(rng, 1)
    first, second, third = ([values.as_in_context(mx.cpu(i))] for i in range(3))
    second[0], third[0] = second[0] + 4, third[0] - 2
    found = number(largest_difference([first, second, third]))
    hint = (
        f'devices 1 and 2 are 4 above and 2 below device 0; you found {found:g}: how far are they '
    )
    hint += 'from each other?'
    expect(found == 6, hint)


def exercise_9(rng: random.Random, count_right: Callable[..., int]) -> None:
    """Check the number of correct predictions in a batch, counted by all replicas."""
    for n, k in ((6, 2), (7, 2), (8, 3)):
        devices = [mx.cpu(i) for i in range(k)]
        params = scratch.init_params(0.1, rng.randrange(99), 'float64')
        # Each replica's last bias predicts a different class, so each has to see its own shard.
        replicas = [scratch.get_params(params, d) for d in devices]
        for i, replica in enumerate(replicas):
            replica[-1][i] += 1000
        X = nd.ones((n, 1, 28, 28), dtype='float64')
        shards = scratch.split_batch(X, nd.arange(n, dtype='float64'), devices)[0]
        y = nd.array(np.repeat(np.arange(k), [len(s) for s in shards]), dtype='float64')
        y[0] = 9  # so that one prediction is wrong
        found = count_right(X, y, replicas)
        case = f'{n} images on {k} devices, {n - 1} of them right, gave {found}'
        expect(found != n, 'compare the predictions with the labels', case)
        hint = 'return the number, not the fraction; the last batch may be shorter than the others'
        expect(0 <= float(found) and (found > 1 or n < 3), hint, case)
        hint = (
            'each replica sees its own shard, even if k does not divide n: as in 1.1, the first '
            'n mod k get one more image'
        )
        expect(int(found) == n - 1, hint, case)
