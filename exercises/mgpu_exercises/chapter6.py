"""Check the exercises of chapter 6: random numbers, gradients and counts."""

import os
import random
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import torch
import torch._dynamo  # noqa: F401  else the first optimizer does: 5 s of an answer's time
from torch.nn.functional import cross_entropy

from .chapter6_restarts import exercise_6, exercise_7  # noqa: F401  found as 6.6 and 6.7
from .chapter6_scaling import exercise_8  # noqa: F401  found as 6.8
from .checking import around, expect, there
from .gradients import Counting, classifier, draw, expect_clipped, expect_mean, gradient, real_clip
from .ranks import launch, on_ranks


@there
def others() -> list[str]:
    """Return the states of the shared random generators."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state().tolist()  # noqa: NPY002
    return list(map(str, states))


def exercise_1(rng: random.Random, mirrored: Callable[..., Any]) -> None:
    """Check that an example's random number depends only on seed, epoch and index."""
    seed, n = 2 * rng.randrange(500), 400  # even: seed ^ 1 is seed + 1

    def images(seed: int, epoch: int, first: int = 0, n: int = n) -> list[bool]:
        said = [mirrored(seed, epoch, i) for i in range(first, first + n)]
        strange = [answer for answer in said if answer not in (True, False)]
        expect(not strange, f'it returned {strange[:1]}; return True or False')
        return [bool(answer) for answer in said]

    before, first, second, other = others(), images(seed, 0), images(seed, 1), images(seed + 1, 0)
    hint = 'it used a shared generator, which changes the next random numbers of dropout'
    expect(others() == before, hint)
    again = [bool(mirrored(seed, 0, i)) for i in reversed(range(n))][::-1]
    hint = 'a second call returns a different answer: it may depend only on seed, epoch and index'
    hint += ', not on the process or the time'
    expect(first == again, hint)
    with elsewhere():
        hint = 'another process gets different answers: hash() of a string, '
        hint += 'getpid() and the time differ there; seed a generator with seed, epoch and index'
        expect(first == images(seed, 0), hint)
    hint = f'{sum(first)} of {n} are mirrored, not about half: does each index get its own number?'
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
        hint = f'seed {seed}, epoch {k} mirrors the same ones as seed {seed + 1}, epoch 0: a sum, '
        hint += 'or xor, mixes up different inputs; give the generator all three numbers'
        expect(other != images(seed, k), hint)
    # If a student multiplies the epoch or the seed by a factor, it shows as a shift of the index.
    row = ''.join(str(int(x)) for x in images(seed, 0, 1, 10_100))
    for later in (second, other):
        k = row.find(''.join(str(int(x)) for x in later[:60])) + 1
        hint = f'example 0 gets the number that example {k} had, in the next epoch, or with the '
        hint += 'next seed, and so on for all examples: a sum mixes up different inputs'
        expect(not k, hint)
    pairs = [(a, b) for a in range(1, 10) for b in range(10)]
    one = [bool(mirrored(seed, 1, 10 * a + b)) for a, b in pairs]
    hint = 'epoch 1, example 23 gets the same number as epoch 12, example 3, and so on: join '
    hint += 'the numbers with something between them'
    expect(one != [bool(mirrored(seed, 10 + a, b)) for a, b in pairs], hint)
    one = [bool(mirrored(seed, 10 * a + b, 0)) for a, b in pairs]
    hint = hint.replace('epoch 1, example 23', 'seed 1, epoch 23').replace(
        'epoch 12, example', 'seed 12, epoch'
    )
    expect(one != [bool(mirrored(10 * seed + a, b, 0)) for a, b in pairs], hint)


@around
def elsewhere() -> Iterator[None]:
    """Change string hashes, the process id and the clock to those of another process."""
    real, number = hash, os.getpid()
    with (
        mock.patch('builtins.hash', lambda x: real((x, 'salt') if "'" in repr(x) else x)),
        mock.patch('os.getpid', lambda: number + 1),
        mock.patch('time.time', lambda: 4e9),
    ):
        yield


