"""The exercises of chapter 6: shares, pieces, rates, and checkpoints that go on bit for bit."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch._dynamo  # noqa: F401  the first optimizer would, 5 s within an answer's time
from torch import nn

from ..pytorch import launch
from .chapter6_restarts import expect_same_run, expect_whole
from .checking import Numbers, expect
from .gradients import Counting, classifier, expect_mean, gradient, real_clip
from .ranks import on_ranks


def exercise_1(rng: random.Random, _: Numbers, my_steps: Callable[..., Any]) -> None:
    """One rank's shares of an epoch's steps."""
    for n, batch, size in ((10, 4, 2), (10, 8, 4), (rng.randint(50, 60), 16, 3)):
        seed, first = rng.randrange(99), list[list[int]]()
        for epoch, done in ((0, 0), (1, 0), (1, 1)):
            case = f'{n} examples in steps of {batch} on {size} ranks, {done} done'
            ranks = [[[int(i) for i in share] for share in my_steps(n, batch, seed, epoch, done,
                      size, rank)] for rank in range(size)]  # fmt: skip
            order = np.random.default_rng([seed, epoch]).permutation(n)
            steps = [sorted(s.tolist()) for s in np.split(order, range(batch, n, batch))][done:]
            counts = [len(shares) for shares in ranks]
            expect(
                len(set(counts)) == 1,
                f'{case}: the ranks take {counts} steps; one would wait for the others for ever, '
                'and an empty share is a share',
            )
            expect(
                counts[0] == len(steps),
                f'{case}: {counts[0]} steps, and {len(steps)} are left: the last one may be short, '
                'and the first `done` of them are taken',
            )
            joint = [sum((shares[i] for shares in ranks), []) for i in range(len(steps))]
            dealt = sum(joint, [])
            expect(
                len(set(dealt)) == len(dealt),
                f'{case}: example {max(dealt, key=dealt.count)} is taken more than once in an '
                'epoch; all ranks draw the same order, and each takes another part of it',
            )
            expect(joint != first, f'{case}: epochs 0 and 1 take the examples in the same order')
            first = first or joint
            expect(
                [sorted(step) for step in joint] == steps,
                f'{case}: in epoch {epoch} the ranks\' first step takes {sorted(joint[0])[:9]}, '
                f'that of one device {steps[0][:9]}; cut the order into steps first, and each '
                'step into shares',
            )  # fmt: skip
            lengths = [[len(shares[i]) for shares in ranks] for i in range(len(steps))]
            uneven = [step for step in lengths if max(step) - min(step) > 1]
            expect(not uneven, f'{case}: shares of {uneven[:1]}; the others wait for the longest')


def exercise_2(rng: random.Random, _: Numbers, mirrored: Callable[[int, int, int], Any]) -> None:
    """An example's own random number, whoever computes with it."""
    seed, n = rng.randrange(1000), 400

    def others() -> list[str]:
        return [str(g()) for g in (random.getstate, np.random.get_state)] + [
            str(torch.get_rng_state().tolist())
        ]

    def images(seed: int, epoch: int) -> list[bool]:
        return [bool(mirrored(seed, epoch, i)) for i in range(n)]

    before, first, second, other = others(), images(seed, 0), images(seed, 1), images(seed + 1, 0)
    expect(
        others() == before,
        'it has seeded, or drawn from, a generator that others use, too: what dropout draws next '
        'has changed; make a generator of its own',
    )
    again = [bool(mirrored(seed, 0, i)) for i in reversed(range(n))][::-1]
    expect(
        first == again,
        'asked again, in another order, it says something else: the answer may depend on seed, '
        'epoch and index alone, not on who asks, and when',
    )
    expect(
        0.35 < sum(first) / n < 0.65,
        f'{sum(first)} of {n} examples are mirrored in epoch 0, not about half of them: does each '
        'index get a number of its own?',
    )
    expect(first != second, 'in epochs 0 and 1 the same examples are mirrored')
    expect(first != other, f'seeds {seed} and {seed + 1} mirror the same examples')
    for k in (1, 10, 100, 1000, 10_000):  # what a student may multiply the epoch or the seed by
        later = [bool(mirrored(seed, 0, k + i)) for i in range(60)]
        expect(
            later not in (second[:60], other[:60]),
            f'what example {k} gets in epoch 0, example 0 gets in the next epoch, or with the next '
            'seed, and so on for all: a sum mixes what should stay apart',
        )


