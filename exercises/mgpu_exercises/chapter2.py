"""Check the exercises of chapter 2: the trainer's work, clipping, running statistics."""

import random
from collections.abc import Callable
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import gluon, nd
from mxnet.gluon import nn
from mxnet.ndarray import NDArray

from mgpu_helpers.gluon import forward_backward

from .arrays import Arrays, on_devices
from .by_hand import by_hand
from .checking import Numbers, expect, expect_value, on_paper, there

DEVICES = [mx.cpu(0), mx.cpu(1)]


@there
def gradients_by(
    function: Callable[..., Any], weight: NDArray, data: Arrays, label: Arrays
) -> tuple[list[np.ndarray], Any]:
    """Return each device's gradient of a layer, and the shapes of the returned losses."""
    net = nn.Dense(3, in_units=4)
    net.cast('float64')
    net.initialize(ctx=DEVICES)
    net.weight.set_data(weight)
    losses = function(net, data, label, gluon.loss.L2Loss())
    shapes = isinstance(losses, list | tuple) and [getattr(l, 'shape', 0) for l in losses]
    return [g.asnumpy() for g in net.weight.list_grad()], shapes


def exercise_1(rng: random.Random, my_forward_backward: Callable[..., Any]) -> None:
    """Check the forward and backward pass on every device."""
    (X,), (y,), (weight,) = (on_devices(rng, 1, shape) for shape in ((5, 4), (5, 3), (3, 4)))
    weight /= 100
    data, label = (gluon.utils.split_and_load(a, DEVICES, even_split=False) for a in (X, y))
    with by_hand(forward_backward):
        found, shapes = gradients_by(my_forward_backward, weight, data, label)
    W, pairs = weight.asnumpy(), [(x.asnumpy(), z.asnumpy()) for x, z in zip(data, label)]
    wanted = [(x @ W.T - z).T @ x / 3 for x, z in pairs]  # half the mean of three squares
    for d, (g, w) in enumerate(zip(found, wanted)):
        size = len(data[d])
        hint = (
            f'device {d} has no gradient: each shard has a loss, and each loss needs its backward()'
        )
        expect(g.any(), hint)
        hint = f'device {d} has the gradient of a mean; the trainer divides, so do not use mean()'
        expect(not np.allclose(g, w / size, rtol=1e-4), hint)
        expect(
            np.allclose(g, w, rtol=1e-4), f'device {d} does not have the gradient of its own shard'
        )
    hint = 'the gradients are right; also return a list of the losses, one array per shard'
    expect(shapes == [(3,), (2,)], hint)


def exercise_2(rng: random.Random, clip: Callable[..., None]) -> None:
    """Check clipping by the norm of the whole mean gradient."""
    n = 10
    for k, limit, clipped in ((1, 1.0, True), (2, 1.0, True), (2, 100.0, False)):
        # Gradients of two parameters, summed over n examples, equal on all devices: norm 50.
        values = [np.full(16, 10.0) * 0.75, np.full(25, 8.0)]
        grads = [[nd.array(v, ctx=mx.cpu(c)) for v in values] for c in range(k)]
        lists = [list(gs) for gs in grads]
        clip(lists, n, limit)
        hint = 'the lists hold new arrays; the parameters keep the old gradients: write into those'
        expect(all(g is h for gs, hs in zip(grads, lists) for g, h in zip(gs, hs)), hint)
        norms = [float(np.sqrt(sum((g.asnumpy() ** 2).sum() for g in gs))) for gs in grads]
        each = [float(np.linalg.norm(g.asnumpy())) for g in grads[0]]
        right = limit * n if clipped else 50.0
        case = f'{k} devices, gradients of norm 50 summed over {n} examples, limit {limit:g}'
        hint = (
            f'their mean has norm 5, below the limit, so leave it unchanged; it is {norms[0]:.3g}'
        )
        expect(clipped or np.allclose(norms, 50.0), hint, case)
        hint = (
            'you clipped each array separately, which changes the direction: use one norm for all'
        )
        expect(not np.allclose(each, limit * n) or np.allclose(norms, right), hint, case)
        hint = f'the sum now has norm {norms[0]:.3g}: the limit applies to the mean'
        expect(not np.allclose(norms, limit) or limit == right, hint, case)
        hint = f'too small by a factor of √{k}: replicas are equal, so use the norm of one device'
        expect(not (k > 1 and np.allclose(norms, right / np.sqrt(k))), hint, case)
        hint = (
            f'the norms are {[round(x, 2) for x in norms]}: they must be equal, or replicas drift'
        )
        expect(np.allclose(norms, norms[0]), hint, case)
        expect(np.allclose(norms, right), f'the norm is now {norms[0]:.3g}, not {right:g}', case)


@on_paper(arrays=(6, 12, 40), megabytes=(0.4, 2.0, 6.0), compute_ms=(0.5, 2.0, 3.0))
def exercise_3(numbers: Numbers, exchange_ms: float, speed_up: float, one_message: float) -> None:
    """Check the gain from a second device, computed on paper."""
    arrays, megabytes, compute = numbers.values()
    start, travel = arrays * 0.02, megabytes / 10
    mistakes = {f'each of the {arrays} arrays takes 20 µs to start': travel + 0.02}
    hint = 'add 20 µs per array to the time of all bytes at 10 GB/s (10,000 bytes per µs)'
    expect_value(exchange_ms, start + travel, '{} ms', mistakes, hint, 0.01)
    right = 2 * compute / (compute + start + travel)
    mistakes = {'two devices handle twice as many images in that time': right / 2}
    hint = 'compare two batches per computing + exchange with one batch per computing'
    expect_value(speed_up, right, 'a speed-up of {}', mistakes, hint, 0.01)
    right, hint = 2 * compute / (compute + 0.02 + travel), 'the same bytes, but 20 µs only once'
    expect_value(one_message, right, 'a speed-up of {} with one message', {}, hint, 0.01)


def exercise_4(rng: random.Random, whole_variance: Callable[..., float]) -> None:
    """Check the variance of a batch, computed from the means and variances of uneven shards."""
    for sizes in ((2, 2), (4, 4, 4), (5, 2), (1, 6)):
        shards = [np.array([rng.randrange(50) for _ in range(n)], dtype=float) for n in sizes]
        means, variances = ([float(f(s)) for s in shards] for f in (np.mean, np.var))
        right, even = float(np.var(np.concatenate(shards))), np.mean(variances)
        within, alike = np.average(variances, weights=sizes), even + np.var(means)
        mistakes = {
            'this is the mean of the variances, but the shards also have different means': within,
            'this is right only for shards of equal length; a longer one counts for more': alike,
            'the variance of the means themselves is missing': even,
            'this is a sum, and the variance of the means themselves is missing': sum(variances),
        }
        hint = f'not {right:.4f}; variance is the mean of the squares minus the square of the mean'
        found = whole_variance(means, variances, sizes)
        expect_value(found, right, f'shards of {list(sizes)} examples: {{}}', mistakes, hint, 1e-5)
