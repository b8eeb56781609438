"""Check exercise 6.8: float16 gradients of a scaled loss."""

import random
from collections.abc import Callable
from typing import Any

import torch

from .checking import Hint, expect
from .gradients import draw
from .ranks import on_ranks


def exercise_8(rng: random.Random, unscaled: Callable[..., Any]) -> None:
    """Check that all ranks return the unscaled mean, or all skip the step."""
    for size, scale, top, broken in (
        (2, 1024.0, 30.0, None),
        (3, 2.0**42, 50_000.0, None),
        (2, 1024.0, 30.0, (1, float('inf'))),
        (3, 1024.0, 30.0, (0, float('nan'))),
    ):
        grads = [
            [(draw(rng, *s).abs().clamp(0.2, 1) * top).half() for s in ((3, 2), (4,))]
            for _ in range(size)
        ]
        if broken:
            grads[broken[0]][1][2] = broken[1]
        means = [torch.stack(parts).double().mean(0) / scale for parts in zip(*grads)]

        def call(dist: Any, grads: Any = grads, scale: float = scale) -> Any:
            return unscaled([g.clone() for g in grads[dist.rank]], scale, dist)

        case = f'{size} ranks, scale {scale:.6g}, values up to {top:,.0f}'
        case += f', one value of rank {broken[0]} is {broken[1]}' if broken else ''
        found, _ranks = on_ranks(size, call)
        expect_pairs(found, case)
        skips = [pair[0] is None for pair in found]
        hint = f'rank {skips.index(True) if True in skips else 0} skips the step, and rank '
        hint += f'{skips.index(False) if False in skips else 0} takes it: replicas drift apart'
        expect(len(set(skips)) == 1, hint, case)
        hint = 'all ranks take the step, but one such value spoils the sum'
        expect(skips[0] or not broken, hint, case)
        hint = 'all ranks skip the step, but gradients are finite; only the sum overflows float16'
        expect(broken or not skips[0], hint, case)
        right = scale / 2 if broken else scale
        hint = f'the next scale is {float(found[0][1]):g}, but {right:g} is right'
        expect(all(float(pair[1]) == right for pair in found), hint, case)
        for rank, (mine, _) in enumerate([] if broken else found):
            expect_means(list(mine), means, f'{case}: rank {rank}', size, scale)


def expect_pairs(found: list[Any], case: str) -> None:
    """Raise a hint unless each rank returned a pair: gradients or None, and a number."""
    for rank, pair in enumerate(found):
        good = isinstance(pair, tuple | list) and len(pair) == 2 and not hasattr(pair[1], '__len__')
        expect(
            good, f'rank {rank} does not return a pair: gradients or None, and the next scale', case
        )


def expect_means(mine: list[Any], means: list[torch.Tensor], who: str, size: int, s: float) -> None:
    """Raise a hint unless these are the mean gradients, without the scale ``s``."""
    hint = f'{who} returns {len(mine)} gradients, not {len(means)}'
    expect(len(mine) == len(means), hint)
    for g, right in zip(mine, means):
        if not isinstance(g, torch.Tensor) or g.shape != right.shape:
            raise Hint(f'{who} returns a gradient of the wrong shape')
        ratio = float((g.double() / right).mean())
        hint = f'{who} has new zeros: float16 rounds below 6e-8 to 0, so make '
        hint += 'the gradients float32 before you divide by the scale'
        expect(g.all() or s < 2**30, hint)
        expect(g.dtype in (torch.float32, torch.float64), f'{who} returns {g.dtype}, not float32')
        hint = f'{who} still has the scale in its gradients'
        expect(abs(ratio / s - 1) > 0.1 and abs(ratio / s / size - 1) > 0.1, hint)
        hint = f'{who} returns the sum; divide it by the number of ranks, too'
        expect(abs(ratio / size - 1) > 0.1, hint)
        hint = f'{who} returns wrong values: compute the mean over the ranks, divided by the scale'
        expect(torch.allclose(g.double(), right, rtol=3e-3, atol=0), hint)