def exercise_3(rng: random.Random, _: Numbers, clip_mean: Callable[..., Any]) -> None:
    """The mean over the ranks, then its norm."""
    for limit, size in ((1.0, 2), (2.0, 3), (1e6, 2)):
        draw = torch.Generator().manual_seed(rng.randrange(99))
        grads = [[torch.randn(s, generator=draw).double() * (4 * r + 1) for s in ((3, 2), (4,))]
                 for r in range(size)]  # fmt: skip
        mean = sum(torch.cat([g.flatten() for g in mine]) for mine in grads) / size
        assert isinstance(mean, torch.Tensor)
        norm = float(mean.norm())

        def call(dist: Any, limit: float = limit, grads: list[Any] = grads) -> Any:
            mine = [g.clone() for g in grads[dist.rank]]
            given = clip_mean(mine, limit, dist)
            return torch.cat([g.flatten() for g in mine]), given

        found, _ranks = on_ranks(size, call)
        expect(
            all(torch.allclose(grad, found[0][0]) for grad, _ in found),
            f'{size} ranks end with different gradients: sum over the ranks first, so that all '
            'have the same, with the same norm',
        )
        for rank, (grad, given) in enumerate(found):
            length = float(grad.norm())
            case = f'{size} ranks, a mean gradient of norm {norm:.4g}, limit {limit:g}: '
            case += f'rank {rank} ends with norm {length:.4g}'
            expect(
                norm < limit or length < limit * 1.0001,
                f'{case}; all parameters together are one long vector with one norm',
            )
            expect(
                norm > limit or math.isclose(length, norm),
                f'{case}: a gradient within the limit stays the mean over the ranks',
            )
            expect(
                torch.allclose(grad, mean * min(1, limit / norm), rtol=1e-4),
                f'{case}, but in another direction, or shorter, than the mean gradient clipped: '
                'first the mean over the ranks, then its norm, then one factor for all',
            )
            expect(
                given is not None and math.isclose(float(given), norm, rel_tol=1e-4),
                f'{case}, which is right; return the norm that the mean had before, not '
                f'{given if given is None else round(float(given), 3)}',
            )
    for got, norm in launch(real_clip, 2, clip_mean, labels=False, timeout=300):
        expect(
            np.allclose((*got, norm), (0.9487, 0.3162, 3.1623), atol=1e-3),
            f'two processes clip (6, 0) and (0, 2) to {got}, and return {norm:.4g}',
        )


def exercise_4(rng: random.Random, _: Numbers, accuracy_by_class: Callable[..., Any]) -> None:
    """Counts of all ranks, class by class."""
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
        expect(max(seen) < n, f'{case}, which classify {seen} of them: a share each would do')
        expect(
            sum(seen) == n,
            f'{case}: the ranks have classified {seen} of them, {sum(seen)} in all; each counts '
            'once, and shares may differ in length',
        )
        for rank, (given, training) in enumerate(found):
            values = [round(float(v), 4) for v in (given if given is not None else ())]
            expect(
                values == wanted,
                f'{case}: rank {rank} finds {values}, and {wanted} is right; add up the counts of '
                'all ranks, then divide: one rank may have few examples of a class, or none',
            )
            expect(
                training and not any(mode for _, mode in log[rank]),
                f'{case}: right, but net.eval() belongs before it, else dropout stays at work, and '
                'net.train() behind',
            )


