"""Check the exercises of chapter 3: cheaper allreduces, buckets, and overlap."""

import math
import random
from collections.abc import Callable

import mxnet as mx
import numpy as np

from mgpu_helpers import scratch
from mgpu_helpers.collectives import (
    allreduce_butterfly,
    count,
    fill_buckets,
)
from mgpu_helpers.scaling import last_arrival as our_last_arrival

from .arrays import Arrays, expect_sums, on_devices
from .by_hand import by_hand
from .checking import Numbers, expect, expect_value, on_paper, there
from .counting import counted
from .sums import expect_buckets


@there  # where its own arrays count, too, which nd.zeros_like and nd.empty give
def traffic_of(allreduce: Callable[..., None], k: int) -> tuple[int, int]:
    """Count the messages and the rounds of an allreduce of 100 numbers."""
    found = counted(allreduce, k, 100)
    return found.messages, found.rounds


def exercise_1(rng: random.Random, my_butterfly: Callable[..., None]) -> None:
    """Check a butterfly allreduce for a power of two."""
    for k in (2, 4, 8):
        with by_hand(allreduce_butterfly):
            expect_sums(my_butterfly, on_devices(rng, k))
        messages, rounds = traffic_of(my_butterfly, k)
        ours = count(allreduce_butterfly, k, 100)
        case = f'{k} devices: right sums, but {messages} messages in {rounds} rounds'
        hint = 'in each round a device sends one array to one partner, i ^ d'
        expect(messages <= ours.messages, hint, case)
        hint = f'{case}, not {ours.messages} in {ours.rounds}: in each round all devices '
        hint += 'exchange with a partner at the same time, and only then add what they received'
        expect(rounds == ours.rounds, hint)
        rounded = [x / 7 for x in on_devices(rng, k, (1000,))]
        my_butterfly(list(rounded))
        first, *others = [x.asnumpy() for x in rounded]
        differ = int(np.any([x != first for x in others], axis=0).sum())
        hint = f'{k} devices: sums of whole numbers are right, but {differ} of 1,000 others differ '
        hint += 'in their last bits between devices: do i and its partner add the same two arrays?'
        expect(not differ, hint)


