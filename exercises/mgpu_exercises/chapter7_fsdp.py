"""Check exercise 7.7: PyTorch's ``fully_shard``, one rank after another, in a one-process group."""

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
import torch.distributed
from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torch.nn.functional import cross_entropy

from mgpu_helpers.pytorch import this_device

from .checking import Hint, expect, expect_value, there

Case = tuple[nn.Sequential, torch.Tensor, torch.Tensor]


def case_of(seed: int, n: int) -> Case:
    """Return a network of three blocks, n examples and their labels, in float64."""
    torch.manual_seed(seed)
    pairs = (4, 6), (6, 6), (6, 3)
    net = nn.Sequential(*(nn.Sequential(nn.Linear(a, b), nn.Tanh()) for a, b in pairs))
    X, y = torch.randn(n, 4, dtype=torch.float64), torch.arange(n) % 3
    return net.to(this_device(), torch.float64), X.to(this_device()), y.to(this_device())


class Alone:
    """A stand-in for ``torch.distributed`` in a process that simulates one rank after another."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.distributed, name)

    def get_rank(self, group: Any = None) -> int:
        """Return the simulated rank."""
        return self.rank

    def get_world_size(self, group: Any = None) -> int:
        """Return the number of simulated ranks."""
        return self.size


@contextlib.contextmanager
def group_of_one() -> Iterator[None]:
    """Join a process group that contains only this process, so no network is needed."""
    if torch.distributed.is_initialized():
        yield
        return
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group(store=store, rank=0, world_size=1)
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def whole(net: nn.Module) -> int:
    """Count the values of parameters that are not sharded."""
    return sum(p.numel() for p in net.parameters() if not isinstance(p, DTensor))


def step_of(
    rank: int, size: int, sharded_step: Callable[..., None], seed: int, n: int
) -> tuple[torch.Tensor, int]:
    """Let one rank take its step; return its gradient and its number of examples."""
    (net, X, y), most, lengths = case_of(seed, n), list[int](), list[int]()
    net.register_forward_pre_hook(lambda _, args: lengths.append(len(args[0])))
    for block in net:
        [*block.children()][1].register_forward_pre_hook(lambda *_: most.append(whole(net)))
    sharded_step(net, X, y, Alone(rank, size))
    expect(lengths and most, 'the network ran no forward pass: call net(...)')
    values = sum(p.numel() for p in net.parameters())
    hint = f'{max(most)} of {values} values are unsharded at once: fully_shard(block) for each '
    hint += 'block, then for net; the rest of net then becomes one unit'
    expect(max(most) < values, hint)
    grads = [getattr(p.grad, 'full_tensor', lambda p=p: p.grad)() for p in net.parameters()]
    expect(all(g is not None for g in grads), 'some parameters have no gradient: call backward()')
    return torch.cat([g.flatten().cpu() for g in grads]), sum(lengths)


@there
def steps_of(
    size: int, sharded_step: Callable[..., None], seed: int, n: int
) -> tuple[list[torch.Tensor], list[int], list[float]]:
    """Run one step on every rank; return gradients, numbers of examples, and divide factors."""
    factors, set_factor = list[float](), FSDPModule.set_gradient_divide_factor

    def noted(module: Any, factor: float) -> None:
        factors.append(factor)
        set_factor(module, factor)

    with group_of_one(), mock.patch.object(FSDPModule, 'set_gradient_divide_factor', noted):
        grads, lengths = zip(*(step_of(r, size, sharded_step, seed, n) for r in range(size)))
    return list(grads), list(lengths), factors


def exercise_7(rng: random.Random, sharded_step: Callable[..., None]) -> None:
    """Check that a network sharded block by block has the gradient of one device."""
    seed, size = rng.randrange(99), 2
    for n in (8, 9):
        case = f'{n} examples on {size} ranks'
        grads, lengths, factors = steps_of(size, sharded_step, seed, n)
        hint = f'the ranks compute with {lengths}: each example belongs to exactly one rank'
        expect(sum(lengths) == n, hint, case)
        found = torch.stack(grads).sum(0) / (1 if factors else size)
        expect_right(case, found, seed, n, size)


def expect_right(case: str, found: torch.Tensor, seed: int, n: int, size: int) -> None:
    """Raise a hint unless this is the gradient of the mean over all examples."""
    net, X, y = case_of(seed, n)

    def gradient(loss: torch.Tensor) -> Any:
        grads = torch.autograd.grad(loss, [*net.parameters()])
        return torch.cat([g.flatten() for g in grads]).cpu().numpy()

    right = gradient(cross_entropy(net(X), y))
    shards = zip(X.tensor_split(size), y.tensor_split(size))
    of_means = gradient(torch.stack([cross_entropy(net(A), b) for A, b in shards]).mean())
    mistakes = {
        f'it is 1/{size} of it: fully_shard divides by the ranks, and you by all examples': (
            right / size
        ),
        'it is the mean of means, where an example in a short shard counts for more': of_means,
        f'it is {n} times as large: divide by the examples': right * n,
        f'it is {n / size:g} times as large: fully_shard divides by the ranks; also divide by '
        'the examples': right * n / size,
    }
    if found.shape != right.shape:
        raise Hint(
            f'{case}: the gradient has {len(found)} values, but the network has {len(right)}'
        )
    case += ': the gradient is not that of the mean over all examples'
    hint = 'fully_shard averages over the ranks: what must each rank compute?'
    expect_value(found.numpy(), right, case, mistakes, hint)
