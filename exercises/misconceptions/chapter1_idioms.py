"""Right answers to the exercises of chapter 1, written differently from ours; each must pass."""

from itertools import accumulate, combinations

import mxnet as mx
import numpy as np
from mxnet import nd

import mgpu_helpers as mgpu


def sizes_by_dealing(n, k):
    sizes = [0] * k
    for example in range(n):
        sizes[example % k] += 1
    return sizes


def sizes_by_divmod(n, k):
    each, more = divmod(n, k)
    return (each + 1,) * more + (each,) * (k - more)


def bounds(n, k):
    return [0, *accumulate(sizes_by_dealing(n, k))]


def split_by_bounds(X, devices):
    cuts = bounds(X.shape[0], len(devices))
    return [X[a:b].copyto(d) for d, a, b in zip(devices, cuts[:-1], cuts[1:])]


def split_by_numpy(X, devices):
    parts = np.array_split(X.asnumpy(), len(devices))
    return tuple(mx.nd.array(p, ctx=d, dtype=X.dtype) for p, d in zip(parts, devices))


def split_with_1_1(X, devices):
    shards, start = [], 0
    for size, device in zip(shard_sizes(len(X), len(devices)), devices):
        shards.append(X[start : start + size].as_in_context(device))
        start += size
    return shards


def shard_sizes(n, k):
    """Return wrong sizes, as a student's 1.1 may do; 1.2 must not lose points for it."""
    return [n // k] * k


def total_by_sum(data):
    total = sum(x.as_in_context(data[0].context) for x in data)
    for x in data:
        x[:] = total.as_in_context(x.context)


def total_by_indices(data):
    for i in range(1, len(data)):
        data[0][:] = data[0] + data[i].copyto(data[0].context)
    for i in range(1, len(data)):
        data[0].copyto(data[i])


def update_all_of(params, lr, n):
    for param in params:
        param[:] = param - lr * (param.grad / n)


def update_by_subtract(params, lr, n):
    for i in range(len(params)):
        nd.elemwise_sub(params[i], params[i].grad * (lr / n), out=params[i])


def mean_by_loop(means, sizes):
    total, examples = 0.0, 0
    for mean, size in zip(means, sizes):
        total += mean * size
        examples += size
    return total / examples


def mean_by_shares(means, sizes):
    shares = [size / sum(sizes) for size in sizes]
    return sum(m * s for m, s in zip(means, shares))


def cut_at(x, k, c):
    flat, each = x.reshape((-1,)), -(-x.size // k)
    return flat, min(c * each, x.size), min((c + 1) * each, x.size)


def slices_rounded_up(data):
    k = len(data)
    for c in range(k):
        flat, a, b = cut_at(data[c], k, c)
        if a == b:
            continue
        for x in data[:c] + data[c + 1 :]:
            flat[a:b] += x.reshape(-1)[a:b].copyto(data[c].context)
        for x in data[:c] + data[c + 1 :]:
            x.reshape(-1)[a:b] = flat[a:b]


def slices_by_sum(data):
    k = len(data)
    cuts = bounds(data[0].size, k)
    flats = [x.reshape(-1) for x in data]
    for owner in range(k):
        a, b = cuts[owner], cuts[owner + 1]
        if b - a > 0:
            here = flats[owner].context
            total = sum(flat[a:b].as_in_context(here) for flat in flats)
            for flat in flats:
                flat[a:b] = total.as_in_context(flat.context)


def farthest_pair(replicas):
    worst = 0.0
    for one, other in combinations(replicas, 2):
        for p, q in zip(one, other):
            worst = max(worst, float(np.abs(p.asnumpy() - q.asnumpy()).max()))
    return worst


def highest_minus_lowest(replicas):
    stacked = [np.stack([p.asnumpy() for p in copies]) for copies in zip(*replicas)]
    return max(np.ptp(s, axis=0).max() for s in stacked)


def counted_by_numpy(X, y, replicas):
    hits, cuts = 0, bounds(len(X), len(replicas))
    for i, params in enumerate(replicas):
        device, part = params[0].context, slice(cuts[i], cuts[i + 1])
        scores = mgpu.lenet(X[part].as_in_context(device), params).asnumpy()
        hits += np.count_nonzero(scores.argmax(1) == y[part].asnumpy())
    return hits


def counted_by_one(X, y, replicas):
    devices = [r[0].context for r in replicas]
    total = 0
    for image, label, params in zip(*mgpu.split_batch(X, y, devices), replicas):
        for guess, wanted in zip(mgpu.lenet(image, params).argmax(axis=1), label):
            total += int(guess.asscalar() == wanted.asscalar())
    return total


RIGHT = [
    ('1.1', 'dealt one by one', sizes_by_dealing),
    ('1.1', 'divmod, in a tuple', sizes_by_divmod),
    ('1.2', 'bounds, copyto', split_by_bounds),
    ('1.2', 'array_split, in a tuple', split_by_numpy),
    ('1.2', 'with a wrong 1.1', split_with_1_1),
    ('1.3', 'sum(), x[:] =', total_by_sum),
    ('1.3', 'data[0][:] = data[0] + …', total_by_indices),
    ('1.4', 'p[:] = p - …', update_all_of),
    ('1.4', 'out=p', update_by_subtract),
    ('1.5', 'a loop', mean_by_loop),
    ('1.5', 'shares', mean_by_shares),
    ('1.7', 'rounded up, flat[a:b] +=', slices_rounded_up),
    ('1.7', 'sum(), flat[a:b] =', slices_by_sum),
    ('1.8', 'each pair', farthest_pair),
    ('1.8', 'highest minus lowest', highest_minus_lowest),
    ('1.9', 'by NumPy', counted_by_numpy),
    ('1.9', 'image by image', counted_by_one),
]
