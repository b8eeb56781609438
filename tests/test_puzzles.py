"""The puzzles' simulators: what the texts say of known schedules, and what formulas do."""

import itertools
import re
from pathlib import Path

import nbformat
import pytest
from matplotlib.figure import Figure

from mgpu_exercises.puzzles import PLAY, TARGETS, picture
from mgpu_helpers.collectives import (
    all_gather,
    allreduce_halving_doubling,
    allreduce_ring,
    count,
    reduce_scatter,
)
from mgpu_helpers.scaling import LINKS, hierarchical
from misconceptions.puzzles import one_f_one_b


def ordered_partitions(items):
    if not items:
        yield []
    for n in range(1, len(items) + 1):
        for first in itertools.combinations(items, n):
            rest = [i for i in items if i not in first]
            yield from ([list(first), *others] for others in ordered_partitions(rest))


def test_the_targets_are_those_of_the_text():
    path = Path(__file__).parent.parent / 'exercises' / 'puzzles.ipynb'
    text = '\n'.join(cell.source for cell in nbformat.read(path, as_version=4).cells)
    published = re.findall(r'^## Puzzle (\d).*?\*\*Target: (.*?)\*\*', text, re.M | re.S)
    assert {n: set(re.findall(r'\d+(?:\.\d+)?', said)) for n, said in published} == {
        n: {f'{most:g}' for most in targets.values()} for n, targets in TARGETS.items()
    }


def test_the_published_costs_of_what_one_tries_first():
    score = PLAY['2'](allreduce_ring).score
    assert (score['ms'], score['MB between the servers']) == pytest.approx((2.436, 14))
    for allreduce, steps, busiest in ((allreduce_ring, 10, 2), (allreduce_halving_doubling, 6, 3)):
        score = PLAY['6'](allreduce).score
        assert (score['steps'], score['MB through the busiest port']) == (steps, busiest)
    dealt = {
        'neighbours': [list(range(6 * r, 6 * r + 6)) for r in range(4)],
        'zig-zag': [[*range(3 * r, 3 * r + 3), *range(21 - 3 * r, 24 - 3 * r)] for r in range(4)],
        'one by one': [list(range(r, 24, 4)) for r in range(4)],
    }
    costs = {name: PLAY['7'](ranks).score for name, ranks in dealt.items()}
    assert [(cost['pieces received'], round(cost['ms'], 6)) for cost in costs.values()] == [
        (10, 34), (25, 30), (48, 24)
    ]  # fmt: skip
    # Of all orders and sizes of buckets: the best, and the best of those that leave when ready.
    costs = [(b, PLAY['4'](b).score['ms']) for b in ordered_partitions(range(6))]
    ready = [
        ms for b, ms in costs if [i for bucket in b for i in bucket[::-1]] == [5, 4, 3, 2, 1, 0]
    ]
    assert (len(costs), len(ready)) == (4683, 32)
    assert (min(ms for _, ms in costs), min(ready)) == pytest.approx((38.5, 42.5))


def test_times_are_those_of_the_courses_formulas():
    def in_turn(data):
        mine = reduce_scatter(data[:4]) + reduce_scatter(data[4:])
        for x, r in zip(mine, [mine[i ^ 4].copyto(i) for i in range(8)]):
            x += r
        all_gather(data[:4])
        all_gather(data[4:])

    inside, network = LINKS['PCIe 3 x16'], LINKS['25 Gb RoCE']
    messages = count(in_turn, 8, 100_000).travel(inside.seconds, network.seconds, 4)
    # The formula has two messages between the servers, here there are four, each of half the bytes.
    formula = hierarchical(4e5, [(4, inside), (2, network)]) + 2 * network.latency
    assert max(m.end for m in messages) == pytest.approx(formula)
    crossing = [m for m in messages if m.source // 4 != m.target // 4]
    assert sum(m.nbytes for m in crossing) == 2 * 4e5
    # A stage waits for p - 1 forward passes, and for p - 1 halves of backward passes.
    assert PLAY['5'](one_f_one_b).score['ms'] == pytest.approx(3 * 6 + 3 + 3)


def test_a_picture_shows_what_is_too_expensive_and_tells_what_is_wrong():
    figure = picture('puzzles.4', [[5], [4, 3], [2, 1, 0]])
    assert isinstance(figure, Figure)
    assert figure.axes[0].get_title('left') == 'puzzles.4: 42.5 ms (target 39.5)'
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ['device', 'network']
    assert 'is in one bucket' in repr(picture('puzzles.4', [[5]]))
    assert 'plan is still blank' in repr(picture('puzzles.1', ...))
