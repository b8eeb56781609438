"""Exercises 6.1 and 6.2: whose examples, and each example's own random numbers."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import torch

from .checking import expect


def exercise_1(rng: random.Random, my_steps: Callable[..., Any]) -> None:
    """One rank's shares of an epoch's steps."""
    for n, batch, size in ((10, 4, 2), (10, 8, 4), (8, 4, 2), (rng.randint(50, 60), 16, 3)):
        seed, first, last = rng.randrange(99), list[list[int]](), -(-n // batch)
        for epoch, done in ((0, 0), (1, 0), (1, 1), (1, last)):
            case = f'{n} examples in steps of {batch} on {size} ranks, {done} done'
            ranks = [_shares(my_steps(n, batch, seed, epoch, done, size, rank), case)
                     for rank in range(size)]  # fmt: skip
            order = np.random.default_rng([seed, epoch]).permutation(n).tolist()
            steps = [sorted(order[i : i + batch]) for i in range(0, n, batch)][done:]
            counts = [len(shares) for shares in ranks]
            hint = f'the ranks take {counts} steps, one waits for ever; an empty share is a share'
            expect(len(set(counts)) == 1, hint, case)
            hint = f'{counts[0]} steps, and {len(steps)} are left: the last one may be short, but '
            hint += 'not empty, and the first `done` of them are taken'
            expect(counts[0] == len(steps), hint, case)
            joint = [sum((shares[i] for shares in ranks), []) for i in range(len(steps))]
            dealt = sum(joint, [])
            hint = f'example {max(dealt or [0], key=dealt.count)} is taken more than once in an '
            hint += 'epoch; all ranks draw the same order, and each takes another part of it'
            expect(len(set(dealt)) == len(dealt), hint, case)
            hint = 'epochs 0 and 1 take the examples in the same order'
            expect(joint != first or not joint, hint, case)
            first = first or joint
            hint = f'they take {max([0, *dealt])}; numbers begin with 0'
            expect(set(dealt) <= set(order), hint, case)
            lengths = [len(step) for step in joint]
            hint = f'the steps have {lengths} examples, and not {[len(step) for step in steps]}: '
            hint += 'each has batch_size, the last one what is left'
            expect(lengths == [len(step) for step in steps], hint, case)
            for i, (step, right) in enumerate(zip(joint, steps), done):
                # Ranks that take from the right order, but cut otherwise, go forward in it.
                places = [
                    [order.index(e) for e in sum(shares, []) if e in order] for shares in ranks
                ]
                expect(
                    sorted(step) == right,
                    f"{case}: in epoch {epoch}, the ranks' step {i} takes {sorted(step)[:9]}, that "
                    f'of one device {right[:9]}; '
                    + (
                        'cut the order into steps first, and each step into shares'
                        if all(place == sorted(place) for place in places)
                        else 'the order is that of all n: default_rng([seed, epoch]).permutation(n)'
                    ),
                )
            shared = [[len(shares[i]) for shares in ranks] for i in range(len(steps))]
            uneven = [step for step in shared if max(step) - min(step) > 1]
            expect(not uneven, f'shares of {uneven[:1]}; the others wait for the longest', case)


def _shares(given: Any, case: str) -> list[list[int]]:
    given = list(given)
    hint = 'give a list with one entry for each step, and each entry a list or array of numbers, '
    hint += f'not {str(given)[:40]}'
    expect(all(hasattr(share, '__len__') and np.ndim(share) == 1 for share in given), hint, case)
    shares = [share.tolist() if hasattr(share, 'tolist') else list(share) for share in given]
    floats = [i for share in shares for i in share if not hasattr(i, '__index__')]
    expect(not floats, f'examples have whole numbers, not {str(floats[:3])[1:-1]}', case)
    return [[int(i) for i in share] for share in shares]


def exercise_2(rng: random.Random, mirrored: Callable[..., Any]) -> None:
    """An example's own random number, whoever computes with it."""
    seed, n = 2 * rng.randrange(500), 400  # even: seed ^ 1 is seed + 1

    def others() -> list[str]:
        return [str(g()) for g in (random.getstate, np.random.get_state)] + [
            str(torch.get_rng_state().tolist())
        ]

    def images(seed: int, epoch: int, first: int = 0, n: int = n) -> list[bool]:
        said = [mirrored(seed, epoch, i) for i in range(first, first + n)]
        strange = [answer for answer in said if answer not in (True, False)]
        expect(not strange, f'it says {strange[:1]}, and is to say True or False')
        return [bool(answer) for answer in said]

    before, first, second, other = others(), images(seed, 0), images(seed, 1), images(seed + 1, 0)
    hint = 'it has used a generator that others use: what dropout draws next has changed'
    expect(others() == before, hint)
    again = [bool(mirrored(seed, 0, i)) for i in reversed(range(n))][::-1]
    hint = 'asked again, it says something else: the answer may depend on seed, epoch and index '
    hint += 'alone, not on who asks, and when'
    expect(first == again, hint)
    with elsewhere():
        hint = 'another process, at another time, gets other answers: hash() of a string, '
        hint += 'getpid() and the time differ there; make a generator with seed, epoch and index'
        expect(first == images(seed, 0), hint)
    hint = f'{sum(first)} of {n} are mirrored, not about half: has each index a number of its own?'
    expect(0.35 < sum(first) / n < 0.65, hint)
    expect(first != second, 'in epochs 0 and 1 the same examples are mirrored')
    expect(first != other, f'seeds {seed} and {seed + 1} mirror the same examples')
    for what, one, two in (
        ('epoch 0 to epoch 1', first, second),
        ('epoch 1 to epoch 2', second, images(seed, 2)),
        (f'seed {seed} to seed {seed + 1}', first, other),
    ):
        kept = sum(x == y for x, y in zip(one, two)) / n
        hint = f'from {what}, {kept:.0%} of the examples keep their answer, not about half'
        expect(0.35 < kept < 0.65, hint)
    for k in (1, 10, 100):
        hint = f'seed {seed} mirrors in epoch {k} what seed {seed + 1} mirrors in epoch 0: a sum, '
        hint += 'or xor, mixes what should stay apart; give the generator all three numbers'
        expect(other != images(seed, k), hint)
    for k in (1, 10, 100, 1000, 10_000):  # what a student may multiply the epoch or the seed by
        hint = f'what example {k} gets in epoch 0, example 0 gets in the next epoch, or with the '
        hint += 'next seed, and so on for all: a sum mixes what should stay apart'
        expect(images(seed, 0, k, 60) not in (second[:60], other[:60]), hint)


@contextlib.contextmanager
def elsewhere() -> Iterator[None]:
    """Let strings' hashes, the process's number and the clock be those of another process."""
    real, number = hash, os.getpid()
    with (
        mock.patch('builtins.hash', lambda x: real((x, 'salt') if "'" in repr(x) else x)),
        mock.patch('os.getpid', lambda: number + 1),
        mock.patch('time.time', lambda: 4e9),
    ):
        yield
