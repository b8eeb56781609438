"""Check the exercises of chapter 7: split layers and pipelines; the others are imported."""

import random
from collections.abc import Callable
from typing import Any

import torch

from .chapter7_fsdp import exercise_7  # noqa: F401  found as 7.7
from .chapter7_shards import Ranks, exercise_1, exercise_2, exercise_3, near  # noqa: F401
from .checking import Numbers, expect, expect_value, number, on_paper
from .gradients import draw


def exercise_4(rng: random.Random, cut_mlp: Callable[..., Any]) -> None:
    """Check an MLP split over k ranks: columns, then rows, and a bias that counts once."""
    x, W1, b1, W2, b2 = (draw(rng, *s) for s in ((3, 4), (8, 4), (8,), (4, 8), (4,)))
    right = (x @ W1.T + b1).relu() @ W2.T + b2
    for k in (2, 4):
        parts = [tuple(part) for part in cut_mlp(W1, b1, W2, b2, k)]
        expect(len(parts) == k, f'{len(parts)} parts for {k} ranks: return one per rank')
        for i, (name, shape) in enumerate(
            (('W1', (8 // k, 4)), ('b1', (8 // k,)), ('W2', (4, 8 // k)), ('b2', (4,)))
        ):
            found = tuple(parts[0][i].shape)
            hint = f'{name} of rank 0 of {k} is {found}, not {shape}: split W1 and b1 along the '
            hint += 'features between the layers, W2 along the same features; do not split b2'
            expect(found == shape, hint)
        terms = [(x @ a.T + b).relu() @ c.T + d for a, b, c, d in parts]
        found = torch.stack(terms).sum(0)
        hint = f'{k} ranks: the sum has the last bias {k} times; only one term may include it'
        expect(not near(found - right, ((k - 1) * b2).expand(3, 4)), hint)
        hint = f'{k} ranks: the last bias is in no term, so it is missing from the sum'
        expect(not near(found - right, -b2.expand(3, 4)), hint)
        hint = (
            f'{k} ranks: the terms do not add up to the MLP: does each feature meet its W2 column?'
        )
        expect(near(found, right), hint)


def attention(x: torch.Tensor, qkv: torch.Tensor, out: torch.Tensor, heads: int) -> torch.Tensor:
    """Compute self-attention of x (t, w), with ``heads`` heads; return (t, w)."""
    q, k, v = (p.unflatten(-1, (heads, -1)).transpose(0, 1) for p in (x @ qkv.T).chunk(3, -1))
    weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
    return (weights @ v).transpose(0, 1).flatten(1) @ out.T


def exercise_5(rng: random.Random, tensor_step: Callable[..., Any]) -> None:
    """Check two split layers with a ReLU between them, forward and backward."""
    k, x, W, V, grad_y = 4, *(draw(rng, *s) for s in ((6, 4), (4, 8), (8, 4), (6, 4)))
    H = x @ W
    y, grad_H = H.relu() @ V, (grad_y @ V.T) * (H > 0)
    ranks, parts = Ranks(k), (W.chunk(k, 1), V.chunk(k, 0))
    ys, grads_x, grads_W = map(list, tensor_step(ranks, x, *map(list, parts), grad_y))
    hint = "the outputs differ from one device's: each rank has only one term of the sum"
    expect(all(near(found, y) for found in ys), hint)
    for found, g in zip(grads_W, (x.T @ grad_H).chunk(k, 1)):
        hint = f'gradients of W are {k} times too large: each term has the gradient of the sum'
        expect(not near(found, k * g), hint)
        hint = 'a rank lacks the gradient of its own shard of W: it needs grad_y, its shard of V, '
        hint += 'and the places where its features are above 0'
        expect(near(found, g), hint)
    own = [g @ w.T for g, w in zip(grad_H.chunk(k, 1), parts[0])]
    hint = "the gradient of x is from one rank's features only: a copy forward is a sum backward"
    expect(not all(near(a, b) for a, b in zip(grads_x, own)), hint)
    hint = 'the gradient of x differs from that of one device'
    expect(all(near(g, grad_H @ W.T) for g in grads_x), hint)
    hint = f'right, but {dict(ranks.calls)} sends {ranks.sent} bytes: two allreduces are enough'
    expect(dict(ranks.calls) == {'all_reduce': 2}, hint)


def draw_9(rng: random.Random) -> dict[str, Any]:
    """Draw a student's numbers."""
    stages = rng.choice((4, 6, 8))
    micro_batches = stages * rng.choice((2, 3)) - 1
    return {'stages': stages, 'micro_batches': micro_batches, 'ms': rng.choice((5, 20, 40))}


@on_paper(draw_9)
def exercise_6(numbers: Numbers, step_ms: float, idle: float, enough: float, kept: float) -> None:
    """Check the bubble of a pipeline, computed on paper."""
    p, m, ms = numbers['stages'], numbers['micro_batches'], numbers['ms']
    mistakes = {
        'stages also wait: the last one starts late, and the first one finishes late': 3 * ms * m,
        f'too long: with one stage, your formula must give {3 * ms * m} ms': 3 * ms * (m + p),
        'a backward pass takes twice as long as a forward pass': ms * (m + p - 1),
    }
    hint = f'a stage runs {m} passes each way, and waits for {p - 1} more'
    expect_value(step_ms, 3 * ms * (m + p - 1), 'a step of {} ms', mistakes, hint)
    right = (p - 1) / (m + p - 1)
    mistakes = {
        'a pipeline of one stage never waits: what does your formula give for it?': p / (m + p),
        'this is idle time over busy time; divide by the whole step instead': (p - 1) / m,
        'this is the busy fraction': 1 - right,
        'give a fraction between 0 and 1': 100 * right,
    }
    hint = 'of all passes that would fit into the step, what fraction is missing?'
    expect_value(idle, right, 'idle {}', mistakes, hint, 0.01)
    enough, kept = number(enough), number(kept)
    waits = (p - 1) / (enough + p - 1)
    expect(waits < 0.1, f'with {enough:g} micro-batches {waits:.1%} of a step is idle')
    expect(enough == 9 * (p - 1) + 1, f'{enough:g} micro-batches are enough, but fewer would do')
    expect(kept != m, f'{kept:g} micro-batches held: GPipe keeps all; 1F1B starts backward sooner')
    hint = 'when the first gradient reaches stage 0, how many micro-batches has it sent?'
    expect(kept == p, f'{kept:g} held: {hint}')
