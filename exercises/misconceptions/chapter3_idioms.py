"""Right answers to the exercises of chapter 3 that go another way than ours: no hint for them."""

import itertools
from math import log2

import numpy as np
from mxnet import autograd, nd

import mgpu_helpers as mgpu
from mgpu_helpers.collectives import allreduce_ring


def written_by_slices(data):
    d = 1
    while d < len(data):
        copies = [x.copyto(data[i ^ d].context) for i, x in enumerate(data)]
        for i, x in enumerate(data):
            x[:] += copies[i ^ d]
        d <<= 1


def new_sums(data):
    k = len(data)
    for step in range(int(log2(k))):
        sums = [x + data[i ^ 2**step].as_in_context(x.context) for i, x in enumerate(data)]
        for x, total in zip(data, sums):
            x[:] = total


def pair_by_pair(data):
    distance = 1
    while distance < len(data):
        for i in range(len(data)):
            j = i ^ distance
            if i < j:
                mine, theirs = data[i].copyto(data[j].context), data[j].copyto(data[i].context)
                data[i] += theirs
                data[j] += mine
        distance *= 2


def recursive(data):
    half = len(data) // 2
    if half:
        recursive(data[:half])
        recursive(data[half:])
        up = [a.copyto(b.context) for a, b in zip(data[:half], data[half:])]
        down = [b.copyto(a.context) for a, b in zip(data[:half], data[half:])]
        for x, y in zip(data, down + up):
            x += y


def swapped(a, b):
    from_a, from_b = a.copyto(b.context), b.copyto(a.context)
    a[:] = a + from_b
    b[:] = b + from_a


def in_pairs(data):
    swapped(data[0], data[1])
    swapped(data[2], data[3])
    allreduce_ring([data[0], data[2]])
    data[0].copyto(data[1])
    data[2].copyto(data[3])


def whole_within_slices_between(data):
    for i, j in ((0, 1), (2, 3)):
        a, b = data[i].copy(), data[j].copy()
        a, b = a.as_in_context(data[j].context), b.as_in_context(data[i].context)
        data[i][:] += b
        data[j][:] += a
    allreduce_ring(data=[data[0], data[2]])
    for lead, other in zip(data[::2], data[1::2]):
        other[:] = lead.as_in_context(other.context)


def ring_by_hand(data):
    received = {i: data[i ^ 1].copyto(data[i].context) for i in range(4)}
    for i, r in received.items():
        data[i][:] += r
    half = data[0].size // 2
    a, b = (x.reshape(-1) for x in data[::2])
    to_b, to_a = a[half:].copyto(b.context), b[:half].copyto(a.context)
    a[:half] += to_a
    b[half:] += to_b
    to_b, to_a = a[:half].copyto(b.context), b[half:].copyto(a.context)
    b[:half] = to_b
    a[half:] = to_a
    for i in (0, 2):
        data[i + 1][:] = data[i].copyto(data[i + 1].context)


def bandwidth_in_steps(nbytes, k, seconds):
    gigabytes = nbytes / 1e9
    through_a_port = gigabytes / k * (k - 1) + gigabytes / k * (k - 1)
    return through_a_port / seconds


def ascending(sizes, bucket_bytes):
    buckets, current, held = [], [], 0
    for index, size in reversed(list(enumerate(sizes))):
        if current and held + size > bucket_bytes:
            buckets.append(sorted(current))
            current, held = [], 0
        current.append(index)
        held += size
    return [*buckets, sorted(current)]


def by_a_generator(sizes, bucket_bytes):
    def fill():
        i = len(sizes)
        while i > 0:
            bucket, room = [i - 1], bucket_bytes - sizes[i - 1]
            while i > 1 and sizes[i - 2] <= room:
                i -= 1
                bucket.append(i - 1)
                room -= sizes[i - 1]
            yield tuple(bucket)
            i -= 1

    return list(fill())


