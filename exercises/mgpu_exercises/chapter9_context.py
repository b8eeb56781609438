"""Check exercises 9.3 to 9.5: ring attention over a sequence too long for one device."""

import random
from collections.abc import Callable
from typing import Any

import torch

from mgpu_helpers.pytorch.language import context

from .by_hand import by_hand
from .checking import expect, expect_value
from .gradients import draw
from .tensors import near, tensor

Part = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def attend(scores: torch.Tensor, values: torch.Tensor) -> Part:
    """Return output, largest score and sum for each query; a score of -inf masks a key."""
    largest = scores.amax(-1)
    weights = (scores - largest.clamp(min=-1e300)[:, None]).exp()
    total = weights.sum(-1)
    return weights @ values / total.clamp(min=1e-300)[:, None], largest, total


def exercise_3(rng: random.Random, combine: Callable[..., Any]) -> None:
    """Check that two partial results of attention are combined into one."""

    def combined(case: str, *parts: Part) -> Part:
        found = tuple(combine(*(tuple(x.clone() for x in part) for part in parts)))
        expect(len(found) == 3, f'{len(found)} values; return output, largest score and sum', case)
        out, largest, total = map(tensor, found)
        for name, x, right in zip(('output', 'largest', 'sum'), (out, largest, total), parts[0]):
            hint = f'{name} has the shape {tuple(x.shape)}, not {tuple(right.shape)}'
            expect(x.shape == right.shape, hint, case)
        return out, largest, total

    scores, values = draw(rng, 4, 9), draw(rng, 9, 3)
    scores[0, 7], scores[1, 1] = 3.0, 3.0  # so that each part has some query's largest score
    cut = (scores[:, :5], values[:5]), (scores[:, 5:], values[5:])
    (o1, m1, t1), (o2, m2, t2) = first, second = attend(*cut[0]), attend(*cut[1])
    out, largest, total = combined('two parts', first, second)
    right, m, t = attend(scores, values)
    s1, s2 = (m1 - m).exp(), (m2 - m).exp()

    def mean(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (a[:, None] * o1 + b[:, None] * o2) / (a + b)[:, None]

    for hint, wrong in (
        ('this is the plain mean of both, as if their weights had the same sum', (o1 + o2) / 2),
        ('both were added: weights must add up to 1', o1 + o2),
        ('weighted as if both sums were relative to the same maximum', mean(t1, t2)),
        (
            'weighted by the numbers of keys, but keys have different weights',
            mean(5 + 0 * t1, 4 + 0 * t1),
        ),
        ('it is not divided by the new sum', right * t[:, None]),
        ('the sums are missing: each output was divided by its own sum', mean(s1, s2)),
        (
            'the sums are missing in one part: each output was divided by its own sum',
            mean(s1, s2) * ((s1 + s2) / t)[:, None],
        ),
        (
            'the part with the smaller maximum weighs more: the exponent has the wrong sign',
            mean(t1 / s1, t2 / s2),
        ),
    ):
        expect(not near(out, wrong), f'the output: {hint}')
    expect(
        near(out, right), 'differs from attention over all nine keys at once; try it with one query'
    )
    hint = 'the largest score overall is the larger one of the two parts'
    expect(near(largest, m), f'{hint}: {[round(float(x), 3) for x in largest]}')
    hint = 'the sum: both sums are relative to different maxima, so rescale before you add'
    expect(not near(total, t1 + t2), hint)
    expect(near(total, t), 'the sum is not that of exp(score - largest) over all keys')

    for name, many in (
        ('scores around 1,000', scores + 1000),
        ('scores around -1,000', scores - 1000),
        ('scores up to 2,000', 500 * scores),
    ):
        parts = attend(many[:, :5], values[:5]), attend(many[:, 5:], values[5:])
        out, _, total = combined(name, *parts)
        hint = f'exp of {float(many.abs().max()):.0f} overflows, and so does dividing by exp of '
        hint += 'its negative: subtract the scores before you take exp'
        expect(out.isfinite().all() and total.isfinite().all(), hint, name)
        same = near(out, attend(many, values)[0])
        expect(same, 'the output is not that of attention over all keys at once', name)

    unseen = scores.clone()
    unseen[2:, 5:] = -torch.inf
    seen, some = attend(unseen[:, :5], values[:5]), attend(unseen[:, 5:], values[5:])
    for name, pair in (
        ('a second part in which two queries see no key', (seen, some)),
        ('a first part in which two queries see no key', (some, seen)),
    ):
        found = combined(name, *pair)
        hint = 'nan or inf; if the largest score is -inf, what is exp(largest - new largest)?'
        expect(all(x.isfinite().all() for x in found), hint, name)
        hint = 'a part without keys must change nothing'
        expect(all(map(near, found, attend(unseen, values))), hint, name)

    thirds = [attend(scores[:, a : a + 3], values[a : a + 3]) for a in (0, 3, 6)]
    found = combined('three parts', combined('three parts', *thirds[:2]), thirds[2])
    hint = 'two parts are right, but three are not: do you return the three values in the form '
    hint += 'in which you take them?'
    expect(near(found[0], right), hint)


def exercise_4(rounds: Callable[..., Any]) -> None:
    """Check which keys a rank holds in each round of a ring, and which it attends to."""
    for k, rank in ((4, 1), (3, 0), (3, 1), (3, 2), (1, 0), (5, 4)):
        found = [(int(block), str(what)) for block, what in rounds(rank, k)]
        case = f'rank {rank} of {k}: {found}'
        blocks = [block for block, _ in found]
        hint = f'{len(found)} rounds for {k} blocks: in the first a rank has its own, and nothing '
        hint += 'has been sent; '
        hint += 'is the last one missing?' if len(found) < k else 'the last is not sent on'
        expect(len(found) == k, hint, case)
        expect(blocks[0] == rank, 'in the first round, a rank has its own keys', case)
        hint = 'the blocks are 0 to k - 1, and each arrives once'
        expect(sorted(blocks) == list(range(k)), hint, case)
        hint = 'this is the order if ranks receive from the next rank; here they '
        hint += f'receive from the previous one, rank {rank} from rank {(rank - 1) % k}'
        expect(blocks != [(rank + i) % k for i in range(k)] or k < 3, hint, case)
        right = [(rank - i) % k for i in range(k)]
        hint = 'wrong order: what does the previous rank hold one round earlier?'
        expect(blocks == right, hint, case)
        for block, what in found:
            case = f"rank {rank} of {k}, block {block}, '{what}'"
            known = ('whole', 'triangle', 'nothing')
            expect(what in known, "each value must be 'whole', 'triangle' or 'nothing'", case)
            if block == rank:
                hint = 'queries and keys have the same tokens: the first query sees one key, the '
                hint += 'last one sees them all'
                expect(what == 'triangle', hint, case)
            elif block < rank:
                hint = f'all its tokens come before those of rank {rank}'
                expect(what == 'whole', hint, case)
            else:
                hint = f'all its tokens come after those of rank {rank}'
                expect(what == 'nothing', hint, case)


def exercise_5(zigzag: Callable[..., Any]) -> None:
    """Check a split of tokens that gives all ranks equal work in causal ring attention."""
    for n, k, rank in ((12, 3, 0), (12, 3, 1), (16, 2, 1), (24, 4, 3), (8, 1, 0)):
        with by_hand(context.zigzag, context.my_part):
            answer = tuple(zigzag(rank, k, n))
        case = f'rank {rank} of {k}, {n} tokens'
        expect(len(answer) == 2, 'return the positions and the number of pairs', case)
        found = [int(i) for i in answer[0]]
        piece, m = n // (2 * k), n // k
        a, b = rank * piece, (2 * k - 1 - rank) * piece
        right = [*range(a, a + piece), *range(b, b + piece)]
        case = f'{case}: {found}'
        expect(len(found) == m, f'1/{k} of the tokens is {m}', case)
        hint = 'these are neighbours, so the last rank has most work: cut 2k pieces, and '
        hint += 'give each rank a light one and a heavy one'
        expect(k == 1 or found != list(range(rank * m, (rank + 1) * m)), hint, case)
        hint = 'every k-th token still leaves later ranks slightly more work: assign pieces'
        expect(k == 1 or found != list(range(rank, n, k)), hint, case)
        hint = 'right tokens, wrong order: ascending in both pieces, the earlier piece first'
        expect(found == right or sorted(found) != right, hint, case)
        hint = 'one piece is right; count the other from the end, so that a light piece '
        hint += 'goes with a heavy one'
        expect(found == right or not set(range(a, a + piece)) <= set(found), hint, case)
        expect(found == right, 'take one piece from the front and one from the end', case)
        pairs = sum(i + 1 for i in right)
        mistakes = {
            'this is without a mask; a query sees only the keys up to itself': m * n,
            'a query sees itself, too': pairs - m,
            'this counts only its own keys; the others arrive through the ring': m * (m + 1) // 2,
            'this is half of the square, but on the diagonal each query sees itself': m * n // 2,
            'this counts two triangles; both pieces see the keys before them, too': (
                piece * (piece + 1)
            ),
            'these are the pairs of all ranks': n * (n + 1) // 2,
        }
        hint = f'query {right[0]} sees {right[0] + 1} keys; count for each query, and add up'
        expect_value(answer[1], pairs, f'{case}, {{}} pairs', mistakes, hint)
