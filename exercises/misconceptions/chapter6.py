"""What students get wrong in the exercises of chapter 6, and a part of the hint that each gets."""

from contextlib import nullcontext

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from torch.optim.lr_scheduler import LambdaLR

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


def sums_the_norm(grads, limit, dist):
    norm = torch.tensor(clip()(grads, limit, dist))
    dist.all_reduce(norm)
    return norm


def clipped_then_measured(grads, limit, dist):
    clip()(grads, limit, dist)
    return torch.cat([g.flatten() for g in grads]).norm().item()


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


def at_once(ddp, X, y, n, size, pieces):
    (cross_entropy(ddp(X), y, reduction='sum') * size / n).backward()


def past_ddp(ddp, X, y, n, size, pieces):
    for A, b in zip(X.tensor_split(pieces), y.tensor_split(pieces)):
        (cross_entropy(ddp.module(A), b, reduction='sum') * size / n).backward()


def rates(when='each', rise=lambda i, w: (i + 1) / (w + 1), fall=True):
    def my_train(step, optimizer, warmup, epochs, steps):
        end = epochs * steps
        up = lambda i: min(1, rise(i, warmup))  # noqa: E731
        down = lambda i: min(1, (end - i) / (end - warmup)) if fall else 1  # noqa: E731
        schedule = LambdaLR(optimizer, lambda i: min(up(i), down(i)))
        for _ in range(epochs):
            for _ in range(steps):
                if when == 'before':
                    optimizer.step()
                    schedule.step()
                step()
                if when == 'each':
                    schedule.step()
            if when == 'epoch':
                schedule.step()

    return my_train


def once(step, optimizer, warmup, epochs, steps):
    rates()(step, optimizer, warmup, 1, steps)


def rank_0_alone(found, dist):
    if dist.get_rank() == 0:
        ranks = [None] * dist.get_world_size()
        dist.all_gather_object(ranks, found)
        return len(set(ranks)) == 1


def only_with_something(found, dist):
    return found is not None and gathered(lambda ranks, rank: len(set(ranks)) == 1)(found, dist)


def gathered(compare):
    def all_found_the_same(found, dist):
        ranks = [None] * dist.get_world_size()
        dist.all_gather_object(ranks, found)
        return compare(ranks, dist.get_rank())

    return all_found_the_same


WRONG = [
    *SHARES,
    ('6.2', 'each by its own norm, then the mean', clip('after'), 'in another direction'),
    ('6.2', 'no sum at all', clip('never'), 'sum over the ranks first'),
    ('6.2', 'each parameter by itself', clip(norm='each'), 'one long vector'),
    ('6.2', 'not divided', clip(divide=False), '2 x it, that of the sum'),
    ('6.2', 'made longer, too', clip(always=True), 'within the limit stays'),
    ('6.2', 'the norm afterwards', clipped_then_measured, 'the norm after clipping'),
    ('6.2', 'entries of the list', scaled('entries'), 'the parameters keep the old ones'),
    ('6.2', 'another list', scaled('whole list'), 'the parameters keep the old ones'),
    ('6.2', 'names, not tensors', scaled('names'), 'g = g * x makes another tensor'),
    ('6.2', 'value by value', scaled('clamped'), 'in another direction'),
    (
        '6.2',
        'the largest value',
        scaled('in place', measure=lambda f, _: f.abs().max()),
        'direction is',
    ),
    ('6.2', 'limit divided', scaled('in place', measure=lambda f, _: 2 * f.norm()), 'direction is'),
    ('6.2', 'squared', scaled('in place', give=lambda x: x * x), 'its square'),
    ('6.2', 'the norm summed, too', sums_the_norm, '2 x it, that of the sum'),
    ('6.2', 'no return', scaled('in place', give=lambda x: None), 'is `return` missing?'),
    ('6.3', 'each rank all of them', classes('all'), 'a share each would do'),
    ('6.3', 'rank 0 all of them', classes('rank 0'), 'a share each would do'),
    ('6.3', 'padded like a sampler', classes('padded'), 'each counts once'),
    ('6.3', 'the rest left out', classes('without the rest'), 'each counts once'),
    ('6.3', 'a mean of means', classes(sums='means'), 'then divide'),
    ('6.3', 'its own share only', classes(sums='none'), 'add up the counts'),
    ('6.3', 'empty ranks stay away', classes(where='those that have some'), 'waits for ever'),
    ('6.3', 'in training mode', classes(modes=False), 'net.eval() belongs before'),
    ('6.3', 'never back to training', classes(modes='never back'), 'net.train() behind'),
    (
        '6.4',
        'ranks forgotten',
        pieces(factor=lambda n, s, p, k: 1 / n),
        'divided by the ranks twice',
    ),
    ('6.4', 'examples forgotten', pieces(factor=lambda n, s, p, k: s), '9 times as large'),
    ('6.4', 'a plain sum', pieces(factor=lambda n, s, p, k: 1), '4.5 times as large'),
    ('6.4', 'divided by the share', pieces(factor=lambda n, s, p, k: 1 / k), 'differ in length'),
    ('6.4', 'means, added', pieces('mean', lambda n, s, p, k: 1), 'differ in length'),
    ('6.4', 'a mean of means', pieces('mean', lambda n, s, p, k: 1 / p), 'differ in length'),
    ('6.4', 'cleared each time', pieces(zero=1), 'add up by themselves'),
    ('6.4', 'each piece sent', pieces(quiet='none'), 'by the passes [1, 2, 3] of 3'),
    ('6.4', 'never sent', pieces(quiet='all'), 'by the passes [] of 3'),
    ('6.4', 'no_sync on the last', pieces(quiet='last'), 'by the passes [1, 2] of 3'),
    ('6.4', 'in one piece', at_once, '1 forward passes in ddp'),
    ('6.4', 'past DDP', past_ddp, '0 forward passes in ddp'),
    ('6.5', 'rank 0 alone', rank_0_alone, 'waits for ever'),
    ('6.5', 'away if it has nothing', only_with_something, 'waits for ever'),
    ('6.5', "like rank 0's", gathered(lambda r, i: r[i] == r[0]), 'compare the same list'),
    ('6.5', 'like the next one', gathered(lambda r, i: r[i] == r[i - 1]), 'compare the same list'),
    ('6.5', 'first and last', gathered(lambda r, i: r[0] == r[-1]), 'say [True, True, True], not'),
    ('6.5', 'any of them', gathered(lambda r, i: any(r)), 'not False'),
    ('6.5', 'only rank 0 says it', gathered(lambda r, i: None if i else len(set(r)) == 1), 'alone'),
    *RESTARTS,
    *SCALING,
]
