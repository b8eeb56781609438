"""Shared checks for exercises on steps of several ranks: gradients, and which passes send."""

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy

from mgpu_helpers.pytorch import this_device

from .checking import expect, expect_value

Case = tuple[nn.Linear, torch.Tensor, torch.Tensor]


def draw(rng: random.Random, *shape: int) -> torch.Tensor:
    """Draw numbers in double precision."""
    generator = torch.Generator().manual_seed(rng.randrange(2**32))
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def classifier(seed: int, n: int) -> Case:
    """Return a small network, n examples and labels, in float64; the same in every process."""
    torch.manual_seed(seed)
    return nn.Linear(4, 3).double(), torch.randn(n, 4).double(), torch.arange(n) % 3


def gradient(net: nn.Module) -> torch.Tensor:
    """Join all gradients of a network into one vector, with zeros for missing ones."""
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in net.parameters()]
    return torch.cat([g.flatten() for g in grads])


def expect_alike(case: str, found: list[torch.Tensor]) -> None:
    """Raise a hint unless all ranks end with rank 0's gradient, bit for bit."""
    for grad in found[1:]:
        along = float(grad @ found[0] / found[0].norm() ** 2)
        equal = torch.equal(grad, found[0])
        hint = (
            f'a gradient is {along:.3g} times that of rank 0; the sum over the ranks is the same, '
        )
        hint += 'so what did each rank divide it by?'
        expect(equal or not torch.allclose(grad, along * found[0]), hint, case)
        hint = 'the ranks end with different gradients; sum each over the ranks, in place'
        expect(equal, hint, case)


def expect_mean(
    case: str, found: torch.Tensor, seed: int, n: int, size: int, more: dict[str, Any] | None = None
) -> None:
    """Raise a hint unless this is the gradient of the mean loss of all n examples.

    ``more`` maps hints for the mistakes of one exercise to the gradients that they lead to.
    """
    net, X, y = classifier(seed, n)
    cross_entropy(net(X), y).backward()
    right = gradient(net).numpy()
    twice, by_ranks = right / size, right * n / size
    mistakes = {
        **(more or {}),
        f'it is 1/{size} of it; the mean is a sum over the examples divided by their number': twice,
        f'it is {n} times as large; it is the sum instead of the mean': right * n,
        f'it is {n / size:g} times as large; you divided by ranks, not by examples': by_ranks,
        f'it is {size} times as large; divide by the examples of all ranks': right * size,
    }
    case = f'{case}: the gradient is not that of the mean over all {n} examples'
    hint = 'shards and pieces differ in length, so sum the losses, each example with the same '
    hint += 'weight; gradients add up automatically'
    expect_value(found.numpy(), right, case, mistakes, hint)


def expect_clipped(found: list[Any], grads: list[list[torch.Tensor]], limit: float) -> None:
    """Raise a hint unless all ranks hold the clipped mean of ``grads``, and returned its norm.

    ``found`` has, per rank: tensors, the returned norm, whether its list still holds the tensors.
    """
    size, parts = len(grads), [sum(g[1:], g[0]) / len(g) for g in zip(*grads)]
    mean = torch.cat([part.flatten() for part in parts])
    norm = float(mean.norm())
    for rank, (mine, given, same) in enumerate(found):
        grad = torch.cat([g.flatten() for g in mine])
        length, scale = float(grad.norm()), float(grad @ mean) / norm**2
        case = f'{size} ranks, a mean gradient of norm {norm:.4g}, limit {limit:g}: '
        case += f'rank {rank} ends with norm {length:.4g}'
        hint = 'the list now holds new tensors, but the parameters have the old ones; grads[i] '
        hint += '= h changes the list; g *= x and g.copy_(h) change the tensor'
        expect(same or torch.allclose(grad, mean * min(1, limit / norm), rtol=1e-4), hint, case)
        hint = f'{case}, the norm of its own gradient: sum over the ranks first, in place'
        expect(not torch.equal(grad, torch.cat([g.flatten() for g in grads[rank]])), hint)
        hint = f'{size} ranks end with different gradients: sum over the ranks first'
        expect(all(torch.allclose(x, y) for other in found for x, y in zip(mine, other[0])), hint)
        hint = 'this is the mean, not clipped; g = g * x makes a new tensor, g *= x does not'
        expect(norm <= limit or not torch.allclose(grad, mean), hint, case)
        hint = 'a gradient within the limit stays the mean over the ranks'
        expect(norm > limit or torch.allclose(grad, mean), hint, case)
        straight = torch.allclose(grad, scale * mean, rtol=1e-4)
        scaled = [p * (g.norm() / p.norm()) for g, p in zip(mine, parts)]
        each = all(torch.allclose(g, p, rtol=1e-4) for g, p in zip(mine, scaled))
        hint = f'{case}, with a factor per parameter: use one norm for all'
        expect(straight or not each, hint)
        hint = f'{case}, in a different direction: average over the ranks first, then take the norm'
        expect(straight, hint)
        hint = f'{case}; the direction is right, and the norm you divided by was '
        hint += f'{limit / scale:.4g}, but that of the mean is {norm:.4g}'
        expect(norm <= limit or abs(length / limit - 1) < 1e-4, hint)
        mistakes = {
            f'this is {size} times the norm: that of the sum, or the sum of norms': size * norm,
            'this is the square of the norm': norm**2,
            'this is the norm after clipping': limit,
        }
        case += (
            f', which is right; return the norm of the mean before clipping, {norm:.4g}, not {{}}'
        )
        expect_value(given, norm, case, mistakes, 'what is it the norm of?', 1e-4)


class Counting(nn.Module):
    """A stand-in for DDP, with ``no_sync``, that only records which passes would send."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module, self.sending, self.passes = module, True, 0
        self.sent: list[int] = []

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Do not send the gradients of the passes in this context."""
        self.sending = False
        yield
        self.sending = True

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        out, self.passes = self.module(X), self.passes + 1
        if self.sending:  # DDP also decides in the forward pass
            out.register_hook(lambda _, number=self.passes: self.sent.append(number))
        return out


def real_clip(clip_mean: Callable[..., Any]) -> tuple[list[float], float]:
    """Clip the gradients (6, 0) and (0, 2) to norm 1, in each of two real processes."""
    grad = torch.tensor([[6.0, 0.0], [0.0, 2.0]][dist.get_rank()], device=this_device())
    norm = clip_mean([grad], 1, dist)
    return grad.tolist(), float(norm)
