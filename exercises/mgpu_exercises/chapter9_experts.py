"""Exercises 9.7 and 9.8: tokens go to experts, and come back; who has too many."""

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch

from mgpu_helpers.pytorch import balance

from .by_hand import by_hand
from .checking import expect, expect_value
from .gradients import draw
from .tensors import near, tensor


class Experts:
    """Experts of which each knows its own tokens alone; ``calls`` are the counts that came."""

    def __init__(self, rng: random.Random, k: int, width: int) -> None:
        self.matrices = draw(rng, k, width, width)
        self.calls: list[list[int]] = []

    def __call__(self, tokens: torch.Tensor, counts: Any) -> torch.Tensor:
        """Give the results of the first counts[0] rows by expert 0, the next by expert 1, ..."""
        numbers = [int(n) for n in counts]
        self.calls.append(numbers)
        k = len(self.matrices)
        hint = f'exchange got counts {numbers} for {k} experts: one for each, also a 0'
        expect(len(numbers) == k, hint)
        hint = f'exchange got {len(tokens)} rows and counts {numbers}: they must add up'
        expect(sum(numbers) == len(tokens), hint)
        parts = zip(tokens.split(numbers), self.matrices)
        return torch.cat([self.compute(part, W) for part, W in parts])

    def compute(self, x: torch.Tensor, W: torch.Tensor) -> torch.Tensor:
        """Give what the expert with the matrix ``W`` makes of some tokens."""
        return (x @ W).tanh()


def exercise_7(rng: random.Random, mixture: Callable[..., Any]) -> None:
    """Tokens to their experts, and back into their order."""
    drawn = [rng.randrange(4) for _ in range(9)]
    for choices, k in (([2, 0, 2, 1, 0, 2], 3), ([1, 3, 1, 0, 3], 5), (drawn, 4)):
        n, experts = len(choices), Experts(rng, k, 3)
        x, weights = draw(rng, n, 3), draw(rng, n).abs() + 0.5
        leaves = x.clone().requires_grad_(), weights.clone().requires_grad_()
        case = f'choices {choices} of {k} experts'
        chosen = torch.tensor(choices)
        answer = mixture(leaves[0], chosen, leaves[1], k, experts)
        expect(answer is not None, 'give the results back with return', case)
        found, calls = tensor(answer), list(experts.calls)
        expect(calls, 'exchange was never called', case)
        hint = f'exchange was called {len(calls)} times; on many ranks all must call it equally '
        hint += 'often, so sort the tokens and call it once'
        expect(len(calls) == 1, hint, case)
        hint = f'results of shape {tuple(found.shape)}, not {(n, 3)}'
        expect(found.shape == (n, 3), hint, case)
        ours = x.clone().requires_grad_(), weights.clone().requires_grad_()
        each = torch.cat([experts.compute(ours[0][[i]], experts.matrices[e])
                          for i, e in enumerate(choices)])  # fmt: skip
        right, order = each * ours[1][:, None], chosen.argsort(stable=True)
        counted = chosen.bincount(minlength=k).tolist()
        hint = f'{calls[0]} tokens were sent to the experts; {counted} have chosen them'
        expect(calls[0] == counted, hint, case)
        plain, w = each.detach(), weights[:, None]
        inner = torch.cat([experts.compute(x[[i]] * w[i], experts.matrices[e])
                           for i, e in enumerate(choices)])  # fmt: skip
        unsorted = torch.cat([experts.compute(x[[i]], experts.matrices[e])
                              for i, e in enumerate(sorted(choices))])  # fmt: skip
        for hint, wrong in (
            ("the router's weights are not in the result", plain),
            ("in the experts' order, not in the tokens'", plain[order] * w[order]),
            ("in the experts' order, with weights in the tokens'", plain[order] * w),
            ('sorted once more, instead of back', (plain[order] * w[order])[order]),
            ('sorted once more, instead of back', plain[order][order] * w),
            ('the tokens are in their places, their weights are not', plain * w[order]),
            ('the weight belongs to what an expert gives, not to what it gets', inner),
            ('counts of sorted tokens, and tokens that were not sorted', unsorted * w),
        ):
            expect(not near(found, wrong) or near(found, right), hint, case)
        hint = 'not what each token gets from its own expert, times its weight; try two tokens'
        expect(near(found, right), hint, case)
        upstream = draw(rng, n, 3)
        hint = f'{case}: right, but without a way back: it has no gradient'
        expect(found.requires_grad, hint)
        wanted = torch.autograd.grad((right * upstream).sum(), ours)
        grads = torch.autograd.grad((found * upstream).sum(), leaves, allow_unused=True)
        hint = f'{case}: right results, but the tokens get no gradient: it stays with the experts. '
        hint += 'Was a copy sent that autograd does not know?'
        expect(grads[0] is not None and grads[0].abs().sum() > 0, hint)
        hint = f'{case}: right results, but the weights get no gradient, and a router that gets '
        hint += 'none never learns'
        expect(grads[1] is not None and grads[1].abs().sum() > 0, hint)
        for name, a, b in zip(('tokens', 'weights'), grads, wanted):
            expect(near(a, b), f'right results, but another gradient of the {name}', case)


