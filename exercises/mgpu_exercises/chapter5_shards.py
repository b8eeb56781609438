"""Exercises 5.8 and 5.9: an epoch, sampled without replacement, and a shard of it for each rank."""

import math
import random
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from .checking import Numbers, expect, expect_value, on_paper


def exercise_8(rng: random.Random, my_shares: Callable[..., Any]) -> None:
    """The shards of a DistributedSampler."""
    for n, size in ((10, 4), (12, 3), (2, 5), (rng.randint(30, 40), 7)):
        seed, epochs = rng.randrange(99), []
        for epoch in (0, 1):
            hands = [
                [int(i) for i in my_shares(n, size, rank, seed, epoch)] for rank in range(size)
            ]
            case, lengths = f'{n} examples, {size} ranks', [len(hand) for hand in hands]
            hint = f'they get {lengths}; with as many steps as examples, one would wait for the '
            hint += 'others for ever'
            if sum(lengths) > n:
                hint += '; may filling up go around the order more than once?'
            expect(len(set(lengths)) == 1, hint, case)
            counts = Counter(sum(hands, []))
            expect(set(counts) <= set(range(n)), f'there is no example {max(counts)}', case)
            hint = f'{lengths[0]} for each, and {-(-n // size)} are enough'
            expect(lengths[0] <= -(-n // size), hint, case)
            missing = sorted(set(range(n)) - set(counts))
            hint = f'{missing} have no rank; do all use the same order, and is the remainder used?'
            expect(not missing, hint, case)
            hint = f'example {max(counts, key=lambda i: counts[i])} is dealt '
            hint += f'{max(counts.values())} times; fill up from the beginning of the order'
            expect(max(counts.values()) - min(counts.values()) <= 1, hint, case)
            epochs.append(hands)
            steps = [{(b - a) % n for a, b in pairwise(hand)} for hand in hands]
            hint = "each rank's examples are equally spaced: the order is not shuffled"
            expect(n < 10 or any(len(distances) > 1 for distances in steps), hint, case)
        hint = 'epochs 0 and 1 have the same shards, as if `set_epoch` had been forgotten'
        expect(n < 10 or epochs[0] != epochs[1], hint, case)


def draw_9(rng: random.Random) -> dict[str, Any]:
    """Draw the numbers of a student: neither ranks nor batches come out even."""
    ranks = rng.choice((3, 6, 7))
    return {
        'examples': ranks * rng.randint(120, 300) + rng.randint(1, ranks - 1),
        'ranks': ranks,
        'batch': rng.choice((32, 48, 64)),
    }


@on_paper(draw_9)
def exercise_9(numbers: Numbers, steps: int, twice: int, last: int, left_out: int) -> None:
    """Cards on paper."""
    n, k, batch = numbers['examples'], numbers['ranks'], numbers['batch']
    each, fewer = -(-n // k), n // k
    right = math.ceil(each / batch)
    mistakes = {
        'the last one, which is not full, counts, too': each // batch,
        'each rank takes `batch` examples in a step, so a step has those of all ranks': -(
            -n // batch
        ),
    }
    hint = f'each rank gets {each} examples, {batch} in a step'
    expect_value(steps, right, '{} steps', mistakes, hint)
    mistakes = {'these are left over; this is how many a full round lacks': n - fewer * k}
    hint = 'all ranks get as many as the rank with the most'
    expect_value(twice, each * k - n, '{} examples twice', mistakes, hint)
    rest = each - (right - 1) * batch
    mistakes = {
        "that is one rank's shard": rest,
        'it has what the earlier steps left over': batch * k,
    }
    hint = 'the rest of a rank after the full steps, times the ranks'
    expect_value(last, rest * k, '{} examples in the last step', mistakes, hint)
    whole, dealt = n - fewer // batch * batch * k, n - fewer * k
    mistakes = {
        'the sampler leaves these out; the loader drops the last batch of each rank as well': dealt,
        'the loader drops these; the sampler has left some out before': whole - dealt,
        "that is one rank's shard": fewer % batch,
    }
    hint = (
        "the sampler drops what does not fit a full round, then the loader each rank's last batch"
    )
    expect_value(left_out, whole, '{} examples left out', mistakes, hint)
