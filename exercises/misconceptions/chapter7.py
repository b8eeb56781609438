"""Wrong answers to the exercises of chapter 7, each with a part of the hint that it gets."""

import torch
from torch.nn import functional as F

from mgpu_exercises import given

from .chapter7_fsdp import WRONG as FSDP
from .chapter7_idioms import RIGHT as RIGHT


def held(*begins, shard=lambda n, k: -(-n // k), state=8):
    def answer(stage, n, k):
        sizes = zip((4, 4, state), begins)
        return tuple(b * (shard(n, k) if stage >= begin else n) for b, begin in sizes)

    return answer


def chunk(p, r, k):
    return p.chunk(k)[r]


def zero1(gather=True, mean=True, scatter=True, rebind=False, keep=True, cut=chunk, sums=False):
    def zero1_step(ranks, params, grads, momenta, lr):
        if scatter:
            grads = ranks.reduce_scatter(grads)
        else:
            grads = [g.chunk(ranks.k)[r] for r, g in enumerate(ranks.all_reduce(grads))]
        shards = [cut(p, r, ranks.k) for r, p in enumerate(params)]
        for r, (shard, g) in enumerate(zip(shards, grads)):
            m = 0.9 * momenta[r] + g / (ranks.k if mean else 1)
            if rebind:
                momenta[r] = m
            elif keep:
                momenta[r].copy_(m)
            shard.sub_(lr * m)
        if sums:
            spread = [torch.zeros_like(p) for p in params]
            for r, (whole, shard) in enumerate(zip(spread, shards)):
                whole.chunk(ranks.k)[r].copy_(shard)
            for p, whole in zip(params, ranks.all_reduce(spread)):
                p.copy_(whole)
        elif gather:
            for p, whole in zip(params, ranks.all_gather(shards)):
                p.copy_(whole)

    return zero1_step


def events(again=True, drop=True, scatter=True, twice=True):
    def answer(L):
        steps = []
        for i in range(L):
            last = i == L - 1 and not twice
            steps += [('gather', i), ('forward', i)] + [('drop', i)] * (drop and not last)
        for i in reversed(range(L)):
            steps += [('gather', i)] * again + [('backward', i)]
            steps += [('scatter', i)] * scatter + [('drop', i)]
        return steps

    return answer


def cut_mlp(axis=0, b2s=lambda b2, k: [b2] + [0 * b2] * (k - 1), strided=False):
    def answer(W1, b1, W2, b2, k):
        second = [W2[:, r::k] for r in range(k)] if strided else W2.chunk(k, 1 - axis)
        return list(zip(W1.chunk(k, axis), b1.chunk(k), second, b2s(b2, k)))

    return answer


def tensor_step(enters=True, both=False, mask=True, leaves=True, gathers=False):
    def answer(ranks, x, Ws, Vs, grad_y):
        Hs = [(x @ W).relu() for W in Ws]
        ys = [H @ V for H, V in zip(Hs, Vs)]
        if gathers:
            ys = [whole.view(ranks.k, *x.shape).sum(0) for whole in ranks.all_gather(ys)]
        elif leaves:
            ys = ranks.all_reduce(ys)
        grads = ranks.all_reduce([grad_y] * ranks.k) if both else [grad_y] * ranks.k
        grads = [(g @ V.T) * (H > 0 if mask else 1) for g, V, H in zip(grads, Vs, Hs)]
        grads_x = [g @ W.T for g, W in zip(grads, Ws)]
        return ys, ranks.all_reduce(grads_x) if enters else grads_x, [x.T @ g for g in grads]

    return answer


def accumulate(reduction='sum', by=lambda y, m: 1, last=None):
    def answer(net, X, y, m):
        for X_i, y_i in list(zip(X.tensor_split(m), y.tensor_split(m)))[last:]:
            (F.cross_entropy(net(X_i), y_i, reduction=reduction) / by(y, m)).backward()

    return answer


p, m, ms = given('7.6', 'Ada').values()
STEP, IDLE, ENOUGH = 3 * ms * (m + p - 1), (p - 1) / (m + p - 1), 9 * (p - 1) + 1

WRONG = [
    ('7.1', 'padding forgotten', held(3, 2, 1, shard=lambda n, k: n / k), 'is padded first'),
    ('7.1', 'state counted once', held(3, 2, 1, state=4), 'two numbers per parameter'),
    ('7.1', 'gradients in stage 1', held(3, 1, 1), 'keeps all of the gradients'),
    ('7.2', 'not gathered', zero1(gather=False), 'then gathers all'),
    ('7.2', 'the sum', zero1(mean=False), 'divide the sum to get the mean'),
    ('7.2', 'allreduce of gradients', zero1(scatter=False), 'only its own shard'),
    ('7.3', 'not gathered for backward', events(again=False), 'its backward pass needs'),
    ('7.3', 'never dropped', events(drop=False), 'are unsharded at once'),
    ('7.3', 'one gather too many', events(), 'gathered twice in a row'),
    ('7.4', 'a bias on every rank', cut_mlp(b2s=lambda b, k: [b] * k), 'only one term may'),
    ('7.4', 'split along the wrong axes', cut_mlp(axis=1), 'features between the layers'),
    ('7.4', 'W1 in blocks, W2 every k-th', cut_mlp(strided=True), 'does each feature meet'),
    ('7.5', 'no sum for the gradient of x', tensor_step(enters=False), 'is a sum backward'),
    ('7.5', 'a term returned as the sum', tensor_step(leaves=False), 'only one term of the sum'),
    ('7.5', 'no ReLU in the backward pass', tensor_step(mask=False), 'are above 0'),
    ('7.6', 'no bubble', (3 * ms * m, IDLE, ENOUGH, p), 'starts late'),
    ('7.6', 'divided by the work', (STEP, (p - 1) / m, ENOUGH, p), 'divide by the whole step'),
    ('7.6', 'as in GPipe', (STEP, IDLE, ENOUGH, m), 'GPipe keeps all'),
    *FSDP,
]
