"""Check exercises 5.8 and 5.9: each epoch is shuffled, and each rank gets a shard of it."""

import math
import random
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from .checking import Numbers, expect, expect_value, on_paper


def exercise_8(rng: random.Random, my_shares: Callable[..., Any]) -> None:
    """Check the shards of a DistributedSampler."""
    for n, size in ((10, 4), (12, 3), (2, 5), (rng.randint(30, 40), 7)):
        seed, epochs = rng.randrange(99), []
        for epoch in (0, 1):
            hands = [
                [int(i) for i in my_shares(n, size, rank, seed, epoch)] for rank in range(size)
            ]
            case, lengths = f'{n} examples, {size} ranks', [len(hand) for hand in hands]
            hint = f'they get {lengths} examples; ranks with more steps would wait for the '
            hint += 'others forever'
            if sum(lengths) > n:
                hint += '; can padding go around the order more than once?'
            expect(len(set(lengths)) == 1, hint, case)
            counts = Counter(sum(hands, []))
            expect(set(counts) <= set(range(n)), f'there is no example {max(counts)}', case)
            hint = f'each rank gets {lengths[0]}, but {-(-n // size)} are enough'
            expect(lengths[0] <= -(-n // size), hint, case)
            missing = sorted(set(range(n)) - set(counts))
            hint = f'no rank has {missing}; do all use the same order, and is the remainder used?'
            expect(not missing, hint, case)
            hint = f'example {max(counts, key=lambda i: counts[i])} is used '
            hint += f'{max(counts.values())} times; pad from the beginning of the order'
            expect(max(counts.values()) - min(counts.values()) <= 1, hint, case)
            epochs.append(hands)
            steps = [{(b - a) % n for a, b in pairwise(hand)} for hand in hands]
            hint = "each rank's examples are equally spaced: the order is not shuffled"
            expect(n < 10 or any(len(distances) > 1 for distances in steps), hint, case)
        hint = 'epochs 0 and 1 have the same shards, as if `set_epoch` had never been called'
        expect(n < 10 or epochs[0] != epochs[1], hint, case)


def draw_9(rng: random.Random) -> dict[str, Any]:
    """Draw a student's numbers: neither ranks nor batches divide the examples evenly."""
    ranks = rng.choice((3, 6, 7))
    return {
        'examples': ranks * rng.randint(120, 300) + rng.randint(1, ranks - 1),
        'ranks': ranks,
        'batch': rng.choice((32, 48, 64)),
    }


@on_paper(draw_9)
def exercise_9(numbers: Numbers, steps: int, twice: int, last: int, left_out: int) -> None:
    """Check the steps and examples of a DistributedSampler, computed on paper."""
    n, k, batch = numbers['examples'], numbers['ranks'], numbers['batch']
    each, fewer = -(-n // k), n // k
    right = math.ceil(each / batch)
    mistakes = {
        'the last step, which is not full, counts, too': each // batch,
        'each rank takes `batch` examples in a step, not all ranks together': -(-n // batch),
    }
    hint = f'each rank gets {each} examples, {batch} in a step'
    expect_value(steps, right, '{} steps', mistakes, hint)
    mistakes = {'these are left over; count how many it takes to complete the round': n - fewer * k}
    hint = 'all ranks get as many examples as the rank with the most'
    expect_value(twice, each * k - n, '{} examples twice', mistakes, hint)
    rest = each - (right - 1) * batch
    mistakes = {
        'this counts one rank; a step uses the examples of all ranks': rest,
        'this is a full step; the last one has only what the earlier steps left over': batch * k,
    }
    hint = "multiply one rank's remainder after the full steps by the number of ranks"
    expect_value(last, rest * k, '{} examples in the last step', mistakes, hint)
    whole, dealt = n - fewer // batch * batch * k, n - fewer * k
    mistakes = {
        'the sampler drops these; the loader also drops the last batch of each rank': dealt,
        'the loader drops these; the sampler has already dropped some': whole - dealt,
        'this counts one rank; all ranks leave out as many': fewer % batch,
    }
    hint = (
        "the sampler drops what does not fit a full round, then the loader each rank's last batch"
    )
    expect_value(left_out, whole, '{} examples left out', mistakes, hint)
