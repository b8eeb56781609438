"""Check the exercises of chapter 5: replicas that start and stay equal, and their messages."""

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.distributed
from torch import nn

from mgpu_helpers.pytorch import this_device

from .chapter5_messages import (  # noqa: F401  found as 5.10 to 5.14
    exercise_10,
    exercise_11,
    exercise_12,
    exercise_13,
    exercise_14,
)
from .chapter5_shards import exercise_8, exercise_9  # noqa: F401  found as 5.8 and 5.9
from .chapter5_timing import exercise_15  # noqa: F401  found as 5.15
from .checking import Hint, expect, expect_value
from .gradients import classifier, draw, expect_alike, expect_mean, gradient
from .ranks import launch, on_ranks


def exercise_1(rng: random.Random, my_mean: Callable[..., None]) -> None:
    """Check that all tensors end with the mean, in place."""
    for k in (2, 3):
        before = np.array([[rng.randint(1, 99) * k for _ in range(4)] for _ in range(k)], float)
        tensors, total = [torch.tensor(x) for x in before], before.sum(0)
        seen = [x.view(4) for x in tensors]  # views of their present memory
        my_mean(list(tensors))
        for i, x in enumerate(seen):
            mistakes = {
                'nothing was written into its memory; `tensors[i] = ` and `x = ` only name new '
                'tensors, `.data = ` and `set_` swap the memory; `copy_` writes into it': before[i],
                'that is the sum; divide by the number of tensors': total,
                'tensor 0 was added to itself': (total + before[0]) / k,
                'the sum was divided twice': total / k**2,
            }
            hint = f'not {(total / k).tolist()}: compute the mean first, then write it into each'
            case = f'tensor {i} of {k} has {{}} afterwards'
            expect_value(x.numpy(), total / k, case, mistakes, hint)


class Start(nn.Module):
    """A network with a frozen layer and buffers, initialised differently on each rank."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        torch.manual_seed(rank)
        self.frozen = nn.Linear(2, 3).requires_grad_(False)
        self.norm, self.last = nn.BatchNorm1d(3), nn.Linear(3, 2)
        assert self.norm.running_mean is not None
        self.norm.running_mean.fill_(rank + 1.0)


def exercise_2(begin_alike: Callable[..., None]) -> None:
    """Check that all ranks start with rank 0's parameters and buffers."""

    def call(dist: Any) -> dict[str, torch.Tensor]:
        net = Start(dist.rank)
        begin_alike(net, dist)
        return net.state_dict()

    wanted = Start(0).state_dict()
    states, ranks = on_ranks(3, call)
    for rank, state in enumerate(states):
        other = [name for name in wanted if not torch.equal(state[name], wanted[name])]
        expect(rank or not other, 'rank 0 itself has changed: it must broadcast its own values')
        calls = len(ranks[rank].calls)
        hint = f'rank {rank} starts without the values of rank 0: {", ".join(other[:3])}, ...; '
        hint += 'broadcast(x) replaces the values of x with those of rank 0'
        if calls:
            hint += f', and was called {calls} times: was x the tensor itself, or a copy?'
        expect(len(other) < 5, hint)
        hint = f'on rank {rank}, {", ".join(other)} differs: frozen parameters and '
        hint += 'buffers, such as running statistics, belong to the network, too'
        expect(not other, hint)


def exercise_3(rng: random.Random, mean_gradients: Callable[..., None]) -> None:
    """Check one forward and backward pass per shard, and the mean gradient over all examples."""
    seed = rng.randrange(99)
    for n, size, again in ((9, 2, False), (8, 2, False), (2, 3, False), (9, 2, True)):
        seen: dict[int, int] = {}

        def call(dist: Any, n: int = n, again: bool = again, seen: Any = seen) -> torch.Tensor:
            net, X, y = classifier(seed, n)
            if again:
                net(X + 1).sum().backward()
            seen[dist.rank] = 0
            net.register_forward_hook(lambda m, x, _, r=dist.rank: seen.update({r: len(x[0])}))
            mean_gradients(X, y, net, dist)
            return gradient(net)

        found, _ranks = on_ranks(size, call)
        case, counts = f'{n} examples on {size} ranks', list(seen.values())
        hint = f'the ranks compute with {counts} of them; each example belongs to exactly one rank'
        expect(sum(counts) == n and max(counts) < n, hint, case)
        expect_alike(case, found)
        if again:
            case = f'{case}, in a second step (did you clear the gradient of the first one?)'
        expect_mean(case, found[0], seed, n, size)
    for grad in launch(real_gradients, 2, mean_gradients, seed, labels=False, timeout=300):
        expect_mean('9 examples in two processes', grad, seed, 9, 2)


def real_gradients(mean_gradients: Callable[..., None], seed: int) -> torch.Tensor:
    """Return the gradients of a step on 9 examples; runs in each of two real processes."""
    net, X, y = classifier(seed, 9)
    net = net.to(this_device())
    mean_gradients(X.to(this_device()), y.to(this_device()), net, torch.distributed)
    return gradient(net).cpu()


