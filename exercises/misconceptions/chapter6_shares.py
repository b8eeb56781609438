"""What students get wrong in exercise 6.1: what is drawn, and from what."""

import random

import numpy as np
import torch


def seeds_all(seed, epoch, index):
    torch.manual_seed(10**6 * seed + 10**4 * epoch + index)
    return torch.rand(1).item() < 0.5


def same(image):
    return lambda *numbers: np.random.default_rng(image(*numbers)).random() < 0.5


def run_together(seed, epoch, index):
    return random.Random(f'{seed}{epoch}{index}').random() < 0.5


def on_one_line(seed, epoch, index):
    return random.Random(4099 * epoch + index + 10**9 * seed).random() < 0.5


WRONG = [
    ('6.1', 'seeds the generator of all', seeds_all, 'random numbers of dropout'),
    ('6.1', 'added up', same(lambda s, e, i: s + e + i), 'a sum, or xor'),
    ('6.1', "a string's hash", lambda *n: hash(f'{n}') % 2 == 0, 'another process'),
    ('6.1', 'numbers without a gap', run_together, 'something between them'),
    ('6.1', 'on one line', on_one_line, 'what example 4099 gets'),
]
