"""The exercises of chapter 6: shares, pieces, rates, and checkpoints that go on bit for bit."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch._dynamo  # noqa: F401  the first optimizer would, 5 s within an answer's time
from torch import nn

from mgpu_helpers.pytorch import launch

from .chapter6_restarts import expect_same_run, expect_whole
from .chapter6_shares import exercise_1, exercise_2  # noqa: F401  asked for as 6.1 and 6.2
from .checking import expect
from .gradients import Counting, classifier, draw, expect_clipped, expect_mean, gradient, real_clip
from .ranks import on_ranks


def exercise_3(rng: random.Random, clip_mean: Callable[..., Any]) -> None:
    """The mean over the ranks, then its norm."""
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


def exercise_4(rng: random.Random, accuracy_by_class: Callable[..., Any]) -> None:
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
        hint = f'the ranks have classified {seen} of them, {sum(seen)} in all; each counts once'
        expect(sum(seen) == n, hint, case)
        for rank, (given, training) in enumerate(found):
            values = [round(float(v), 4) for v in (given if given is not None else ())]
            hint = f'rank {rank} finds {values}, and {wanted} is right; add up the counts of all '
            hint += 'ranks, then divide: one rank may have few examples of a class, or none'
            expect(values == wanted, hint, case)
            hint = 'right, but net.eval() belongs before it, for dropout, and net.train() behind'
            expect(training and not any(mode for _, mode in log[rank]), hint, case)


def exercise_5(rng: random.Random, my_step: Callable[..., None]) -> None:
    """A share in pieces, and one sum."""
    seed = rng.randrange(99)
    for n, pieces, size in ((9, 3, 2), (8, 1, 2), (10, 2, 3)):
        grads = []
        for rank in range(size):
            net, *batch = classifier(seed, n)
            ddp, shares = Counting(net), [t.tensor_split(size)[rank] for t in batch]
            my_step(ddp, *shares, n, size, pieces)
            case = f'{n} examples on {size} ranks, shares in {pieces} piece(s)'
            expect(ddp.passes == pieces, f'{ddp.passes} forward passes in ddp', case)
            hint = f'sent by the passes {ddp.sent} of {pieces}; the last one alone is to'
            expect(ddp.sent == [pieces], hint, case)
            grads.append(gradient(net))
        expect_mean(case, torch.stack(grads).mean(0), seed, n, size)


def exercise_6(rng: random.Random, my_train: Callable[..., None]) -> None:
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
        hint = f'{case}, ...: they change once an epoch; schedule.step() belongs to each step'
        expect(last == steps or len(set(rates)) > epochs, hint)
        expect(rates[0] > 0, f'{case}, ...: a step with rate 0 is lost')
        hint = f'{case}, ...: the first rate is skipped; the optimizer steps first'
        expect(rates[:-1] != [round(r, 6) for r in right[1:]], hint)
        hint = f'{case}, ...: step {warmup} is the first one with the full rate, 1'
        expect(max(rates) <= 1 and 1 not in rates[:warmup] and rates[warmup] == 1, hint)
        expect(
            np.allclose(rates, right, atol=1e-5),
            f'{case}, ..., {rates[-2:]}, not {[round(r, 4) for r in right[:6]]}, ..., '
            f'{[round(r, 4) for r in right[-2:]]}: straight up, then straight down to what would '
            'be 0 one step later',
        )


def exercise_7(all_found_the_same: Callable[..., Any]) -> None:
    """All ranks say the same, whatever they have found."""
    for found in ([7, 7, 7], [7, None, 7], [None, 7, 7], [1, 2, 3], [None] * 3, [2, 2, 5]):
        said, _ranks = on_ranks(3, lambda dist, f=found: all_found_the_same(f[dist.rank], dist))  # type: ignore[misc]
        right, case = len(set(found)) == 1, f'the ranks have found {found}, and say {said}'
        hint = 'each rank is to get True or False, not rank 0 alone'
        expect(all(isinstance(s, bool) for s in said), hint, case)
        hint = 'those that say True wait for the others for ever; all are to compare the same list'
        expect(len(set(said)) == 1, hint, case)
        expect(said[0] == right, f'{case}, not {right}')


def exercise_8(my_save: Callable[..., None]) -> None:
    """The old file or the new one, whole, at any moment."""
    expect_whole(my_save)


def exercise_9(
    rng: random.Random, my_state: Callable[..., Any], my_resume: Callable[..., Any]
) -> None:
    """Killed and continued equals not killed."""
    expect_same_run(my_state, my_resume, rng.randrange(99))