def exercise_2(rng: random.Random, hierarchical: Callable[..., None]) -> None:
    """Check a hierarchical sum: exchange in pairs, sum over two devices, copy back."""
    expect_sums(hierarchical, on_devices(rng, 4, (1000,)))
    found = counted(hierarchical, 4, 1000)
    crossing = sum(m for i, row in enumerate(found.matrix().tolist())
                   for j, m in enumerate(row) if i // 2 != j // 2)  # fmt: skip
    hint = f'{crossing:,} bytes cross between pairs (0, 1) and (2, 3), not 8,000: sum over 0 and 2'
    expect(crossing == 2 * 4000, hint)
    hint = f'{found.messages} messages and {found.busiest:,} bytes through the busiest port, not '
    hint += '10 and 12,000: exchange within the pairs, sum over devices 0 and 2, copy to 1 and 3'
    expect(found.messages == 10 and found.busiest == 12_000, hint)
    hint = f'{found.rounds} rounds instead of 4: a device added before its partner received'
    expect(found.rounds == 4, hint)


def exercise_3(bus_bandwidth: Callable[..., float]) -> None:
    """Check the bus bandwidth, which nccl-tests prints as busbw."""
    for nbytes, k, seconds in ((1e9, 8, 4.2e-3), (8e3, 8, 32e-6), (5e8, 2, 0.01)):
        algorithm = nbytes / seconds / 1e9
        right = 2 * (k - 1) / k * algorithm
        mistakes = {
            'this is the algorithm bandwidth; each port carries 2(k - 1)/k of the array': algorithm,
            'this is half of it; an allreduce is a reduce-scatter and an all-gather': right / 2,
            'count bytes, not bits': 8 * right,
        }
        case = f'{nbytes:,.0f} bytes on {k} devices in {seconds} s: {{}} GB/s'
        hint = f'not {right:.4g}; a GB is 1e9 bytes'
        expect_value(bus_bandwidth(nbytes, k, seconds), right, case, mistakes, hint, 1e-6)


def exercise_4(rng: random.Random, my_fill: Callable[..., list[list[int]]]) -> None:
    """Check buckets that are filled starting from the last layer."""
    sizes = [rng.randint(1, 60) for _ in range(12)]
    for sizes, limit in (([10, 10, 10, 10, 10], 20), ([5, 90, 5, 90], 20), (sizes, 70)):  # noqa: B020
        with by_hand(fill_buckets):
            found = my_fill(list(sizes), limit)
        expect_buckets(found, sizes, limit)


def exercise_5(rng: random.Random, last_arrival: Callable[..., float]) -> None:
    """Check the time at which the last bucket arrives, if a port sends one at a time."""
    drawn = sorted(rng.randrange(20) for _ in range(5)), [rng.randint(1, 9) for _ in range(5)]
    for ready, cost in (([1, 5], [2, 2]), ([3, 1, 1], [2, 2, 2]), ([1, 2, 9], [4, 1, 1]), drawn):
        right = 0
        for r, c in zip(ready, cost):
            right = max(right, r) + c
        no_overlap, no_queue = max(ready) + sum(cost), max(map(sum, zip(ready, cost)))
        by_time = 0
        for r, c in sorted(zip(ready, cost)):
            by_time = max(by_time, r) + c
        mistakes = {
            'buckets leave in the order of the list, even if a later one is ready first': by_time,
            'the first buckets leave before the last is ready': no_overlap,
            'the port sends one at a time; a ready bucket waits until the port is free': no_queue,
        }
        case = f'ready at {ready}, sent in {cost}: {{}}, not {right}'
        hint = 'a bucket leaves when it is ready and the one before has been sent'
        with by_hand(our_last_arrival):
            found = last_arrival(ready, cost)
        expect_value(found, right, case, mistakes, hint)


def exercise_6(rng: random.Random, accumulate_batch: Callable[..., None]) -> None:
    """Check gradient accumulation: several backward passes, one sum, one update."""
    devices = [mx.cpu(0), mx.cpu(1)]
    params = scratch.init_params(0.1, rng.randrange(99), 'float64')
    ours, theirs = ([scratch.get_params(params, d) for d in devices] for _ in range(2))
    images = on_devices(rng, 1, (8, 784))[0].reshape((8, 1, 28, 28)) / 100
    labels = mx.nd.array([rng.randrange(10) for _ in range(8)], dtype='float64')
    small = [(images[a:b], labels[a:b]) for a, b in ((0, 3), (3, 6), (6, 8))]
    sums = []

    def sync(grads: list[Arrays]) -> None:
        sums.append(1)
        scratch.sync_gradients(grads)

    for turn in range(2):
        scratch.train_batch(images, labels, ours, devices, 0.1)
        accumulate_batch(small, theirs, devices, 0.1, sync)
        difference = max(_distance(a, b) for a, b in zip(ours, theirs))
        expect(len(sums) > turn, 'you did not sum over the devices: call sync(gradients)')
        hint = f'{len(sums)} sums for {turn + 1} batch(es) of three small batches each: let the '
        hint += 'gradients add up on each device, and sum over the devices once'
        expect(len(sums) == turn + 1, hint)
        again = ' in the second step: does the gradient start at 0 again?' if turn else ''
        hint = (
            f'the parameters differ by {difference:.1g} from one step with all 8 examples{again}; '
        )
        hint += 'each backward pass adds to p.grad, and the update divides by all examples'
        expect(difference < 1e-12, hint)


def _distance(these: Arrays, those: Arrays) -> float:
    return max(float(np.abs(x.asnumpy() - y.asnumpy()).max()) for x, y in zip(these, those))


@on_paper(devices=(4, 8, 32), megabytes=(40, 200, 500))
def exercise_7(numbers: Numbers, naive_ms: float, tree_ms: float, ring_ms: float) -> None:
    """Check the times of naive sum, tree and ring, computed on paper."""
    k, whole = numbers['devices'], numbers['megabytes'] / 10  # ms at 10 GB/s
    one = 0.01 + whole
    naive, tree, ring = 2 * (k - 1) * one, 2 * math.log2(k) * one, 2 * (k - 1) * (0.01 + whole / k)
    mistakes = {'this is one way only; the sum goes back, too': naive / 2}
    expect_value(naive_ms, naive, 'naive, {} ms', mistakes, f'each array takes {one:g} ms', 0.01)
    mistakes = {'this is only the way up; the sum comes down again': tree / 2}
    hint = f'2 log2(k) rounds, each with a whole array of {one:g} ms'
    expect_value(tree_ms, tree, 'tree, {} ms', mistakes, hint, 0.01)
    mistakes = {'only one slice travels per round, 1/k of the array': naive}
    hint = f'2(k - 1) rounds, each of 10 µs plus 1/k of {whole:g} ms'
    expect_value(ring_ms, ring, 'ring, {} ms', mistakes, hint, 0.01)
