"""Check exercises 5.10 to 5.14: those of chapters 1 to 3, with ranks instead of devices."""

import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy

from mgpu_helpers.collectives import (
    allreduce_halving_doubling,
    allreduce_ring,
    count,
    fill_buckets,
)
from mgpu_helpers.pytorch import this_device

from .by_hand import by_hand
from .checking import Hint, expect, expect_value, there
from .gradients import classifier, expect_alike, expect_mean, gradient
from .point_to_point import Network, on_peers
from .ranks import launch, on_ranks
from .sums import expect_buckets, expect_sum

Batch = tuple[torch.Tensor, torch.Tensor]


def drawn(rng: random.Random, size: int, shape: Sequence[int]) -> list[np.ndarray]:
    """Draw an array of whole numbers for each rank."""
    whole = np.random.default_rng(rng.randrange(2**32)).integers(1, 100, (size, *shape))
    return list(whole.astype(float))


def summed(
    all_reduce: Callable[..., None], before: list[np.ndarray]
) -> tuple[list[np.ndarray], Network]:
    """Simulate an allreduce of ``before``; return the ranks' arrays after it, and the network."""

    def call(dist: Any) -> torch.Tensor:
        x = torch.tensor(before[dist.get_rank()])
        seen = x.view(x.shape)  # its present memory, even if x is rebound later
        all_reduce(x, dist)
        return seen

    found, network = on_peers(len(before), call)
    return [x.numpy() for x in found], network


def exercise_10(rng: random.Random, my_all_reduce: Callable[..., None]) -> None:
    """Check an allreduce over the ranks, built from single messages."""
    for size in (2, 3, 4):
        before = drawn(rng, size, (3, 2))
        after, _network = summed(my_all_reduce, before)
        total = sum(before)
        kept = [np.array_equal(x, y) for x, y in zip(after, before)]
        hint = f'rank 0 of {size} is unchanged, but others have the sum: `x = x + y` makes a new '
        hint += 'tensor, `x += y` adds in place'
        expect(not (kept[0] and any(np.array_equal(x, total) for x in after)), hint)
        hint = f'{size} ranks end with the arrays that were sent, not with sums: `recv` replaces '
        hint += 'the content of its tensor, so receive into another tensor, and add that one'
        passed = all(any(np.array_equal(x, y) for y in before) for x in after)
        expect(not passed or all(kept), hint)
        expect_sum(before, after, 'ranks')
    for rank, x in enumerate(launch(real_sum, 3, my_all_reduce, labels=False, timeout=300)):
        hint = f'right in the simulation, but in three processes, rank {rank} has {x}, not 6.0'
        expect(x == [6.0, 6.0], hint)


def real_sum(my_all_reduce: Callable[..., None]) -> list[float]:
    """Sum 1, 2 and 3 with the real ``torch.distributed``; runs in each of three processes."""
    x = torch.full((2,), dist.get_rank() + 1.0, device=this_device())
    my_all_reduce(x, dist)
    values: list[float] = x.tolist()
    return values


@there  # 3,400 messages between two processes took 234 s on a busy machine
def by_slices(
    all_reduce: Callable[..., None], before: list[np.ndarray]
) -> tuple[list[np.ndarray], int]:
    """Return the arrays after an allreduce, and how many numbers the busiest rank moves."""
    try:
        after, network = summed(all_reduce, before)
    except IndexError as error:
        hint = f'{error}; `tensor_split` returns one slice per rank, even if some are empty'
        raise Hint(f'{len(before[0])} numbers on {len(before)} ranks: {hint}') from None
    return after, network.busiest()


