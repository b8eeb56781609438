"""Check the exercises of chapter 9: tokens, long sequences (9.3 to 9.5), experts (9.6)."""

import random
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from mgpu_helpers.pytorch import shifted

from .by_hand import by_hand
from .chapter9_context import (  # noqa: F401  found as 9.3 to 9.6
    exercise_3,
    exercise_4,
    exercise_5,
)
from .chapter9_experts import exercise_6  # noqa: F401  found as 9.6
from .checking import Hint, expect
from .gradients import draw
from .ranks import on_ranks
from .tensors import near, tensor

WORDS = 7  # more than any sequence has tokens, so a wrong shape cannot pass
Ranks = list[list[int]]  # the lengths of each rank's sequences


def batches(rng: random.Random, ranks: Ranks) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Draw logits and labels for each rank, padded to the longest sequence on any rank."""
    longest, drawn = max(map(max, ranks)), []
    for lengths in ranks:
        labels = torch.full((len(lengths), longest), -100)
        for row, n in zip(labels, lengths):
            row[:n] = torch.tensor([rng.randrange(WORDS) for _ in range(n)], dtype=torch.long)
        drawn.append((draw(rng, len(lengths), longest, WORDS), labels))
    return drawn


def exercise_1(rng: random.Random, token_loss: Callable[..., Any]) -> None:
    """Check a per-rank loss: DDP's mean gradient must be that of the mean over all tokens."""
    for ranks in ([[5, 4], [2, 3], [2]], [[4], [0], [3, 1]]):
        k, drawn = len(ranks), batches(rng, ranks)

        def call(dist: Any, drawn: Any = drawn) -> tuple[Any, torch.Tensor]:
            logits, labels = drawn[dist.rank]
            logits = logits.clone().requires_grad_()
            try:
                return token_loss(logits, labels.clone(), dist), logits
            except NotImplementedError:  # also a RuntimeError: the answer is still blank
                raise
            except (RuntimeError, ValueError, IndexError) as error:
                shapes = f'logits {tuple(logits.shape)}, labels {tuple(labels.shape)}'
                hint = f'{shapes}: {" ".join(str(error).split())[:120]}; cross_entropy takes (n, '
                hint += 'words) and (n,), so flatten the first two axes of both'
                raise Hint(hint) from None

        case = f'ranks with {[sum(lengths) for lengths in ranks]} tokens'
        given, _ranks = on_ranks(k, call)
        found = []
        for rank, (loss, logits) in enumerate(given):
            expect(loss is not None, 'return the loss', case)
            hint = f'rank {rank} cannot call backward() on your loss: it is a number, or a tensor '
            hint += 'without a graph; a rank with only padding also needs a loss, of 0'
            expect(isinstance(loss, torch.Tensor) and loss.requires_grad, hint, case)
            expect(loss.numel() == 1, f'a loss of shape {tuple(loss.shape)}: return a scalar', case)
            hint = f'the loss of rank {rank} is {loss.item():g}: without tokens that count, a mean '
            hint += 'is 0/0'
            expect(loss.isfinite().all(), hint, case)
            (grad,) = torch.autograd.grad(loss.sum(), logits, allow_unused=True)
            found.append((torch.zeros_like(logits) if grad is None else grad) / k)
        expect_token_mean(case, found, drawn)


def expect_token_mean(
    case: str, found: list[torch.Tensor], drawn: list[tuple[torch.Tensor, torch.Tensor]]
) -> None:
    """Raise a hint unless the ranks' averaged gradients are those of the mean over all tokens."""
    k, sums, counts = len(drawn), [], [int((labels >= 0).sum()) for _, labels in drawn]
    for rank, (logits, labels) in enumerate(drawn):
        leaf = logits.clone().requires_grad_()
        total = cross_entropy(leaf.flatten(0, 1), labels.flatten(), reduction='sum')
        sums.append(torch.autograd.grad(total, leaf)[0])
        hint = f'rank {rank} has no token that counts, and its mean is 0/0: nan'
        expect(counts[rank] or found[rank].isfinite().all(), hint, case)
        hint = 'padding has a gradient: a label of -100 marks padding, not a token'
        expect(not found[rank][labels < 0].abs().sum() > 0, hint, case)
    if all(near(grad, total / sum(counts)) for grad, total in zip(found, sums)):
        return
    own, everywhere = [labels.numel() for _, labels in drawn], sum(x.numel() for _, x in drawn)
    for hint, by in (
        (
            'each rank divides by its own tokens, which gives a mean of means',
            [k * n for n in counts],
        ),
        ('you divided by the tokens of one rank: how many are there on all ranks?', counts),
        ('you counted padding, too, on each rank separately', [k * n for n in own]),
        ('padding was counted, too', [everywhere] * k),
        (
            f'you divided by the ranks, too: DDP already averages over {k}',
            [k * sum(counts)] * k,
        ),
        ('DDP divides only by the ranks; what about the tokens?', [k] * k),
        ('you divided by sequences, not by tokens', [sum(len(x) for _, x in drawn)] * k),
    ):
        wrong = all(near(grad, total / max(n, 1)) for grad, total, n in zip(found, sums, by))
        expect(not wrong, hint, case)
    apart = float(found[0].norm() * sum(counts) / sums[0].norm())
    hint = f'averaged over the ranks, the gradient of rank 0 is {apart:.3g} times that of the mean'
    raise Hint(f'{case}: {hint} over all tokens')