def exercise_4(rng: random.Random, mean_at_once: Callable[..., None]) -> None:
    """Check the mean of all gradients, sent in one message."""
    grads = [[draw(rng, 3, 2), draw(rng, 4), draw(rng, 1)] for _ in range(3)]
    mean = [sum(parts[1:], parts[0]) / 3 for parts in zip(*grads)]

    def call(dist: Any) -> list[torch.Tensor]:
        mine = [g.clone() for g in grads[dist.rank]]
        mean_at_once(list(mine), dist)
        return mine

    found, ranks = on_ranks(3, call)
    hint = 'it is not the mean over all ranks: does each slice return to its own gradient?'
    for i, (mine, right) in enumerate(zip(found[1], mean)):
        before = grads[1][i].numpy()
        mistakes = {
            'it is unchanged: write the result into the tensors, in place': before,
            'it is the sum; divide by the number of ranks': 3 * right.numpy(),
        }
        expect_value(mine.numpy(), right.numpy(), f'gradient {i} of rank 1', mistakes, hint)
    shapes = [tuple(value.shape) for kind, value in ranks[0].calls]
    hint = f'right, but in {len(shapes)} messages, of {shapes}; join the gradients into one vector'
    expect(len(shapes) == 1, hint)


def exercise_5(rng: random.Random, mean_in_half: Callable[..., None]) -> None:
    """Check the mean of float16 gradients: half of the bytes, and no overflow."""
    for top in (1.0, 60_000.0):
        grads = [draw(rng, 50).abs().clamp(0.1, 1).float() * top for _ in range(3)]
        right = torch.stack(grads).double().mean(0)

        def call(dist: Any, grads: Any = grads) -> torch.Tensor:
            mine = grads[dist.rank].clone()
            seen = mine.view(mine.shape)
            mean_in_half(mine, dist)
            return seen

        found, ranks = on_ranks(3, call)
        sent = sum(value.nbytes for _, value in ranks[0].calls)
        case = f'gradients up to {top:,.0f} on 3 ranks'
        expect(sent > 0, 'nothing is sent', case)
        expect(sent <= 100, f'{sent} bytes for 50 numbers; in float16 they take 100', case)
        grad = found[0].double()
        hint = f'the result is {grad.max()}: float16 ends at 65,504, and the sum does not fit; '
        hint += "scale each rank's gradient down before you send it"
        expect(grad.isfinite().all(), hint, case)
        off = float((grad / right - 1).abs().max())
        hint = 'the gradient is unchanged; write the result into it, in place'
        expect(not torch.equal(found[0], grads[0]), hint, case)
        hint = 'this is the sum; divide by the number of ranks'
        expect(abs(float((grad / right).mean()) - 3) > 0.1, hint, case)
        hint = f'off by up to {off:.1%}; float16 is accurate to 0.1% (bfloat16 is not)'
        expect(off < 2.5e-3, hint, case)


def exercise_6(rng: random.Random, my_order: Callable[..., Any]) -> None:
    """Check which sums start when each gradient becomes ready."""
    for ready in ([3, 2, 1, 0], [3, 1, 2, 0], [0, 1, 2], rng.sample(range(7), 7)):
        found, n = [list(begun) for begun in my_order(list(ready))], len(ready)
        order, case = sum(found, []), f'gradients ready in the order {ready}: {found}'
        hint = 'return one list per arrival, an empty one if nothing can start'
        expect(len(found) == n, hint, case)
        hint = 'every sum starts exactly once; sums that wait start together, as soon as they can'
        expect(sorted(order) == list(range(n)), hint, case)
        there: set[int] = set()
        for arrived, begun in zip(ready, found):
            there.add(arrived)
            early = sorted(set(begun) - there)
            expect(not early, f'{early} would be summed before they are ready', case)
        hint = 'gradients arrive in a different order on another rank, so different parameters '
        hint += 'would be added up; on all ranks the last parameter goes first, then the one before'
        expect(order == list(range(n))[::-1], hint, case)
        place = [ready.index(i) for i in range(n)]
        right = [[i for i in range(n)[::-1] if max(place[i:]) == t] for t in range(n)]
        expect(found == right, f'{case}, not {right}: no sum should wait longer than necessary')


class Inner(nn.Module):
    """A network with a submodule called ``module``, nested and, with ``top``, at the top level."""

    def __init__(self, top: bool = False) -> None:
        super().__init__()
        self.mode, self.block = nn.Linear(2, 2), nn.Module()
        self.block.module = nn.Linear(2, 1)
        if top:
            self.module = nn.Linear(1, 2)


def exercise_7(rng: random.Random, load_any: Callable[..., None]) -> None:
    """Check that parameters load whether they were saved with DDP's prefix or without it."""
    torch.manual_seed(rng.randrange(99))
    for top, prefix in itertools.product((False, True), ('module.', '')):
        saved, net = Inner(top), Inner(top)
        state = {prefix + name: value.clone() for name, value in saved.state_dict().items()}
        case = f'a state with {", ".join(list(state)[:3:2])}, ...'
        case += f', for a network that has {list(net.state_dict())[-1]} itself' if top else ''
        try:
            load_any(net, dict(state))
        except NotImplementedError:  # also a RuntimeError: the answer is still blank
            raise
        except (KeyError, RuntimeError) as error:
            what = ' '.join(str(error).split())[:150]
            hint = f'{case}: {what} ...; DDP puts one `module.` in front of each name'
            raise Hint(hint) from None
        hint = 'some values were not loaded; `strict=False` silently skips unknown names'
        expect(all(map(torch.equal, net.parameters(), saved.parameters())), hint, case)
    for prefix in ('module.', ''):
        state = {prefix + name: value for name, value in Inner().state_dict().items()}
        state.pop(f'{prefix}mode.bias')
        try:
            load_any(Inner(), state)
        except (KeyError, RuntimeError):
            continue
        raise Hint('a state without mode.bias was loaded without an error: use strict=True')
