"""Right answers to the exercises of chapter 1 that go another way than ours: no hint for them."""

from itertools import accumulate, combinations, pairwise

import mxnet as mx
import numpy as np
from mxnet import autograd, nd

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


def split_from_the_rest(X, devices):
    start, shards = 0, []
    for left, device in zip(range(len(devices), 0, -1), devices):
        stop = start - (start - len(X)) // left  # what is left, shared among those left, rounded up
        shards.append(nd.slice_axis(X, axis=0, begin=start, end=stop).as_in_context(device))
        start = stop
    return shards


def split_with_1_1(X, devices):
    shards, start = [], 0
    for size, device in zip(shard_sizes(len(X), len(devices)), devices):
        shards.append(X[start : start + size].as_in_context(device))
        start += size
    return shards


def shard_sizes(n, k):
    """Be wrong, as somebody's 1.1 may be; 1.2 does not pay for it."""
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


def everyone_all(data):
    received = [[x.copyto(y.context) for x in data] for y in data]
    for y, copies in zip(data, received):
        y[:] = nd.add_n(*copies)


def by_numpy(data):
    total = np.sum([x.asnumpy() for x in data], axis=0)
    for x in data:
        x[:] = nd.array(total, ctx=x.context, dtype=x.dtype)


def along_a_line(data):
    for before, x in pairwise(data):
        x += before.copyto(x.context)
    for x in data[-2::-1]:
        data[-1].copyto(x)


def update_all_of(params, lr, n):
    for param in params:
        param[:] = param - lr * (param.grad / n)


def update_by_subtract(params, lr, n):
    for i in range(len(params)):
        nd.elemwise_sub(params[i], params[i].grad * (lr / n), out=params[i])


def update_by_operator(params, lr, n):
    for p in params:
        nd.sgd_update(p, p.grad, lr=lr, wd=0.0, rescale_grad=1 / n, out=p)


def update_by_adding(params, lr, n):
    with autograd.pause():
        steps = [-lr * p.grad / n for p in params]
        for p, step in zip(params, steps):
            p += step


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


def slices_in_two_phases(data):
    k, n = len(data), data[0].size
    cuts = [round(c * n / k) for c in range(k + 1)]
    parts = [[x.reshape(-1)[a:b] if a < b else None for a, b in pairwise(cuts)] for x in data]
    for c in range(k):
        for i in range(k):
            if i != c and parts[c][c] is not None:
                parts[c][c][:] = parts[c][c] + parts[i][c].copyto(parts[c][c].context)
    for c in range(k):
        for i in range(k):
            if i != c and parts[c][c] is not None:
                parts[c][c].copyto(parts[i][c])


def farthest_pair(replicas):
    worst = 0.0
    for one, other in combinations(replicas, 2):
        for p, q in zip(one, other):
            worst = max(worst, float(np.abs(p.asnumpy() - q.asnumpy()).max()))
    return worst


def highest_minus_lowest(replicas):
    stacked = [np.stack([p.asnumpy() for p in copies]) for copies in zip(*replicas)]
    return max(np.ptp(s, axis=0).max() for s in stacked)


def on_one_device(replicas):
    home, worst = mx.cpu(), nd.zeros(1, dtype='float64')
    for copies in zip(*replicas):
        together = nd.stack(*[p.as_in_context(home) for p in copies])
        apart = (together.max(axis=0) - together.min(axis=0)).max()
        worst = nd.maximum(worst, apart)
    return worst.asscalar()


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


def counted_by_gluon(X, y, replicas):
    devices = [params[0].context for params in replicas]
    Xs = mgpu.split_and_load(X, devices)
    ys = mgpu.split_and_load(y, devices=devices)
    good = [nd.equal(mgpu.lenet(a, p).argmax(1), b).sum() for a, b, p in zip(Xs, ys, replicas)]
    return sum(float(g.asscalar()) for g in good)


def counted_by_metric(X, y, replicas):
    metric = mx.metric.Accuracy()
    cuts = bounds(len(X), len(replicas))
    for (a, b), r in zip(pairwise(cuts), replicas):
        Xd, yd = (t[a:b].as_in_context(r[0].context) for t in (X, y))
        metric.update([yd], [mgpu.lenet(Xd, r)])
    return metric.sum_metric


RIGHT = [
    ('1.1', 'dealt one by one', sizes_by_dealing),
    ('1.1', 'divmod, in a tuple', sizes_by_divmod),
    ('1.1', 'of array_split', lambda n, k: [len(p) for p in np.array_split(range(n), k)]),
    ('1.1', 'rounded up, shifted', lambda n, k: [(n + k - 1 - i) // k for i in range(k)]),
    ('1.1', 'NumPy integers', lambda n, k: n // k + (np.arange(k) < n % k)),
    ('1.2', 'bounds, copyto', split_by_bounds),
    ('1.2', 'array_split, in a tuple', split_by_numpy),
    ('1.2', 'from what is left', split_from_the_rest),
    ('1.2', 'with a wrong 1.1', split_with_1_1),
    ('1.3', 'sum(), x[:] =', total_by_sum),
    ('1.3', 'data[0][:] = data[0] + …', total_by_indices),
    ('1.3', 'everyone adds all', everyone_all),
    ('1.3', 'by NumPy', by_numpy),
    ('1.3', 'along a line', along_a_line),
    ('1.4', 'p[:] = p - …', update_all_of),
    ('1.4', 'out=p', update_by_subtract),
    ('1.4', "MXNet's operator", update_by_operator),
    ('1.4', 'all steps first', update_by_adding),
    ('1.5', 'a loop', mean_by_loop),
    ('1.5', 'shares', mean_by_shares),
    ('1.5', 'average()', lambda means, sizes: np.average(means, weights=sizes)),
    ('1.5', 'float32', lambda m, s: np.dot(np.float32(m), np.float32(s)) / np.float32(sum(s))),
    ('1.7', 'rounded up, flat[a:b] +=', slices_rounded_up),
    ('1.7', 'sum(), flat[a:b] =', slices_by_sum),
    ('1.7', 'first all sums, then all copies', slices_in_two_phases),
    ('1.8', 'each pair', farthest_pair),
    ('1.8', 'highest minus lowest', highest_minus_lowest),
    ('1.8', 'on one device, by MXNet', on_one_device),
    ('1.9', 'by NumPy', counted_by_numpy),
    ('1.9', 'image by image', counted_by_one),
    ('1.9', 'as a float', counted_by_gluon),
    ('1.9', 'by a metric', counted_by_metric),
]
