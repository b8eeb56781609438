"""Right answers to the exercises of chapter 3, written differently from ours; each must pass."""

from math import log2

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


def into_buffers(data):
    buffers, d = [nd.zeros_like(x) for x in data], 1
    while d < len(data):
        for i, buffer in enumerate(buffers):
            data[i ^ d].copyto(buffer)
        for x, buffer in zip(data, buffers):
            x += buffer
        d *= 2


def into_empty_ones(data):
    d = 1
    while d < len(data):
        received = [nd.empty(x.shape, ctx=x.context, dtype=x.dtype) for x in data]
        for i, x in enumerate(data):
            received[i ^ d][:] = x.as_in_context(data[i ^ d].context)
        for x, r in zip(data, received):
            x[:] = x + r
        d *= 2


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


def arrivals(ready, cost):
    ends = [ready[0] + cost[0]]
    for i in range(1, len(ready)):
        start = ready[i] if ready[i] > ends[-1] else ends[-1]
        ends.append(start + cost[i])
    return ends[-1]


def from_each_on(ready, cost):
    return max(r + sum(cost[i:]) for i, r in enumerate(ready))


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


RIGHT = [
    ('3.1', 'x[:] +=', written_by_slices),
    ('3.1', 'x[:] = x + y', new_sums),
    ('3.1', 'received into buffers, added later', into_buffers),
    ('3.1', 'nd.empty in each step', into_empty_ones),
    ('3.2', 'x[:] = x + y', in_pairs),
    ('3.2', 'copies, x[:] +=', whole_within_slices_between),
    ('3.3', 'two halves', bandwidth_in_steps),
    ('3.3', 'from GB', lambda n, k, seconds: (n * 1e-9 / seconds) * (2 - 2 / k)),
    ('3.4', 'ascending within a bucket', ascending),
    ('3.4', 'a generator, in tuples', by_a_generator),
    ('3.5', 'all ends', arrivals),
    ('3.5', 'the largest of what follows each', from_each_on),
    ('3.6', 'backward at once, own update', zeroed_first),
    ('3.6', 'sums kept by hand', sums_kept_by_hand),
]
