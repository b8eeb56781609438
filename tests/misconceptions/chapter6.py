"""What students get wrong in the exercises of chapter 6, and a part of the hint that each gets."""

import os
import shutil
from contextlib import nullcontext
from pathlib import Path
from zlib import crc32

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from torch.optim.lr_scheduler import LambdaLR


def steps(seeds=lambda seed, epoch, rank: [seed, epoch], cut='shares', drop=False):
    def my_steps(n, batch_size, seed, epoch, done, size, rank):
        order = np.random.default_rng(seeds(seed, epoch, rank)).permutation(n)
        if cut == 'blocks':
            order = np.array_split(order, size)[rank]
            return np.split(order, range(batch_size // size, len(order), batch_size // size))[done:]
        if cut == 'cards':
            mine, batch = order[rank::size], batch_size // size
            return [mine[i : i + batch] for i in range(0, len(mine), batch)][done:]
        if cut == 'each a batch':
            batch_size *= size
        whole = np.split(order, range(batch_size, n, batch_size))[done:]
        if cut == 'last is long':
            whole = [np.split(s, [len(s) // size * i for i in range(1, size)]) for s in whole]
            return [step[rank] for step in whole]
        if cut == 'none':
            return whole
        shares = [np.array_split(step, size)[rank] for step in whole]
        return [s for s in shares if len(s)] if drop else shares

    return my_steps


def without_the_last(n, batch_size, seed, epoch, done, size, rank):
    return steps()(n // batch_size * batch_size, batch_size, seed, epoch, done, size, rank)


def from_the_beginning(n, batch_size, seed, epoch, done, size, rank):
    return steps()(n, batch_size, seed, epoch, 0, size, rank)


def steps_too_many(n, batch_size, seed, epoch, done, size, rank):
    order = np.random.default_rng([seed, epoch]).permutation(n)
    whole = [order[i * batch_size : (i + 1) * batch_size] for i in range(n // batch_size + 1)]
    return [np.array_split(step, size)[rank] for step in whole[done:]]


def even_steps(n, batch_size, seed, epoch, done, size, rank):
    order = np.random.default_rng([seed, epoch]).permutation(n)
    whole = np.array_split(order, -(-n // batch_size))
    return [np.array_split(step, size)[rank] for step in whole[done:]]


def permutes_the_rest(n, batch_size, seed, epoch, done, size, rank):
    left = n - done * batch_size
    order = done * batch_size + np.random.default_rng([seed, epoch]).permutation(left)
    whole = np.split(order, range(batch_size, left, batch_size))
    return [np.array_split(step, size)[rank] for step in whole]


def an_order_of_its_own(n, batch_size, seed, epoch, done, size, rank):
    order = np.random.RandomState(seed + epoch).permutation(n)
    whole = np.split(order, range(batch_size, n, batch_size))[done:]
    return [np.array_split(step, size)[rank] for step in whole]


def chunked(n, batch_size, seed, epoch, done, size, rank):
    order = torch.from_numpy(np.random.default_rng([seed, epoch]).permutation(n))
    return [step.chunk(size)[rank] for step in order.split(batch_size)[done:]]


def flat(*case):
    return [i for share in steps()(*case) for i in share]


def floats(*case):
    return [share * 1.0 for share in steps()(*case)]


def seeds_all(seed, epoch, index):
    torch.manual_seed(10**6 * seed + 10**4 * epoch + index)
    return torch.rand(1).item() < 0.5


def draws_the_next(seed, epoch, index, own=np.random.default_rng(0)):  # noqa: B008
    return own.random() < 0.5


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


def in_place(file, write, flush):
    write(file)
    flush(file)


def moved_away(file, write, flush):
    write(f'{file}.new')
    flush(f'{file}.new')
    os.remove(file)
    os.rename(f'{file}.new', file)


def renamed_first(file, write, flush):
    write(f'{file}.new')
    os.replace(f'{file}.new', file)
    flush(file)


def never_flushed(file, write, flush):
    write(f'{file}.new')
    os.replace(f'{file}.new', file)


def copied(file, write, flush):
    write(f'{file}.new')
    flush(f'{file}.new')
    shutil.copy(f'{file}.new', file)


def elsewhere(file, write, flush):
    new = Path(file).parent / 'another disk' / 'new'
    new.parent.mkdir(exist_ok=True)
    write(new)
    flush(new)
    shutil.move(new, file)


def never_renamed(file, write, flush):
    write(f'{file}.new')
    flush(f'{file}.new')


def kept(without='', wrapped=False, objects=False):
    def my_state(ddp, optimizer, schedule, done):
        net = ddp if wrapped else ddp.module
        state = {'net': net, 'optimizer': optimizer, 'schedule': schedule}
        state = {name: part if objects else part.state_dict() for name, part in state.items()}
        return state | {'done': done, 'random': torch.get_rng_state()}

    def my_resume(state, net, optimizer, schedule):
        parts = {'net': net, 'optimizer': optimizer, 'schedule': schedule}
        for name in parts.keys() - {without}:
            strict = {'strict': False} if name == 'net' and wrapped == 'not strict' else {}
            parts[name].load_state_dict(state[name], **strict)
        if without != 'random':
            torch.set_rng_state(state['random'])
        return 0 if without == 'done' else state['done']

    return my_state, my_resume


def same(image):
    return lambda *numbers: np.random.default_rng(image(*numbers)).random() < 0.5


WRONG = [
    ('6.1', 'an order for each rank', steps(lambda s, e, r: [s, e, r]), 'more than once'),
    ('6.1', 'everyone everything', steps(cut='none'), 'more than once'),
    ('6.1', 'set_epoch forgotten', steps(lambda s, e, r: [s]), 'in the same order'),
    ('6.1', 'epoch cut into blocks', steps(cut='blocks'), 'into steps first'),
    ('6.1', 'epoch dealt like cards', steps(cut='cards'), 'an empty share is a share'),
    ('6.1', 'a batch for each rank', steps(cut='each a batch'), '2 steps, and 3 are left'),
    ('6.1', 'the last step dropped', without_the_last, 'the last one may be short'),
    ('6.1', 'empty shares dropped', steps(drop=True), 'an empty share is a share'),
    ('6.1', 'the rest for the last rank', steps(cut='last is long'), 'wait for the longest'),
    ('6.1', 'from the beginning again', from_the_beginning, 'of them are taken'),
    ('6.1', 'a step too many', steps_too_many, '3 steps, and 2 are left'),
    ('6.1', 'steps of one length', even_steps, 'have [4, 3, 3] examples, and not [4, 4, 2]'),
    ('6.1', 'only the rest is shuffled', permutes_the_rest, 'the order is that of all n'),
    ('6.1', 'another order', an_order_of_its_own, 'the order is that of all n'),
    ('6.1', 'chunks, which may be fewer', chunked, 'chunked(10, 8, '),
    ('6.1', 'one flat list', flat, 'one entry for each step'),
    ('6.1', 'floats', floats, 'examples have whole numbers'),
    ('6.2', 'seeds the generator of all', seeds_all, 'dropout draws next'),
    ('6.2', 'who comes first', draws_the_next, 'on seed, epoch and index alone'),
    ('6.2', 'never a seed', lambda s, e, i: np.random.default_rng().random() < 0.5, 'who asks'),
    ('6.2', 'alike in an epoch', same(lambda s, e, i: [s, e]), 'a number of its own'),
    ('6.2', 'alike in all epochs', same(lambda s, e, i: [s, i]), 'in epochs 0 and 1'),
    ('6.2', 'without the seed', same(lambda s, e, i: [e, i]), 'mirror the same examples'),
    ('6.2', 'added up', same(lambda s, e, i: s + e + i), 'a sum mixes'),
    ('6.2', 'too close', same(lambda s, e, i: 1000 * e + i + 10**6 * s), 'example 1000'),
    ('6.2', "a string's hash", lambda *n: hash(f'{n}') % 2 == 0, 'another process'),
    ('6.2', "the process's number", same(lambda *n: [*n, os.getpid()]), 'another process'),
    ('6.2', 'seed and epoch added', same(lambda s, e, i: [s + e, i]), 'mirrors in epoch 1 what'),
    ('6.2', 'joined by xor', same(lambda s, e, i: s ^ e ^ i), 'mirrors in epoch 1 what'),
    ('6.2', 'a checksum', lambda *n: crc32(b'%d %d %d' % n) % 2 == 1, 'keep their answer'),
    ('6.2', 'a number', lambda s, e, i: np.random.default_rng([s, e, i]).random(), 'True or False'),
    ('6.3', 'each by its own norm, then the mean', clip('after'), 'in another direction'),
    ('6.3', 'no sum at all', clip('never'), 'sum over the ranks first'),
    ('6.3', 'each parameter by itself', clip(norm='each'), 'one long vector'),
    ('6.3', 'not divided', clip(divide=False), '2 x it, that of the sum'),
    ('6.3', 'made longer, too', clip(always=True), 'within the limit stays'),
    ('6.3', 'the norm afterwards', clipped_then_measured, 'the norm after clipping'),
    ('6.3', 'entries of the list', scaled('entries'), 'the parameters keep the old ones'),
    ('6.3', 'another list', scaled('whole list'), 'the parameters keep the old ones'),
    ('6.3', 'names, not tensors', scaled('names'), 'g = g * x makes another tensor'),
    ('6.3', 'value by value', scaled('clamped'), 'in another direction'),
    (
        '6.3',
        'the largest value',
        scaled('in place', measure=lambda f, _: f.abs().max()),
        'direction is',
    ),
    ('6.3', 'limit divided', scaled('in place', measure=lambda f, _: 2 * f.norm()), 'direction is'),
    ('6.3', 'squared', scaled('in place', give=lambda x: x * x), 'its square'),
    ('6.3', 'the norm summed, too', sums_the_norm, '2 x it, that of the sum'),
    ('6.3', 'no return', scaled('in place', give=lambda x: None), 'is `return` missing?'),
    ('6.4', 'each rank all of them', classes('all'), 'a share each would do'),
    ('6.4', 'rank 0 all of them', classes('rank 0'), 'a share each would do'),
    ('6.4', 'padded like a sampler', classes('padded'), 'each counts once'),
    ('6.4', 'the rest left out', classes('without the rest'), 'each counts once'),
    ('6.4', 'a mean of means', classes(sums='means'), 'then divide'),
    ('6.4', 'its own share only', classes(sums='none'), 'add up the counts'),
    ('6.4', 'empty ranks stay away', classes(where='those that have some'), 'waits for ever'),
    ('6.4', 'in training mode', classes(modes=False), 'net.eval() belongs before'),
    ('6.4', 'never back to training', classes(modes='never back'), 'net.train() behind'),
    (
        '6.5',
        'ranks forgotten',
        pieces(factor=lambda n, s, p, k: 1 / n),
        'divided by the ranks twice',
    ),
    ('6.5', 'examples forgotten', pieces(factor=lambda n, s, p, k: s), '9 times as large'),
    ('6.5', 'a plain sum', pieces(factor=lambda n, s, p, k: 1), '4.5 times as large'),
    ('6.5', 'divided by the share', pieces(factor=lambda n, s, p, k: 1 / k), 'differ in length'),
    ('6.5', 'means, added', pieces('mean', lambda n, s, p, k: 1), 'differ in length'),
    ('6.5', 'a mean of means', pieces('mean', lambda n, s, p, k: 1 / p), 'differ in length'),
    ('6.5', 'cleared each time', pieces(zero=1), 'add up by themselves'),
    ('6.5', 'each piece sent', pieces(quiet='none'), 'by the passes [1, 2, 3] of 3'),
    ('6.5', 'never sent', pieces(quiet='all'), 'by the passes [] of 3'),
    ('6.5', 'no_sync on the last', pieces(quiet='last'), 'by the passes [1, 2] of 3'),
    ('6.5', 'in one piece', at_once, '1 forward passes in ddp'),
    ('6.5', 'past DDP', past_ddp, '0 forward passes in ddp'),
    ('6.6', 'counted in epochs', rates('epoch'), 'belongs to each step'),
    ('6.6', 'the schedule first', rates('before'), 'the first rate is skipped'),
    ('6.6', 'from zero', rates(rise=lambda i, w: i / max(1, w)), 'a step with rate 0'),
    (
        '6.6',
        'full a step early',
        rates(rise=lambda i, w: (i + 1) / max(1, w)),
        'the first one with',
    ),
    ('6.6', 'never down', rates(fall=False), 'straight down'),
    ('6.6', 'one epoch', once, '4 steps, not 8'),
    ('6.7', 'rank 0 alone', rank_0_alone, 'waits for ever'),
    ('6.7', 'away if it has nothing', only_with_something, 'waits for ever'),
    ('6.7', "like rank 0's", gathered(lambda r, i: r[i] == r[0]), 'compare the same list'),
    ('6.7', 'like the next one', gathered(lambda r, i: r[i] == r[i - 1]), 'compare the same list'),
    ('6.7', 'first and last', gathered(lambda r, i: r[0] == r[-1]), 'say [True, True, True], not'),
    ('6.7', 'any of them', gathered(lambda r, i: any(r)), 'not False'),
    ('6.7', 'only rank 0 says it', gathered(lambda r, i: None if i else len(set(r)) == 1), 'alone'),
    ('6.8', 'over the old one', in_place, 'write beside it'),
    ('6.8', 'removed first', moved_away, 'the only change'),
    ('6.8', 'renamed, then flushed', renamed_first, 'before it is flushed'),
    ('6.8', 'never flushed', never_flushed, 'nothing was flushed'),
    ('6.8', 'copied', copied, 'was it copied'),
    ('6.8', 'on another disk', elsewhere, 'from disk to disk'),
    ('6.8', 'never renamed', never_renamed, 'still the old one'),
    ('6.9', "DDP's names", kept(wrapped=True), "begin with 'module.'"),
    ('6.9', 'not strict', kept(wrapped='not strict'), 'was every name found'),
    ('6.9', 'whole objects', kept(objects=True), 'no objects'),
    ('6.9', 'no parameters', kept('net'), 'not those that were saved'),
    ('6.9', 'no optimizer', kept('optimizer'), 'without its momentum'),
    ('6.9', 'no schedule', kept('schedule'), 'begins anew'),
    ('6.9', 'no place', kept('done'), '3 steps were done'),
    ('6.9', 'no random numbers', kept('random'), 'torch.get_rng_state()'),
]
