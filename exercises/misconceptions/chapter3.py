"""Wrong answers to the exercises of chapter 3, each with a part of the hint that it gets."""

import math

from mxnet import autograd, nd

import mgpu_helpers as mgpu
from mgpu_exercises import given
from mgpu_helpers.collectives import (
    allreduce_ring,
)

from .chapter3_idioms import RIGHT as RIGHT


def added_at_once(data):
    for r in range(len(data).bit_length() - 1):
        for i, x in enumerate(data):
            x += data[i ^ 2**r].copyto(x.context)


def in_a_circle(data):
    k = len(data)
    for step in range(k.bit_length() - 1):
        received = [data[(i + 2**step) % k].copyto(x.context) for i, x in enumerate(data)]
        for x, r in zip(data, received):
            x += r


def to_all(data):
    received = [[y.copyto(x.context) for y in data if y is not x] for x in data]
    for x, others in zip(data, received):
        for r in others:
            x += r


def pairs_added_at_once(data):
    for i in (0, 2):
        data[i] += data[i + 1].copyto(data[i].context)
        data[i + 1] += data[i].copyto(data[i + 1].context)
    allreduce_ring(data[::2])
    for i in (0, 2):
        data[i].copyto(data[i + 1])


def first_to_both(data):
    for i in (1, 3):
        data[i - 1] += data[i].copyto(data[i - 1].context)
    data[0] += data[2].copyto(data[0].context)
    for x in data[1:]:
        data[0].copyto(x)


def from_the_first(sizes, limit):
    buckets, room = [], 0
    for i, size in enumerate(sizes):
        if not buckets or size > room:
            buckets.append([])
            room = limit
        buckets[-1].append(i)
        room -= size
    return buckets


def without_the_large(sizes, limit):
    kept = [i for i, size in enumerate(sizes) if size <= limit]
    return [[kept[i] for i in b] for b in reversed_fill([sizes[i] for i in kept], limit)]


def reversed_fill(sizes, limit):
    n = len(sizes)
    return [[n - 1 - i for i in bucket] for bucket in from_the_first(sizes[::-1], limit)]


def one_each(sizes, limit):
    return [[i] for i in reversed(range(len(sizes)))]


def accumulate(start='add', every=False, last_only=False):
    def accumulate_batch(small_batches, device_params, devices, lr, sync):
        params = [p for replica in device_params for p in replica]
        for p in params:
            if start != 'never' or p.grad is None or p.grad.sum().asscalar() == 0:
                p.attach_grad('write' if start == 'write' else 'add')
        for X, y in small_batches:
            Xs, ys = mgpu.split_batch(X, y, devices)
            with autograd.record():
                shards = zip(Xs, ys, device_params)
                ls = [mgpu.loss(mgpu.lenet(X_d, p), y_d) for X_d, y_d, p in shards]
            for l in ls:
                l.backward()
            if every:
                sync([[p.grad for p in replica] for replica in device_params])
        if not every:
            sync([[p.grad for p in replica] for replica in device_params])
        n = len(small_batches[-1][0]) if last_only else sum(len(X) for X, _ in small_batches)
        for replica in device_params:
            mgpu.sgd(replica, lr, n)

    return accumulate_batch


ADA = given('3.7', 'Ada')
K, WHOLE = ADA['devices'], ADA['megabytes'] / 10
ONE, LOG = 0.01 + WHOLE, math.log2(K)
NAIVE, TREE, RING = 2 * (K - 1) * ONE, 2 * LOG * ONE, 2 * (K - 1) * (0.01 + WHOLE / K)


def into_single_precision(data):
    for x, partner in zip(data, data[::-1]):
        received = nd.zeros(x.shape, x.context)
        received[:] = partner
        x += received


def empty_first(sizes, limit):
    buckets, used = [[]], 0
    for i in reversed(range(len(sizes))):
        if used + sizes[i] > limit:
            buckets, used = [*buckets, []], 0
        buckets[-1].append(i)
        used += sizes[i]
    return buckets


def sorted_first(ready, cost):
    free = 0
    for r, c in sorted(zip(ready, cost)):
        free = max(free, r) + c
    return free


WRONG = [
    ('3.1', 'added before the partner received', added_at_once, 'devices'),
    ('3.1', 'partners in a circle', in_a_circle, 'differ in their last bits'),
    ('3.1', 'sent to all others', to_all, 'one array to one partner'),
    ('3.1', 'buffers of another type', into_single_precision, 'dtype=x.dtype'),
    ('3.2', 'added before the partner received', pairs_added_at_once, '5 rounds instead of 4'),
    ('3.2', 'a ring over all four', allreduce_ring, 'cross between pairs'),
    ('3.2', 'everything through device 0', first_to_both, 'cross between pairs'),
    ('3.3', 'algorithm bandwidth', lambda n, k, s: n / s / 1e9, 'the algorithm bandwidth'),
    ('3.3', 'one way only', lambda n, k, s: (k - 1) / k * n / s / 1e9, 'this is half of it'),
    ('3.3', 'bytes for gigabytes', lambda n, k, s: 2 * (k - 1) / k * n / s, 'a GB is 1e9'),
    ('3.4', 'starting with the first layer', from_the_first, 'its gradients come last'),
    ('3.4', 'the large one is lost', without_the_large, 'larger than a bucket'),
    ('3.4', 'one bucket per gradient', one_each, 'buckets are enough'),
    ('3.4', 'an empty one first', empty_first, 'an empty bucket'),
    ('3.5', 'all wait for the last', lambda r, c: max(r) + sum(c), 'before the last is ready'),
    (
        '3.5',
        'all at the same time',
        lambda r, c: max(a + b for a, b in zip(r, c)),
        'one at a time',
    ),
    ('3.5', 'sorted', sorted_first, 'in the order of the list'),
    ('3.5', 'only the costs', lambda r, c: sum(c), 'the one before has been sent'),
    ('3.6', 'one sum per small batch', accumulate(every=True), 'over the devices once'),
    ('3.6', 'gradients overwritten, not added', accumulate('write'), 'each backward pass adds'),
    ('3.6', 'divided by the last one', accumulate(last_only=True), 'divides by all examples'),
    ('3.7', 'one way', (NAIVE / 2, TREE, RING), 'the sum goes back'),
    ('3.7', 'up the tree only', (NAIVE, TREE / 2, RING), 'comes down again'),
    ('3.7', 'whole arrays around the ring', (NAIVE, TREE, NAIVE), '1/k of the array'),
]