def routed(rng: random.Random, choices: Sequence[int], k: int) -> torch.Tensor:
    """Draw a router's probabilities, the largest where the choices say, every other one surer."""
    n = len(choices)
    scores = draw(rng, n, k).clamp(-0.3, 0.3)
    scores[range(n), choices] += 1.5 + torch.arange(n, dtype=torch.float64) % 2
    return scores.softmax(-1)


def exercise_8(rng: random.Random, load: Callable[..., Any]) -> None:
    """How many tokens each expert has, what evens them, and who finds no room."""
    drawn = [rng.choice((0, 0, 0, 1, 2)) for _ in range(12)]
    for choices, k, factor in (
        ([1, 0, 1, 1, 2, 1, 1, 0], 4, 1.0),
        ([0, 0, 2, 0, 0, 0, 1, 0, 2, 0], 4, 1.25),
        (drawn, 3, 2.0),
        ([0, 1, 2, 0, 1, 2], 3, 1.0),
    ):
        n, probabilities = len(choices), routed(rng, choices, k)
        leaf = probabilities.clone().requires_grad_()
        with by_hand(balance):
            answer = tuple(load(leaf, factor))
        case = f'choices {choices} of {k} experts'
        expect(len(answer) == 3, f'{len(answer)} things; give counts, loss, dropped', case)
        counts = [choices.count(e) for e in range(k)]
        found = tensor(answer[0]).tolist()
        hint = f'{found} tokens for the experts, not {counts}: one number for each, also a 0, of '
        hint += 'all tokens that chose it'
        expect(found == counts, hint, case)
        expect_loss(answer[1], leaf, counts, case)
        room, by_expert = factor * n / k, [[i for i, e in enumerate(choices) if e == x]
                                           for x in range(k)]  # fmt: skip
        expect_dropped(
            answer[2], probabilities, by_expert, room, f'{case}, capacity factor {factor}'
        )


def expect_loss(loss: Any, leaf: torch.Tensor, counts: list[int], case: str) -> None:
    """Raise a hint unless this is Switch Transformer's auxiliary loss, with its gradient."""
    n, k = leaf.shape
    f, P = torch.tensor(counts) / n, leaf.detach().mean(0)
    best = leaf.detach().amax(-1)
    chosen = leaf.detach().argmax(-1)
    P_chosen = torch.stack([best[chosen == e].sum() / n for e in range(k)])
    right = float(k * (f * P).sum())
    mistakes = {
        f'the number of experts, {k}, is missing, which makes it 1 for an even load': right / k,
        'counts, where shares of the tokens belong': right * n,
        'sums of probabilities, where means belong': right * n,
        'counts and sums, where shares and means belong': right * n * n,
        'f alone: what has counts in it only has no gradient': float(k * (f * f).sum()),
        'P alone; where is the share of tokens that each expert got?': float(k * (P * P).sum()),
        'P is the mean over all tokens, not over those that chose the expert': float(
            k * (f * P_chosen).sum()
        ),
        'a mean over experts; it is a sum, times their number': right / k / k,
    }
    value = loss.detach() if isinstance(loss, torch.Tensor) else loss
    hint = f'not {right:.6g}: the sum over experts of share times mean probability, times experts'
    expect_value(value, right, f'{case}: a loss of {{}}', mistakes, hint, 1e-6)
    hint = 'the right loss, but nothing that one can call backward() on: leave it a tensor, with '
    hint += 'the probabilities in its graph'
    expect(isinstance(loss, torch.Tensor) and loss.requires_grad, hint)
    (grad,) = torch.autograd.grad(loss.sum(), leaf, allow_unused=True)
    hint = 'the right loss, with another gradient: it comes by the mean probabilities alone'
    expect(grad is not None and near(grad, (k * f / n).expand(n, k)), hint, case)


def expect_dropped(
    found: Any, probabilities: torch.Tensor, by_expert: list[list[int]], room: float, case: str
) -> None:
    """Raise a hint unless these are the tokens that come when their expert is full."""
    positions = tensor(found)
    if positions.dtype == torch.bool:
        positions = positions.nonzero().flatten()
    dropped = sorted(int(i) for i in positions)
    capacity, k = math.ceil(room), len(by_expert)

    def beyond(keep: int) -> list[int]:
        return sorted(i for mine in by_expert for i in mine[keep:])

    right, best = beyond(capacity), probabilities.amax(-1).tolist()
    early = [i for mine in by_expert for i in mine[: max(0, len(mine) - capacity)]]
    sure = [i for mine in by_expert for i in sorted(mine, key=lambda i: -best[i])[capacity:]]
    full = [i for mine in by_expert if len(mine) > capacity for i in mine]
    case = f'{case}: dropped {dropped}'
    if dropped == right:
        return
    for hint, wrong in (
        ('the first ones were dropped; who comes first is served', early),
        ('the least sure ones; here they come in the order of the sequence', sure),
        ('all tokens of an expert that is full; some found room', full),
        (f'room for {math.floor(room)}, where {room:g} is to be rounded up', beyond(int(room))),
        ('this is what an expert has room for, and one more', beyond(capacity + 1)),
        ('one too many: an expert that is just full drops nobody', beyond(capacity - 1)),
        (f'nobody? The tokens are shared by {k} experts, and so is the room', []),
    ):
        expect(dropped != sorted(wrong), hint, case)
    expect(False, f'not {len(right)} of them, the last of experts with more than {capacity}', case)
