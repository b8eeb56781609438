"""Wrong answers to exercise 6.1: random numbers that depend on too much, or too little."""

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
    ('6.1', 'seeds the shared generator', seeds_all, 'random numbers of dropout'),
    ('6.1', 'seed, epoch and index added up', same(lambda s, e, i: s + e + i), 'a sum, or xor'),
    ('6.1', "a string's hash", lambda *n: hash(f'{n}') % 2 == 0, 'another process'),
    ('6.1', 'digits joined without a separator', run_together, 'something between them'),
    ('6.1', 'multiplied and added', on_one_line, 'that example 4099 had'),
]