def exercise_2(rng: random.Random, clip_mean: Callable[..., Any]) -> None:
    """Check clipping: first the mean over the ranks, then its norm."""
    for limit, size in ((1.0, 2), (2.0, 3), (1e6, 2)):
        grads = [[draw(rng, *s) * (4 * r + 1) for s in ((3, 2), (4,))] for r in range(size)]

        def call(dist: Any, limit: float = limit, grads: list[Any] = grads) -> Any:
            mine = [g.clone() for g in grads[dist.rank]]
            given = list(mine)
            norm = clip_mean(given, limit, dist)
            return mine, norm, all(x is y for x, y in zip(mine, given))

        expect_clipped(on_ranks(size, call)[0], grads, limit)
    for got, norm in launch(real_clip, 2, clip_mean, labels=False, timeout=300):
        hint = f'two processes clip (6, 0) and (0, 2) to {got}, and return {norm:.4g}'
        expect(np.allclose((*got, norm), (0.9487, 0.3162, 3.1623), atol=1e-3), hint)


def exercise_3(rng: random.Random, accuracy_by_class: Callable[..., Any]) -> None:
    """Check the accuracy per class, from the counts of all ranks."""
    for n, size in ((12, 2), (10, 4), (3, 4)):
        seed, log = rng.randrange(99), dict[int, list[tuple[int, bool]]]()
        net, X, y = classifier(seed, n)
        right = net(X).argmax(1) == y
        wanted = [round(float(right[y == c].double().mean()), 4) for c in range(3)]

        def call(dist: Any, seed: int = seed, n: int = n, log: Any = log) -> Any:
            net, X, y = classifier(seed, n)
            seen = log[dist.rank] = []
            net.register_forward_hook(lambda m, x, _: seen.append((len(x[0]), m.training)))
            return accuracy_by_class(net, X, y, 3, dist), net.training

        found, _ranks = on_ranks(size, call)
        case, seen = f'{n} examples on {size} ranks', [sum(k for k, _ in log[r]) for r in log]
        expect(max(seen) < n, f'{case}: they classify {seen}, but each needs only its shard')
        hint = f'the ranks classified {seen} of them, {sum(seen)} in all; each example counts once'
        expect(sum(seen) == n, hint, case)
        for rank, (given, training) in enumerate(found):
            values = [round(float(v), 4) for v in (given if given is not None else ())]
            hint = f'rank {rank} returns {values}, but {wanted} is right; add up the counts of all '
            hint += 'ranks, then divide: one rank may have few examples of a class, or none'
            expect(values == wanted, hint, case)
            hint = 'right, but dropout must be off: call net.eval() before and net.train() after'
            expect(training and not any(mode for _, mode in log[rank]), hint, case)


def exercise_4(rng: random.Random, my_step: Callable[..., None]) -> None:
    """Check a step that computes its shard in pieces and sums over the ranks once."""
    seed = rng.randrange(99)
    for n, pieces, size in ((9, 3, 2), (8, 1, 2), (10, 2, 3)):
        grads = []
        for rank in range(size):
            net, *batch = classifier(seed, n)
            ddp, shares = Counting(net), [t.tensor_split(size)[rank] for t in batch]
            my_step(ddp, *shares, n, size, pieces)
            case = f'{n} examples on {size} ranks, shards in {pieces} piece(s)'
            expect(ddp.passes == pieces, f'{ddp.passes} forward passes through ddp', case)
            hint = f'the passes {ddp.sent} of {pieces} send gradients; only the last one should'
            expect(ddp.sent == [pieces], hint, case)
            grads.append(gradient(net))
        found = torch.stack(grads).mean(0)
        net, X, y = classifier(seed, n)
        cross_entropy(net(X), y).backward()
        twice = f'it is 1/{size} of the mean; did you divide by the ranks as well? DDP already does'
        expect_mean(case, found, seed, n, size, {twice: gradient(net).numpy() / size})


def exercise_5(all_found_the_same: Callable[..., Any]) -> None:
    """Check that all ranks return the same answer, whatever each one found."""
    for found in ([7, 7, 7], [7, None, 7], [0, None, 0], [1, 2, 3], [None] * 3, [2, 2, 5]):
        said, _ranks = on_ranks(3, lambda dist, f=found: all_found_the_same(f[dist.rank], dist))  # type: ignore[misc]
        right, case = len(set(found)) == 1, f'the ranks have found {found}, and return {said}'
        hint = 'every rank must return True or False, not only rank 0'
        expect(all(isinstance(s, bool) for s in said), hint, case)
        hint = 'ranks that return True wait for the others forever; all must compare the same list'
        expect(len(set(said)) == 1, hint, case)
        expect(said[0] == right, f'{case}, not {right}')
