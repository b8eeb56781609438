"""What students get wrong in exercise 6.1: what is drawn, and from what."""

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


def flat(*case):
    return [i for share in steps()(*case) for i in share]


def seeds_all(seed, epoch, index):
    torch.manual_seed(10**6 * seed + 10**4 * epoch + index)
    return torch.rand(1).item() < 0.5


def draws_the_next(seed, epoch, index, own=np.random.default_rng(0)):  # noqa: B008
    return own.random() < 0.5


def same(image):
    return lambda *numbers: np.random.default_rng(image(*numbers)).random() < 0.5


WRONG = [
    ('6.1', 'seeds the generator of all', seeds_all, 'dropout draws next'),
    ('6.1', 'who comes first', draws_the_next, 'seed, epoch and index alone'),
    ('6.1', 'never a seed', lambda s, e, i: np.random.default_rng().random() < 0.5, 'who asks'),
    ('6.1', 'alike in an epoch', same(lambda s, e, i: [s, e]), 'a number of its own'),
    ('6.1', 'alike in all epochs', same(lambda s, e, i: [s, i]), 'in epochs 0 and 1'),
    ('6.1', 'without the seed', same(lambda s, e, i: [e, i]), 'mirror the same examples'),
    ('6.1', 'added up', same(lambda s, e, i: s + e + i), 'a sum, or xor'),
    ('6.1', 'too close', same(lambda s, e, i: 1000 * e + i + 10**6 * s), 'example 1000'),
    ('6.1', "a string's hash", lambda *n: hash(f'{n}') % 2 == 0, 'another process'),
    ('6.1', "the process's number", same(lambda *n: [*n, os.getpid()]), 'another process'),
    ('6.1', 'seed and epoch added', same(lambda s, e, i: [s + e, i]), 'mirrors in epoch 1 what'),
    ('6.1', 'joined by xor', same(lambda s, e, i: s ^ e ^ i), 'mirrors in epoch 1 what'),
    ('6.1', 'a checksum', lambda *n: crc32(b'%d %d %d' % n) % 2 == 1, 'keep their answer'),
    ('6.1', 'a number', lambda s, e, i: np.random.default_rng([s, e, i]).random(), 'True or False'),
]
