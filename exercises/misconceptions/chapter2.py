"""Wrong answers to the exercises of chapter 2, each with a part of the hint that it gets."""

import numpy as np
from mxnet import autograd

from mgpu_exercises import given

from .chapter2_idioms import RIGHT as RIGHT


def backward_of(losses_of):
    def forward_backward(net, data, label, loss):
        with autograd.record():
            losses = [losses_of(loss(net(X), y)) for X, y in zip(data, label)]
        for l in losses:
            l.backward()
        return losses

    return forward_backward


def first_shard_only(net, data, label, loss):
    with autograd.record():
        losses = [loss(net(X), y) for X, y in zip(data, label)]
    losses[0].backward()
    return losses


def without_losses(net, data, label, loss):
    backward_of(lambda l: l)(net, data, label, loss)


def norm_of(arrays):
    return float(np.sqrt(sum((a.asnumpy() ** 2).sum() for a in arrays)))


def scaled(arrays, limit, norm=None):
    norm = norm_of(arrays) if norm is None else norm
    for a in arrays:
        a *= min(1, limit / norm)


def each_array(grads, n, limit):
    for g in sum(grads, []):
        scaled([g], n * limit)


def limit_of_the_sum(grads, n, limit):
    for gs in grads:
        scaled(gs, limit)


def other_arrays(grads, n, limit):
    factor = min(1, n * limit / norm_of(grads[0]))
    for device in grads:
        device[:] = [g * factor for g in device]


ADA = given('2.3', 'Ada')
START, TRAVEL, COMPUTE = ADA['arrays'] * 0.02, ADA['megabytes'] / 10, ADA['compute_ms']
GAIN = 2 * COMPUTE / (COMPUTE + START + TRAVEL)

WRONG = [
    ('2.1', 'the mean over the shard', backward_of(lambda l: l.mean()), 'do not use mean()'),
    ('2.1', 'one backward pass for all devices', first_shard_only, 'device 1 has no gradient'),
    ('2.1', 'nothing is returned', without_losses, 'is `return` missing'),
    ('2.2', 'new arrays in the lists', other_arrays, 'the old gradients: write into those'),
    ('2.2', 'each array clipped separately', each_array, 'changes the direction: use one norm'),
    ('2.2', 'the limit applied to the sum', limit_of_the_sum, 'the limit applies to the mean'),
    ('2.3', 'one latency for all arrays', (0.02 + TRAVEL, GAIN, 1), 'takes 20 µs to start'),
    ('2.3', 'one batch instead of two', (START + TRAVEL, GAIN / 2, 1), 'twice as many images'),
    ('2.3', 'a speed-up of 2 in any case', (START + TRAVEL, 2, 2), 'with one batch per computing'),
    (
        '2.4',
        'mean of the variances',
        lambda m, v, s: np.mean(v),
        'the shards also have different means',
    ),
    ('2.4', 'shards assumed equal', lambda m, v, s: np.mean(v) + np.var(m), 'counts for more'),
]
