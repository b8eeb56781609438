"""What students get wrong in exercises 6.1 and 6.2: who takes which examples, and what is drawn."""

import os
from zlib import crc32

import numpy as np
import torch


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
    ('6.2', 'who comes first', draws_the_next, 'seed, epoch and index alone'),
    ('6.2', 'never a seed', lambda s, e, i: np.random.default_rng().random() < 0.5, 'who asks'),
    ('6.2', 'alike in an epoch', same(lambda s, e, i: [s, e]), 'a number of its own'),
    ('6.2', 'alike in all epochs', same(lambda s, e, i: [s, i]), 'in epochs 0 and 1'),
    ('6.2', 'without the seed', same(lambda s, e, i: [e, i]), 'mirror the same examples'),
    ('6.2', 'added up', same(lambda s, e, i: s + e + i), 'a sum, or xor'),
    ('6.2', 'too close', same(lambda s, e, i: 1000 * e + i + 10**6 * s), 'example 1000'),
    ('6.2', "a string's hash", lambda *n: hash(f'{n}') % 2 == 0, 'another process'),
    ('6.2', "the process's number", same(lambda *n: [*n, os.getpid()]), 'another process'),
    ('6.2', 'seed and epoch added', same(lambda s, e, i: [s + e, i]), 'mirrors in epoch 1 what'),
    ('6.2', 'joined by xor', same(lambda s, e, i: s ^ e ^ i), 'mirrors in epoch 1 what'),
    ('6.2', 'a checksum', lambda *n: crc32(b'%d %d %d' % n) % 2 == 1, 'keep their answer'),
    ('6.2', 'a number', lambda s, e, i: np.random.default_rng([s, e, i]).random(), 'True or False'),
]
