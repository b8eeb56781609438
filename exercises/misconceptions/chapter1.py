"""Wrong answers to the exercises of chapter 1, each with a part of the hint that it gets.

The teacher's sheet lists them, too. An entry is: exercise, misconception, answer, part of the hint.
"""

import mgpu_helpers as mgpu
from mgpu_exercises import given
from mgpu_helpers.collectives import allreduce_sharded

from .chapter1_idioms import RIGHT as RIGHT


def rebinding(data):
    for i in range(1, len(data)):
        data[0] = data[0] + data[i].copyto(data[0].context)
    for i in range(1, len(data)):
        data[i] = data[0].copyto(data[i].context)


def a_mean(data):
    total = sum(x.copyto(data[0].context) for x in data)
    for x in data:
        x[:] = total.copyto(x.context) / len(data)


def never_back(data):
    for x in data[1:]:
        data[0] += x.copyto(data[0].context)


def offsets(X, devices):
    """Let shard i start at i times the first length."""
    sizes = [len(X) // len(devices) + (i < len(X) % len(devices)) for i in range(len(devices))]
    begins = [i * sizes[0] for i in range(len(devices))]
    return [X[b : b + s].as_in_context(d) for b, s, d in zip(begins, sizes, devices)]


def slices(X, devices, key=lambda s: s, shape=lambda x: x):
    n, k = len(X), len(devices)
    cuts = [i * (n // k) + min(i, n % k) for i in range(k + 1)]
    shards = (X[key(slice(a, b))] for a, b in zip(cuts, cuts[1:]))
    return [shape(s).as_in_context(d) for s, d in zip(shards, devices)]


def without_mean(params, lr, n):
    for p in params:
        p -= lr * p.grad


def other_arrays(params, lr, n):
    for p in params:
        p = p - lr / n * p.grad  # noqa: PLW2901


def other_entries(params, lr, n):
    params[:] = [p - lr / n * p.grad for p in params]


def whole_slices_only(data):
    k, size = len(data), data[0].size // len(data)
    for c in range(k if size else 0):
        parts = [x.reshape(-1)[c * size : (c + 1) * size] for x in data]
        for i in range(k):
            if i != c:
                parts[c][:] += parts[i].copyto(parts[c].context)
        for i in range(k):
            if i != c:
                parts[c].copyto(parts[i])


def sum_of_differences(replicas):
    pairs = [(p, q) for replica in replicas for p, q in zip(replica, replicas[0])]
    return max(float((p.asnumpy() - q.asnumpy()).max()) for p, q in pairs)


def first_parameter(replicas):
    first = replicas[0][0].asnumpy()
    return max(float(abs(r[0].asnumpy() - first).max()) for r in replicas)


def first_two_replicas(replicas):
    pairs = zip(*replicas[:2])
    return max(float(abs(p.asnumpy() - q.asnumpy()).max()) for p, q in pairs)


def right(X, y, replicas):
    shards = zip(*mgpu.split_batch(X, y, [r[0].context for r in replicas]), replicas)
    counts = [(mgpu.lenet(X_d, p).argmax(axis=1) == y_d).sum() for X_d, y_d, p in shards]
    return int(sum(r.asscalar() for r in counts))


def without_the_rest(X, y, replicas):
    n = len(X) // len(replicas) * len(replicas)
    return right(X[:n], y[:n], replicas)


def the_rest_for_the_last(X, y, replicas):
    k, each = len(replicas), len(X) // len(replicas)
    cuts = [*range(0, k * each, each), len(X)]
    shards = ((X[a:b], y[a:b]) for a, b in zip(cuts, cuts[1:]))
    return sum(
        int(
            (
                mgpu.lenet(*[X_d.as_in_context(r[0].context), r]).argmax(axis=1)
                == y_d.as_in_context(r[0].context)
            )
            .sum()
            .asscalar()
        )
        for (X_d, y_d), r in zip(shards, replicas)
    )


ADA = given('1.6', 'Ada')
COPIES, SPEED = 2 * (ADA['devices'] - 1), ADA['gigabytes_per_second']
MB = 0.516272


def from_the_end(X, devices):
    n = len(X)
    a, b = n, n + n // len(devices)
    return [X[a:b].as_in_context(device) for device in devices]


def against_the_first(replicas):
    first, *others = replicas
    pairs = [(p, q.as_in_context(p.context)) for r in others for p, q in zip(first, r)]
    return max((p - q).abs().max().asscalar() for p, q in pairs)


WRONG = [
    ('1.1', 'the remainder is dropped', lambda n, k: [n // k] * k, '6 in all'),
    (
        '1.1',
        'the last device takes the whole remainder',
        lambda n, k: [n // k] * (k - 1) + [n - n // k * (k - 1)],
        'take one more',
    ),
    ('1.1', 'divided with /', lambda n, k: [n / k] * k, 'lengths are whole numbers'),
    (
        '1.2',
        'the remainder is dropped',
        lambda X, ds: [
            X[i * (len(X) // len(ds)) : (i + 1) * (len(X) // len(ds))].as_in_context(d)
            for i, d in enumerate(ds)
        ],
        'the last n mod k',
    ),
    (
        '1.2',
        'nothing is copied',
        lambda X, ds: slices(X, [X.context] * len(ds)),
        'as_in_context',
    ),
    ('1.2', 'begins at i times the first length', offsets, '6 of 7 in all'),
    ('1.2', 'begins at the end', from_the_end, 'a slice is empty'),
    ('1.3', 'the entries of the list are rebound', rebinding, 'changes the list'),
    ('1.3', 'the mean instead of the sum', a_mean, 'hold the mean'),
    ('1.3', 'the sum never comes back', never_back, 'send it back'),
    ('1.4', 'the gradient mistaken for a mean', without_mean, '8 times too long'),
    ('1.4', 'a name is rebound, the array unchanged', other_arrays, 'no parameter has changed'),
    ('1.4', 'new arrays, which have no gradients', other_entries, 'the list now holds new arrays'),
    ('1.5', 'mean of means', lambda means, sizes: sum(means) / len(means), 'mean of the means'),
    (
        '1.5',
        'divided by the devices',
        lambda means, sizes: sum(m * s for m, s in zip(means, sizes)) / len(sizes),
        'by the number of examples, not',
    ),
    ('1.6', 'one way only', (COPIES * MB / 2, COPIES * 8, 1), 'is one way'),
    ('1.6', 'device 0 sends to itself', ((COPIES + 2) * MB, COPIES * 8, 1), 'to itself'),
    ('1.6', 'one message for all arrays', (COPIES * MB, COPIES, 1), 'each of the 8 arrays'),
    ('1.7', 'the remainder is not summed', whole_slices_only, 'handle the remainder'),
    ('1.7', "the course's function", allreduce_sharded, "is the course's own function"),
    ('1.7', 'device 0 adds everything', mgpu.allreduce, 'only its own slice'),
    ('1.8', 'without the absolute value', sum_of_differences, 'with either sign'),
    ('1.8', 'the first parameter only', first_parameter, 'parameter 1 on device 2'),
    ('1.8', 'the first two replicas only', first_two_replicas, 'each replica'),
    ('1.8', 'compared with the first replica only', against_the_first, 'from each other'),
    (
        '1.9',
        'one replica sees the whole batch',
        lambda X, y, rs: int((mgpu.lenet(X, rs[0]).argmax(axis=1) == y).sum().asscalar()),
        'sees its own shard',
    ),
    ('1.9', 'the remainder is dropped', without_the_rest, 'k does not divide'),
    ('1.9', 'the last replica takes the remainder', the_rest_for_the_last, 'get one more image'),
]