def by_numpy(sizes, bucket_bytes):
    found = [[]]
    for i in np.arange(len(sizes))[::-1]:
        if found[-1] and sum(sizes[j] for j in found[-1]) + sizes[i] > bucket_bytes:
            found.append([])
        found[-1] += [i]
    return found


def arrivals(ready, cost):
    ends = [ready[0] + cost[0]]
    for i in range(1, len(ready)):
        start = ready[i] if ready[i] > ends[-1] else ends[-1]
        ends.append(start + cost[i])
    return ends[-1]


def from_each_on(ready, cost):
    return max(r + sum(cost[i:]) for i, r in enumerate(ready))


def accumulated(ready, cost):
    pairs = zip(ready, cost)
    return list(itertools.accumulate(pairs, lambda t, rc: max(t, rc[0]) + rc[1], initial=0.0))[-1]


def zeroed_first(small_batches, device_params, devices, lr, sync):
    for params in device_params:
        for p in params:
            p.attach_grad(grad_req='add')
    n = 0
    for X, y in small_batches:
        Xs, ys = mgpu.split_batch(X, y, devices)
        for X_d, y_d, params in zip(Xs, ys, device_params):
            with autograd.record():
                l = mgpu.loss(mgpu.lenet(X_d, params), y_d).sum()
            l.backward()
        n += X.shape[0]
    sync([[p.grad for p in params] for params in device_params])
    for params in device_params:
        for p in params:
            p[:] = p - lr * p.grad / n


def sums_kept_by_hand(small_batches, device_params, devices, lr, sync):
    sums = [[nd.zeros_like(p) for p in params] for params in device_params]
    for X, y in small_batches:
        shards = zip(*mgpu.split_batch(X, y, devices), device_params, sums)
        for X_d, y_d, params, totals in shards:
            with autograd.record():
                l = mgpu.loss(mgpu.lenet(X_d, params), y_d)
            for total, g in zip(totals, autograd.grad(l, params)):
                total += g
    sync(sums)
    n = sum(len(y) for _, y in small_batches)
    for params, totals in zip(device_params, sums):
        for p, total in zip(params, totals):
            p -= (lr / n) * total


def all_recorded_then_back(small_batches, device_params, devices, lr, sync):
    for p in itertools.chain(*device_params):
        p.attach_grad('add')
    losses = []
    with autograd.record():
        for batch in small_batches:
            for X_d, y_d, params in zip(*mgpu.split_batch(*batch, devices), device_params):
                losses.append(mgpu.loss(mgpu.lenet(X_d, params), y_d))
    for l in losses:
        l.backward()
    sync([[p.grad for p in params] for params in device_params])
    examples = sum(l.size for l in losses)
    for params in device_params:
        for p in params:
            p -= lr * (p.grad / examples)


RIGHT = [
    ('3.1', 'x[:] +=', written_by_slices),
    ('3.1', 'x[:] = x + y', new_sums),
    ('3.1', 'pair by pair', pair_by_pair),
    ('3.1', 'recursive, the far ones last', recursive),
    ('3.2', 'x[:] = x + y', in_pairs),
    ('3.2', 'copies, x[:] +=', whole_within_slices_between),
    ('3.2', 'the ring by hand, x[a:b] =', ring_by_hand),
    ('3.3', 'two halves', bandwidth_in_steps),
    ('3.3', 'from GB', lambda n, k, seconds: (n * 1e-9 / seconds) * (2 - 2 / k)),
    ('3.3', 'a NumPy number', lambda n, k, s: np.float64(n) / s * 2 * (k - 1) / (k * 10**9)),
    ('3.4', 'ascending within a bucket', ascending),
    ('3.4', 'a generator, in tuples', by_a_generator),
    ('3.4', "NumPy's integers", by_numpy),
    ('3.5', 'all ends', arrivals),
    ('3.5', 'the largest of what follows each', from_each_on),
    ('3.5', 'accumulate', accumulated),
    ('3.6', 'backward at once, own update', zeroed_first),
    ('3.6', 'sums kept by hand', sums_kept_by_hand),
    ('3.6', 'all forward, then all back', all_recorded_then_back),
]
