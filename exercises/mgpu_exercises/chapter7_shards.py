"""Check exercises 7.1 to 7.3: ZeRO's stages, with the collectives of all ranks in one process."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .checking import Hint, expect, number
from .gradients import draw

Tensors = list[torch.Tensor]


class Ranks:
    """The collectives of ``k`` simulated ranks, on lists with one tensor per rank.

    ``calls`` counts the collectives, ``sent`` the bytes per rank, by the formulas of chapter 3.
    """

    def __init__(self, k: int) -> None:
        self.k, self.sent, self.calls = k, 0, Counter[str]()

    def _note(self, name: str, tensors: Sequence[torch.Tensor], share: float) -> None:
        if len(tensors) != self.k or len({t.shape for t in tensors}) > 1:
            shapes = [tuple(t.shape) for t in tensors]
            raise ValueError(f'{name} takes {self.k} tensors of one shape, not {shapes}')
        self.calls[name] += 1
        self.sent += round(share * tensors[0].nbytes)

    def all_reduce(self, tensors: Sequence[torch.Tensor]) -> Tensors:
        """Return the sum, once per rank."""
        self._note('all_reduce', tensors, 2 * (self.k - 1) / self.k)
        return [torch.stack(list(tensors)).sum(0) for _ in tensors]

    def reduce_scatter(self, tensors: Sequence[torch.Tensor]) -> Tensors:
        """Return k equal shards of the sum, the r-th one for rank r."""
        self._note('reduce_scatter', tensors, (self.k - 1) / self.k)
        return [part.clone() for part in torch.stack(list(tensors)).sum(0).chunk(self.k)]

    def all_gather(self, parts: Sequence[torch.Tensor]) -> Tensors:
        """Return all shards joined in order, once per rank."""
        self._note('all_gather', parts, self.k - 1)
        return [torch.cat(list(parts)) for _ in parts]


def near(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether two tensors have the same shape and, up to rounding, the same values."""
    return a.shape == b.shape and torch.allclose(a.double(), b, rtol=1e-6, atol=1e-6)


def exercise_1(held: Callable[..., Any]) -> None:
    """Check the bytes that a rank holds at each stage of ZeRO."""
    for stage, n, k in [(s, n, k) for n, k in ((12, 3), (10, 4), (101, 8)) for s in range(4)]:
        whole, shard = 4 * n, 4 * -(-n // k)
        right = tuple(shard if stage > i else whole for i in (2, 1)) + (
            2 * (shard if stage else whole),
        )
        found = held(stage, n, k)
        case = f'ZeRO {stage}, {n} parameters, {k} ranks: {found}'
        three = hasattr(found, '__len__') and len(found) == 3
        expect(three, 'return three numbers: parameters, gradients, state', case)
        found = tuple(map(number, found))
        if found == right:
            continue
        hint = "Adam's state is two numbers per parameter"
        expect(found[:2] != right[:2] or 2 * found[2] != right[2], hint, case)
        kinds = zip(('parameters', 'gradients', 'state'), found, right, (3, 2, 1), (4, 4, 8))
        for name, a, b, begins, size in kinds:
            hint = f'{n} is not divisible by {k}, so the vector is padded first'
            expect(a == b or stage < begins or a not in (size * n / k, size * (n // k)), hint, case)
            kept = 'all' if stage < begins else 'its shard'
            hint = f'a rank keeps {kept} of the {name}, {size} bytes per parameter'
            expect(a == b, hint, case)


def exercise_2(rng: random.Random, zero1_step: Callable[..., None]) -> None:
    """Check a step of ZeRO 1 with momentum, on all ranks."""
    k, n, lr = 4, 12, 0.1
    start = draw(rng, n)
    one, momentum = start.clone(), torch.zeros(n, dtype=torch.float64)
    params = [start.clone() for _ in range(k)]
    momenta = [torch.zeros(n // k, dtype=torch.float64) for _ in range(k)]
    kept, ranks = [*params, *momenta], Ranks(k)
    memory = [x.data_ptr() for x in kept]
    for turn in (1, 2):
        grads = [draw(rng, n) for _ in range(k)]
        mean, before = sum(grads) / k, one.clone()
        momentum = 0.9 * momentum + mean
        one = one - lr * momentum
        zero1_step(ranks, params, [g.clone() for g in grads], momenta, lr)
        case = f'after step {turn}'
        hint = (
            f'{case} the lists hold new tensors, but the ranks keep their old ones: write into them'
        )
        expect(all(a is b for a, b in zip([*params, *momenta], kept)), hint)
        hint = f'{case} the tensors have new memory, from `.data = `: write into their own memory'
        expect([x.data_ptr() for x in kept] == memory, hint)
        hint = (
            f'{case} the ranks hold different parameters: each updates its shard, then gathers all'
        )
        expect(all(near(p, params[0]) for p in params), hint)
        hint = f'{case} all steps are {k} times too long: divide the sum to get the mean'
        expect(not near(params[0] - before, k * (one - before)), hint)
        apart = float((params[0] - one).abs().max())
        why = 'is the momentum kept?' if turn > 1 else 'shards are contiguous, in rank order'
        hint = f"{case} the parameters differ by {apart:.1g} from one device's: {why}"
        expect(near(params[0], one), hint)
    found, right = ranks.sent // 2, 2 * (k - 1) * n // k * 8
    hint = f'right parameters, but each rank sends {found} bytes a step, not {right}, with '
    hint += f'{dict(ranks.calls)} in two steps: a rank needs the mean of only its own shard, and '
    expect(found == right, f'{hint}afterwards sends only its shard')


def exercise_3(events: Callable[..., Any]) -> None:
    """Check when a fully sharded network gathers, computes, drops and scatters each layer."""
    for layers in (3, 1, 6):
        whole, forward, back, scattered, gathers = set[int](), 0, layers, set[int](), 0
        for at, (what, i) in enumerate((what, int(i)) for what, i in events(layers)):
            case = f'L = {layers}, event {at}, {what} {i}'
            if what in ('forward', 'backward'):
                expect(i in whole, f'gather the layer first; its {what} pass needs all of it', case)
            if what == 'gather':
                whole.add(i)
                gathers += 1
                expect(len(whole) == 1, f'layers {sorted(whole)} are unsharded at once', case)
            elif what == 'drop':
                whole.discard(i)
            elif what == 'forward':
                expect(i == forward, 'the forward pass goes up from layer 0', case)
                forward += 1
            elif what == 'backward':
                hint = (
                    f'the backward pass goes down from layer {layers - 1}, after the forward pass'
                )
                expect(i == back - 1 and forward == layers, hint, case)
                back -= 1
            elif what == 'scatter':
                expect(back <= i, 'this gradient is not ready yet', case)
                expect(i not in scattered, 'this gradient was already scattered', case)
                scattered.add(i)
            else:
                raise Hint(
                    f'{case}: the only events are gather, drop, forward, backward and scatter'
                )
        case = f'L = {layers}'
        expect(forward == layers and back == 0, 'not all passes were run', case)
        hint = f'only gradients of {sorted(scattered)} were scattered: scatter those of all layers'
        expect(len(scattered) == layers, hint, case)
        expect(not whole, f'layers {sorted(whole)} are unsharded at the end: drop them', case)
        hint = (
            f'{gathers} gathers; {2 * layers - 1} are enough: which one is gathered twice in a row?'
        )
        expect(gathers <= 2 * layers - 1, hint, case)