def exercise_5(rng: random.Random, _: Numbers, my_step: Callable[..., None]) -> None:
    """A share in pieces, and one sum."""
    seed = rng.randrange(99)
    for n, pieces, size in ((9, 3, 2), (8, 1, 2), (10, 2, 3)):
        grads = []
        for rank in range(size):
            net, *batch = classifier(seed, n)
            ddp, shares = Counting(net), [t.tensor_split(size)[rank] for t in batch]
            my_step(ddp, *shares, n, size, pieces)
            case = f'{n} examples on {size} ranks, shares in {pieces} piece(s)'
            expect(ddp.passes == pieces, f'{case}: {ddp.passes} forward passes in ddp')
            expect(
                ddp.sent == [pieces],
                f'{case}: gradients are sent by the passes {ddp.sent} of {pieces}; the last one, '
                'and it alone, sends what all have added up',
            )
            grads.append(gradient(net))
        expect_mean(case, torch.stack(grads).mean(0), seed, n, size)


def exercise_6(rng: random.Random, _: Numbers, my_train: Callable[..., None]) -> None:
    """Rates, step by step."""
    for warmup, epochs, steps in ((3, 2, 4), (0, 1, 4), (rng.randint(4, 8), 3, 10)):
        net, rates, last = nn.Linear(1, 1), list[float](), epochs * steps
        optimizer = torch.optim.SGD(net.parameters(), 1.0)

        def step(optimizer: Any = optimizer, rates: list[float] = rates) -> None:
            rates.append(round(optimizer.param_groups[0]['lr'], 6))
            optimizer.step()

        my_train(step, optimizer, warmup, epochs, steps)
        right = [min((i + 1) / (warmup + 1), (last - i) / (last - warmup)) for i in range(last)]
        case = f'warmup {warmup}, {epochs} epochs of {steps} steps: the rates are {rates[:6]}'
        expect(len(rates) == last, f'{case}, ...: {len(rates)} steps, not {last}')
        expect(
            last == steps or len(set(rates)) > epochs,
            f'{case}, ...: they change once an epoch; schedule.step() belongs to each step',
        )
        expect(rates[0] > 0, f'{case}, ...: a step with rate 0 is lost')
        expect(
            rates[:-1] != [round(r, 6) for r in right[1:]],
            f'{case}, ...: the first rate is skipped; the optimizer steps first, then the schedule',
        )
        expect(
            max(rates) <= 1 and 1 not in rates[:warmup] and rates[warmup] == 1,
            f'{case}, ...: step {warmup} is the first one with the full rate, 1',
        )
        expect(
            np.allclose(rates, right, atol=1e-5),
            f'{case}, ..., {rates[-2:]}, not {[round(r, 4) for r in right[:6]]}, ..., '
            f'{[round(r, 4) for r in right[-2:]]}: straight up, then straight down to what would '
            'be 0 one step later',
        )


def exercise_7(_: random.Random, __: Numbers, all_found_the_same: Callable[..., Any]) -> None:
    """All ranks say the same, whatever they have found."""
    for found in ([7, 7, 7], [7, None, 7], [None, 7, 7], [1, 2, 3], [None] * 3, [2, 2, 5]):
        said, _ranks = on_ranks(3, lambda dist, f=found: all_found_the_same(f[dist.rank], dist))  # type: ignore[misc]
        right, case = len(set(found)) == 1, f'the ranks have found {found}, and say {said}'
        expect(
            all(isinstance(s, bool) for s in said),
            f'{case}: each rank is to get True or False, not rank 0 alone',
        )
        expect(
            len(set(said)) == 1,
            f'{case}: those that say True train on, and wait for the others for ever; all are to '
            'compare the same list',
        )
        expect(said[0] == right, f'{case}, not {right}')


def exercise_8(_: random.Random, __: Numbers, my_save: Callable[..., None]) -> None:
    """The old file or the new one, whole, at any moment."""
    expect_whole(my_save)


def exercise_9(
    rng: random.Random, _: Numbers, my_state: Callable[..., Any], my_resume: Callable[..., Any]
) -> None:
    """Killed and continued equals not killed."""
    expect_same_run(my_state, my_resume, rng.randrange(99))
