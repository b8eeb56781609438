"""Right answers to the exercises of chapter 7, written differently from ours; each must pass."""

import torch
from torch.nn import functional as F

from .chapter7_fsdp import RIGHT as FSDP


def held_by_lists(stage, n, k):
    lengths = [n] * 3
    for shared in range(stage):
        lengths[2 - shared] = (n + k - 1) // k
    return [size * count for size, count in zip((4, 4, 8), lengths)]


def held_by_ifs(stage, n, k):
    padded = n if n % k == 0 else n + k - n % k
    parameters = gradients = 4 * n
    state = 2 * 4 * n
    if stage >= 1:
        state = 2 * 4 * padded // k
    if stage >= 2:
        gradients = 4 * padded // k
    if stage == 3:
        parameters = 4 * padded // k
    return parameters, gradients, state


def with_new_parts(ranks, params, grads, momenta, lr):
    n = len(params[0]) // ranks.k
    summed = ranks.reduce_scatter([g / ranks.k for g in grads])
    parts = []
    for r in range(ranks.k):
        momenta[r].copy_(0.9 * momenta[r] + summed[r])
        parts.append(params[r][r * n : (r + 1) * n] - lr * momenta[r])
    for r, whole in enumerate(ranks.all_gather(parts)):
        params[r][:] = whole


def changes_gathered(ranks, params, grads, momenta, lr):
    for m, g in zip(momenta, ranks.reduce_scatter(grads)):
        m *= 0.9
        m += g / ranks.k
    changes = ranks.all_gather([-lr * m for m in momenta])
    for p, change in zip(params, changes):
        p += change


def as_a_generator(L):
    for i in range(L):
        yield 'gather', i
        yield 'forward', i
        if i != L - 1:
            yield 'drop', i
    for i in range(L - 1, -1, -1):
        if i != L - 1:
            yield 'gather', i
        yield 'backward', i
        yield 'drop', i
        yield 'scatter', i


def middle_apart(L):
    last = L - 1
    up = [[what, i] for i in range(last) for what in ('gather', 'forward', 'drop')]
    turn = [[what, last] for what in ('gather', 'forward', 'backward', 'scatter', 'drop')]
    down = [
        [what, i] for i in range(last)[::-1] for what in ('gather', 'backward', 'scatter', 'drop')
    ]
    return up + turn + down


def mlp_by_slices(W1, b1, W2, b2, k):
    h, parts = W1.shape[0] // k, []
    for r in range(k):
        mine = slice(r * h, (r + 1) * h)
        parts.append([W1[mine], b1[mine], W2[:, mine], b2 if r == k - 1 else b2 * 0])
    return parts


def mlp_interleaved(W1, b1, W2, b2, k):
    return [(W1[r::k], b1[r::k], W2[:, r::k], b2 / k) for r in range(k)]


def step_with_a_mask(ranks, x, Ws, Vs, grad_y):
    terms, masks = [], []
    for W, V in zip(Ws, Vs):
        hidden = torch.mm(x, W)
        masks.append(hidden.gt(0).to(x.dtype))
        terms.append(hidden.clamp(min=0).mm(V))
    ys = ranks.all_reduce(terms)
    dHs = [grad_y.mm(V.t()) * mask for V, mask in zip(Vs, masks)]
    dWs = [x.t().mm(dH) for dH in dHs]
    return ys, ranks.all_reduce([dH.mm(W.t()) for dH, W in zip(dHs, Ws)]), dWs


def step_by_where(ranks, x, Ws, Vs, grad_y):
    grads_x, grads_W = [], []
    for r in range(ranks.k):
        grad_H = torch.where(x @ Ws[r] > 0, grad_y @ Vs[r].T, 0.0)
        grads_x += [torch.einsum('ij,kj->ik', grad_H, Ws[r])]
        grads_W += [torch.einsum('ni,nj->ij', x, grad_H)]
    grads_x = ranks.all_reduce(grads_x)
    ys = ranks.all_reduce(tuple(F.relu(x @ W) @ V for W, V in zip(Ws, Vs)))
    return [ys, grads_x, grads_W]


RIGHT = [
    ('7.1', 'a list', held_by_lists),
    ('7.1', 'ifs, padded', held_by_ifs),
    ('7.2', 'means first, params[r][:] =', with_new_parts),
    ('7.2', 'changes gathered', changes_gathered),
    ('7.3', 'a generator, dropped before scattered', as_a_generator),
    ('7.3', 'the last layer apart, in lists', middle_apart),
    ('7.4', 'slices, the bias on the last rank', mlp_by_slices),
    ('7.4', 'every k-th feature, a k-th of the bias', mlp_interleaved),
    ('7.5', 'masks, mm', step_with_a_mask),
    ('7.5', 'where, back before forward', step_by_where),
    *FSDP,
]