def exercise_11(rng: random.Random, all_reduce_by_slices: Callable[..., None]) -> None:
    """Check an allreduce by slices, in which each rank sums its own slice."""
    for size, n in ((3, 7), (2, 6), (4, 11), (4, 3), (5, 1)):
        case = f'{n} numbers on {size} ranks'
        before = drawn(rng, size, (n,))
        after, _busiest = by_slices(all_reduce_by_slices, before)
        total = sum(before)
        done = [set(np.flatnonzero(x == total)) for x in after]
        parts = [{int(i) for i in part} for part in np.array_split(np.arange(n), size)]
        hint = 'some numbers are larger than the sum: do not add a slice that is already complete'
        expect(not any((x > total).any() for x in after), hint, case)
        hint = 'each rank holds the sum of one slice; now all others need it (all-gather)'
        own = sorted(map(sorted, done)) == sorted(map(sorted, parts))
        expect(not own, hint, case)
        try:
            expect_sum(before, after, 'ranks')
        except Hint as hint:
            left = sorted(set(range(n)) - set.intersection(*done))
            where = f'numbers {left[:6]} of {n} are not yet the sum on all ranks; {hint}'
            raise Hint(where if n % size else str(hint)) from None
    size, n = 4, 400
    _after, busiest = by_slices(all_reduce_by_slices, drawn(rng, size, (n,)))
    enough = 2 * (size - 1) * n // size
    hint = f'right, but one of {size} ranks sends or receives {busiest} numbers of {n}, and '
    hint += f'{enough} are enough: 2(k - 1) slices per rank, never the whole array'
    expect(busiest <= enough, hint)


