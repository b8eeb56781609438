"""Wrong answers to the exercises of chapter 6, each with a part of the hint that it gets."""

from contextlib import nullcontext

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from .chapter6_idioms import RIGHT as RIGHT
from .chapter6_restarts import WRONG as RESTARTS
from .chapter6_scaling import WRONG as SCALING
from .chapter6_shares import WRONG as SHARES


def clip(mean='before', norm='whole', always=False, divide=True):
    def clip_mean(grads, limit, dist):
        def average():
            for g in grads:
                dist.all_reduce(g)
                g /= dist.get_world_size() if divide else 1

        if mean == 'before':
            average()
        length = torch.cat([g.flatten() for g in grads]).norm().item()
        for g in grads:
            own = length if norm == 'whole' else g.norm().item()
            g *= limit / own if always else min(1, limit / own)
        if mean == 'after':
            average()
        return length

    return clip_mean


def scaled(way, divide=True, measure=lambda flat, limit: flat.norm().item(), give=lambda x: x):
    def clip_mean(grads, limit, dist):
        for g in grads:
            dist.all_reduce(g)
            g /= dist.get_world_size() if divide else 1
        flat = torch.cat([g.flatten() for g in grads])
        factor, out = min(1, limit / measure(flat, limit)), []
        for i, g in enumerate(grads):
            if way == 'in place':
                g *= factor
            elif way == 'entries':
                grads[i] = g * factor
            elif way == 'clamped':
                g.clamp_(-limit / 2, limit / 2)
            else:
                g = g * factor  # noqa: PLW2901
            out.append(g * factor)
        if way == 'whole list':
            grads[:] = out
        return give(flat.norm().item())

    return clip_mean


def classes(share='own', sums='counts', modes=True, where='all'):
    def accuracy_by_class(net, X, y, n, dist):
        rank, size = dist.get_rank(), dist.get_world_size()
        mine = np.array_split(np.arange(len(y)), size)[rank]
        if share in ('all', f'rank {rank}'):
            mine = np.arange(len(y))
        elif share == 'rank 0':
            mine = mine[:0]
        elif share == 'padded':
            length = -(-len(y) // size)
            mine = (rank + size * np.arange(length)) % len(y)
        elif share == 'without the rest':
            mine = np.arange(len(y) // size) + rank * (len(y) // size)
        if modes:
            net.eval()
        right = net(X[mine]).argmax(1) == y[mine]
        if modes != 'never back':
            net.train()
        there = [y[mine] == c for c in range(n)]
        counts = torch.tensor([[right[t].sum() for t in there], [t.sum() for t in there]])
        if where == 'those that have some' and not len(mine):
            return [0.0] * n
        if sums == 'counts':
            dist.all_reduce(counts)
            return (counts[0] / counts[1]).tolist()
        means = counts[0] / counts[1]
        if sums == 'means':
            dist.all_reduce(means)
            means /= size
        return means.tolist()

    return accuracy_by_class


def pieces(reduction='sum', factor=lambda n, size, pieces, part: size / n, quiet='first', zero=0):
    def my_step(ddp, X, y, n, size, pieces):
        for i, (A, b) in enumerate(zip(X.tensor_split(pieces), y.tensor_split(pieces)), 1):
            still = {'first': i < pieces, 'all': True, 'none': False, 'last': i == pieces}[quiet]
            with ddp.no_sync() if still else nullcontext():
                loss = cross_entropy(ddp(A), b, reduction=reduction)
                if zero:
                    ddp.zero_grad()
                (loss * factor(n, size, pieces, len(X))).backward()

    return my_step


def rank_0_alone(found, dist):
    if dist.get_rank() == 0:
        ranks = [None] * dist.get_world_size()
        dist.all_gather_object(ranks, found)
        return len(set(ranks)) == 1


def gathered(compare):
    def all_found_the_same(found, dist):
        ranks = [None] * dist.get_world_size()
        dist.all_gather_object(ranks, found)
        return compare(ranks, dist.get_rank())

    return all_found_the_same


WRONG = [
    *SHARES,
    ('6.2', 'each by its own norm, then the mean', clip('after'), 'in a different direction'),
    ('6.2', 'short gradients made longer, too', clip(always=True), 'within the limit stays'),
    ('6.2', 'names rebound, tensors unchanged', scaled('names'), 'g = g * x makes a new tensor'),
    ('6.3', 'a mean of means', classes(sums='means'), 'then divide'),
    ('6.3', 'its own shard only', classes(sums='none'), 'add up the counts'),
    ('6.3', 'in training mode', classes(modes=False), 'call net.eval() before'),
    (
        '6.4',
        'ranks forgotten',
        pieces(factor=lambda n, s, p, k: 1 / n),
        'divide by the ranks as well',
    ),
    ('6.4', 'a mean of means', pieces('mean', lambda n, s, p, k: 1 / p), 'differ in length'),
    ('6.4', 'each piece sent', pieces(quiet='none'), 'the passes [1, 2, 3] of 3'),
    ('6.5', 'rank 0 alone', rank_0_alone, 'waits forever'),
    ('6.5', "like rank 0's", gathered(lambda r, i: r[i] == r[0]), 'compare the same list'),
    ('6.5', 'None counted as 0', gathered(lambda r, i: len({x or 0 for x in r}) == 1), 'not False'),
    (
        '6.5',
        'only rank 0 says it',
        gathered(lambda r, i: None if i else len(set(r)) == 1),
        'not only',
    ),
    *RESTARTS,
    *SCALING,
]