def exercise_2(rng: random.Random, prepare: Callable[..., Any]) -> None:
    """Check inputs, targets and the causal mask."""
    # Token 0 is a real token, so padding must be found from the lengths.
    drawn = [[rng.randint(1, 30) for _ in range(n)] for n in (4, rng.randint(5, 7), 1, 3)]
    drawn[0][2] = drawn[1][0] = drawn[3][1] = 0
    for sequences in ([[7, 3, 9, 4], [5, 8]], drawn):
        n, t = len(sequences), max(map(len, sequences)) - 1
        with by_hand(shifted):
            parts = tuple(prepare([list(s) for s in sequences]))
        expect(
            len(parts) == 3,
            f'your function returned {len(parts)} values; return inputs, targets and mask',
        )
        inputs, targets, mask = map(tensor, parts)
        case = f'{sequences}'
        for name, x, shape in (('inputs', inputs, (n, t)), ('targets', targets, (n, t))):
            hint = f'{name} of shape {tuple(x.shape)}, not {shape}: after the last token of the '
            hint += 'longest sequence there is nothing to predict'
            expect(tuple(x.shape) == shape, hint, case)
        for row, (tokens, given) in enumerate(zip(sequences, targets.tolist())):
            expect_next(tokens, given)
            last, read = len(tokens) - 1, inputs[row].tolist()
            case = f'inputs of {tokens}: {read}'
            hint = 'where a target counts, the input must be the token before it'
            expect(read[:last] == tokens[:last], hint, case)
            hint = 'a position without a token holds 0; an embedding has no row for -100'
            expect((inputs[row] >= 0).all(), hint, case)
            hint = f'the last token, {tokens[-1]}, belongs in the inputs, too; its target is -100'
            expect(read[last : last + 1] != [0] or tokens[-1] == 0, hint, case)
            hint = 'pad with 0 after the last token'
            expect(read == (tokens + [0] * t)[:t], hint, case)
        hint = f'the mask is {mask.dtype}; use torch.bool'
        expect(mask.dtype == torch.bool, hint)
        expect_causal(mask, t)


def expect_next(tokens: list[int], given: list[float]) -> None:
    """Raise a hint unless the targets of a sequence are its next tokens, followed by -100."""
    last, case = len(tokens) - 1, f'targets of {tokens}: {[int(y) for y in given]}'
    right = tokens[1:]
    if given[:last] != right:
        hint = 'these are the input tokens themselves, so there is nothing to learn: shift them'
        expect(given[:last] != tokens[:last], hint, case)
        hint = 'these are the preceding tokens; the targets are the following ones'
        expect(last < 2 or given[1:last] != tokens[: last - 1], hint, case)
        j = next(j for j in range(last) if given[j] != right[j])
        raise Hint(f'{case}: which token comes after {tokens[j]}, at position {j}?')
    hint = f'nothing comes after {tokens[-1]}, at position {last}, so from there on the target is '
    hint += '-100'
    expect(all(y == -100 for y in given[last:]), hint, case)


def expect_causal(mask: torch.Tensor, t: int) -> None:
    """Raise a hint unless a mask lets each of t positions attend to itself and earlier ones."""
    hint = f'a mask of shape {tuple(mask.shape)}, not {(t, t)}: queries by keys, for all sequences'
    expect(tuple(mask.shape) == (t, t), hint)
    may, ones = mask.bool(), torch.ones(t, t, dtype=torch.bool)
    case = f'mask for {t} positions, row 1: {may[1].int().tolist()}'
    for hint, wrong in (
        ('position 1 attends to position 2, whose token it must predict', ones.tril(1)),
        ('position 1 does not attend to itself, its newest input', ones.tril(-1)),
        ('transposed: rows are queries, columns are keys', ones.triu()),
        ('inverted: it must be true where a position may attend', ones.triu(1)),
        ('every position attends to all, even to the tokens that it must predict', ones),
    ):
        expect(not torch.equal(may, wrong), hint, case)
    i = int((may != ones.tril()).any(1).nonzero()[0]) if not torch.equal(may, ones.tril()) else -1
    expect(i < 0, f'row {i} of the mask is {may[i].int().tolist()}: how many may it attend to?')
