"""Check exercise 9.6: tokens are sent to experts, and their results come back."""

import random
from collections.abc import Callable
from typing import Any

import torch

from .checking import expect
from .gradients import draw
from .tensors import near, tensor


class Experts:
    """Experts that each see only their own tokens; ``calls`` records the counts received."""

    def __init__(self, rng: random.Random, k: int, width: int) -> None:
        self.matrices = draw(rng, k, width, width)
        self.calls: list[list[int]] = []

    def __call__(self, tokens: torch.Tensor, counts: Any) -> torch.Tensor:
        """Apply expert 0 to the first counts[0] rows, expert 1 to the next, and so on."""
        numbers = [int(n) for n in counts]
        self.calls.append(numbers)
        k = len(self.matrices)
        hint = f'exchange got counts {numbers} for {k} experts: pass one for each, even if it is 0'
        expect(len(numbers) == k, hint)
        hint = f'exchange got {len(tokens)} rows and counts {numbers}: they must add up'
        expect(sum(numbers) == len(tokens), hint)
        parts = zip(tokens.split(numbers), self.matrices)
        return torch.cat([self.compute(part, W) for part, W in parts])

    def compute(self, x: torch.Tensor, W: torch.Tensor) -> torch.Tensor:
        """Apply the expert with the matrix ``W`` to tokens."""
        return (x @ W).tanh()


def exercise_6(rng: random.Random, mixture: Callable[..., Any]) -> None:
    """Check that tokens go to their experts, and results come back in the original order."""
    drawn = [rng.randrange(4) for _ in range(9)]
    for choices, k in (([2, 0, 2, 1, 0, 2], 3), ([1, 3, 1, 0, 3], 5), (drawn, 4)):
        n, experts = len(choices), Experts(rng, k, 3)
        x, weights = draw(rng, n, 3), draw(rng, n).abs() + 0.5
        leaves = x.clone().requires_grad_(), weights.clone().requires_grad_()
        case = f'choices {choices} of {k} experts'
        chosen = torch.tensor(choices)
        answer = mixture(leaves[0], chosen, leaves[1], k, experts)
        expect(answer is not None, 'return the results', case)
        found, calls = tensor(answer), list(experts.calls)
        expect(calls, 'exchange was never called', case)
        hint = f'exchange was called {len(calls)} times; all ranks must call it equally '
        hint += 'often, so sort the tokens and call it once'
        expect(len(calls) == 1, hint, case)
        hint = f'results of shape {tuple(found.shape)}, not {(n, 3)}'
        expect(found.shape == (n, 3), hint, case)
        ours = x.clone().requires_grad_(), weights.clone().requires_grad_()
        each = torch.cat([experts.compute(ours[0][[i]], experts.matrices[e])
                          for i, e in enumerate(choices)])  # fmt: skip
        right, order = each * ours[1][:, None], chosen.argsort(stable=True)
        counted = chosen.bincount(minlength=k).tolist()
        hint = f'{calls[0]} tokens were sent to the experts, but {counted} chose them'
        expect(calls[0] == counted, hint, case)
        plain, w = each.detach(), weights[:, None]
        inner = torch.cat([experts.compute(x[[i]] * w[i], experts.matrices[e])
                           for i, e in enumerate(choices)])  # fmt: skip
        unsorted = torch.cat([experts.compute(x[[i]], experts.matrices[e])
                              for i, e in enumerate(sorted(choices))])  # fmt: skip
        for hint, wrong in (
            ("the result is not multiplied by the router's weights", plain),
            ("the results are in the experts' order, not in the tokens'", plain[order] * w[order]),
            ("the results are in the experts' order, the weights in the tokens'", plain[order] * w),
            ('the results were sorted again, not put back', (plain[order] * w[order])[order]),
            ('the results were sorted again, not put back', plain[order][order] * w),
            ('the results are in the right order, but their weights are not', plain * w[order]),
            ("multiply the expert's output by the weight, not its input", inner),
            ('the counts are those of sorted tokens, but the tokens were not sorted', unsorted * w),
        ):
            expect(not near(found, wrong) or near(found, right), hint, case)
        hint = "a result is not the output of the token's expert, times its weight; try two tokens"
        expect(near(found, right), hint, case)
        upstream = draw(rng, n, 3)
        hint = f'{case}: right, but no gradient flows back from the result'
        expect(found.requires_grad, hint)
        wanted = torch.autograd.grad((right * upstream).sum(), ours)
        grads = torch.autograd.grad((found * upstream).sum(), leaves, allow_unused=True)
        hint = f'{case}: right results, but the tokens get no gradient: it ends at the experts. '
        hint += 'Did you send a detached copy?'
        expect(grads[0] is not None and grads[0].abs().sum() > 0, hint)
        hint = f'{case}: right results, but the weights get no gradient, and a router that gets '
        hint += 'none never learns'
        expect(grads[1] is not None and grads[1].abs().sum() > 0, hint)
        for name, a, b in zip(('tokens', 'weights'), grads, wanted):
            expect(near(a, b), f'right results, but the wrong gradient for the {name}', case)