def exercise_12(rounds_and_bytes: Callable[..., Any]) -> None:
    """Check the rounds and bytes of ring and halving-doubling against a count of the messages."""
    for k in (8, 3, 16, 6, 12, 2):
        for way, algorithm in (
            ('ring', allreduce_ring),
            ('halving-doubling', allreduce_halving_doubling),
        ):
            n, case = 48_000 * k, f'{way!r}, {k} ranks, {48_000 * k:,} bytes'
            right = count(algorithm, k, n // 4)
            found = rounds_and_bytes(way, k, n)
            pair = isinstance(found, Sequence | np.ndarray) and len(found) == 2
            expect(pair, f'return a pair, rounds and bytes, not {found!r:.40}', case)
            rounds, nbytes, hints = _mistakes(way, k, n)
            expect_value(found[0], right.rounds, f'{case}, rounds: {{}}', rounds, hints[0])
            case += f', bytes of the busiest rank: {{}}, not {right.busiest}'
            expect_value(found[1], right.busiest, case, nbytes, hints[1])


def _mistakes(way: str, k: int, n: int) -> tuple[dict[str, Any], dict[str, Any], tuple[str, str]]:
    """Return hints for known wrong counts of rounds and of bytes, and a default hint for each."""
    p = 2 ** (k.bit_length() - 1)
    log, inner, back = p.bit_length() - 1, 2 * (p - 1) * n // p, 'the sum has to come back, too'
    if way == 'ring':
        rounds = {
            back: k - 1,
            'once around is not enough: k - 1 rounds to add, as many to pass on': k,
        }
        nbytes = {
            back: (k - 1) * n / k,
            'only one slice travels in a round, 1/k of the array': 2 * (k - 1) * n,
            '2(k - 1) rounds, not 2k: a rank lacks k - 1 slices': 2 * n,
            'that is one slice, but one travels in every round': n / k,
        }
        return rounds, nbytes, ('k - 1 to add, and as many to pass on', 'n/k in each round')
    surplus = f'ranks beyond the first {p} send whole arrays first, and receive the sum last'
    rounds = {
        surplus: 2 * log,
        back: log,
        'a ring has this many rounds; here the distance doubles in each round': 2 * (k - 1),
    }
    nbytes = {
        surplus: inner,
        f'2(k - 1)/k holds only for powers of two; here {surplus}': 2 * (k - 1) * n / k,
        'a rank sends only one of the two whole arrays; count what it sends': inner + 2 * n,
        back: inner / 2,
        'this sends whole arrays, one way; rounds send a half, a quarter, ... of one': log * n,
        'this sends whole arrays; rounds send a half, a quarter, ... of one': 2 * log * n,
    }
    rest = '' if k == p else f'; and {surplus}'
    return rounds, nbytes, (f'2 log2({p}){rest}', f'n/2 + n/4 + ... + n/{p}, twice{rest}')


def cut(
    rank: int, lengths: Sequence[Sequence[int]], X: torch.Tensor, y: torch.Tensor
) -> list[Batch]:
    """Return one rank's micro-batches of these lengths, cut from a batch that all ranks have."""
    start = sum(map(sum, lengths[:rank]))
    ends = [start + sum(lengths[rank][:i]) for i in range(len(lengths[rank]) + 1)]
    return [(X[a:b], y[a:b]) for a, b in pairwise(ends)]


def exercise_13(rng: random.Random, accumulate: Callable[..., None]) -> None:
    """Check accumulation over micro-batches of uneven lengths, with one sum over the ranks."""
    seed = rng.randrange(99)
    for lengths, again in (
        ([[3, 1], [2, 3]], False),
        ([[2, 2, 1], [4]], False),
        ([[3], [2, 1], []], False),
        ([[3, 1], [2, 3]], True),
    ):
        size, n, seen = len(lengths), sum(map(sum, lengths)), dict[int, list[int]]()

        def call(
            dist: Any, lengths: Any = lengths, n: int = n, again: bool = again, seen: Any = seen
        ) -> torch.Tensor:
            net, X, y = classifier(seed, n)
            if again:
                net(X + 1).sum().backward()
            mine: list[int] = []
            seen[dist.rank] = mine
            net.register_forward_hook(lambda m, inputs, _: mine.append(len(inputs[0])))
            accumulate(cut(dist.rank, lengths, X, y), net, dist)
            return gradient(net)

        found, ranks = on_ranks(size, call)
        case = f'micro-batches of {", ".join(map(str, lengths))} examples on ranks 0 to {size - 1}'
        for rank, of_rank in enumerate(lengths):
            hint = f'the passes of rank {rank} have {seen[rank]} examples: a micro-batch is '
            hint += 'as large as memory allows, and each has one backward pass'
            expect(sorted(filter(None, seen[rank])) == sorted(of_rank), hint, case)
        sent = sum(x.numel() for _, x in ranks[0].calls if isinstance(x, torch.Tensor))
        numbers = len(found[0])
        hint = f'{sent} numbers are sent, but the gradients have {numbers}: accumulate them on the '
        hint += 'rank, and sum over the ranks once, after the last backward pass'
        expect(sent < 2 * numbers, hint, case)
        expect_alike(case, found)
        if again:
            case = f'{case}, in a second step (did you clear the gradient of the first one?)'
        hint = 'only the last micro-batch of each rank counts; clear gradients before the first '
        hint += 'one only'
        expect_mean(case, found[0], seed, n, size, {hint: (_last_ones(seed, lengths) / n).numpy()})


def _last_ones(seed: int, lengths: Sequence[Sequence[int]]) -> torch.Tensor:
    """Return the sum of the gradients of each rank's last micro-batch, a known mistake."""
    net, X, y = classifier(seed, sum(map(sum, lengths)))
    for rank in range(len(lengths)):
        for Xs, ys in cut(rank, lengths, X, y)[-1:]:
            cross_entropy(net(Xs), ys, reduction='sum').backward()
    return gradient(net)


def exercise_14(rng: random.Random, my_buckets: Callable[..., Any]) -> None:
    """Check buckets of tensors, filled starting from the last one."""
    drawn = [(rng.randint(1, 6), rng.randint(1, 9)) for _ in range(9)]
    for shapes, kind, limit in (
        ([(5, 2), (10,), (10,), (2, 5), (10,)], torch.float32, 80),
        ([(5,), (9, 10), (5,), (9, 10)], torch.float32, 80),
        ([(5, 2), (10,), (10,), (2, 5), (10,)], torch.float16, 80),
        (drawn, torch.float64, 400),
    ):
        grads = [torch.zeros(shape, dtype=kind) for shape in shapes]
        with by_hand(fill_buckets):
            found = my_buckets(list(grads), limit)
        expect_buckets(found, [g.nbytes for g in grads], limit)
