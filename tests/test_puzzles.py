"""The puzzles' simulators: what the texts say of known schedules, and what formulas do."""

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


def test_the_targets_are_those_of_the_text():
    path = Path(__file__).parent.parent / 'exercises' / 'puzzles.ipynb'
    text = '\n'.join(cell.source for cell in nbformat.read(path, as_version=4).cells)
    published = re.findall(r'^## Puzzle (\d).*?\*\*Target: (.*?)\*\*', text, re.M | re.S)
    assert {n: set(re.findall(r'\d+(?:\.\d+)?', said)) for n, said in published} == {
        n: {f'{most:g}' for most in targets.values()} for n, targets in TARGETS.items()
    }


def test_the_published_costs_of_what_one_tries_first():
    score = PLAY['1'](allreduce_ring).score
    assert (score['ms'], score['MB between the servers']) == pytest.approx((2.436, 14))
    for allreduce, rounds, busiest in ((allreduce_ring, 10, 2), (allreduce_halving_doubling, 6, 3)):
        score = PLAY['3'](allreduce).score
        assert (score['rounds'], score['MB through the busiest port']) == (rounds, busiest)


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
    assert PLAY['2'](one_f_one_b).score['ms'] == pytest.approx(3 * 6 + 3 + 3)


def test_a_picture_shows_what_is_too_expensive_and_tells_what_is_wrong():
    figure = picture('puzzles.2', one_f_one_b)
    assert isinstance(figure, Figure)
    said = 'puzzles.2: 4 micro-batches kept at a time (target 4), 24 ms (target 21)'
    assert figure.axes[0].get_title('left') == said
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == [f'stage {i}' for i in range(4)]
    assert 'forward passes []' in repr(picture('puzzles.2', lambda m, stage, p: []))
    assert 'two_servers is still blank' in repr(picture('puzzles.1', ...))
