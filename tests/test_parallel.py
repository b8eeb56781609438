"""What servers, shards, cut layers and pipelines cost: by hand, by counting, against a published
table.
"""

import itertools
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from mgpu_helpers.collectives import all_gather, count, reduce_scatter
from mgpu_helpers.scaling import (
    LINKS,
    MACHINES,
    MODELS,
    Layer,
    Link,
    Machine,
    Model,
    bubble,
    memory_per_device,
    tensor_parallel_seconds,
)
from mgpu_helpers.scaling.costs import nvls, parameter_servers, ring, sharded, zero

CHAPTER_7 = Path(__file__).parent.parent / 'notebooks' / '07-larger-than-one-device.ipynb'
WIRE = Link('wire', latency=1.0, bandwidth=10.0)
BOARD = Machine('board', 1.0, WIRE)


def played(schedule, stages, micro_batches):
    """Simulate a pipeline whose stages take one second forward and one second backward each.

    Gives the idle share, and of how many micro-batches the first stage keeps activations at most.
    """
    m, waiting, end, clock = range(micro_batches), [], {}, [0] * stages
    for s in range(stages):
        ahead = micro_batches if schedule == 'GPipe' else min(micro_batches, stages - s)
        turns = [('f', i) for i in m[:ahead]]
        for i in m:
            turns += [('b', i), *([('f', ahead + i)] if ahead + i < micro_batches else [])]
        waiting.append(turns)
    kept = [list(itertools.accumulate(1 if kind == 'f' else -1 for kind, _ in w)) for w in waiting]
    while any(waiting):
        for s, turns in enumerate(waiting):
            if turns:
                kind, i = turns[0]
                needs = [(kind, i, s - 1 if kind == 'f' else s + 1)]
                needs = [one for one in needs if 0 <= one[2] < stages]
                if all(one in end for one in needs):
                    clock[s] = end[kind, i, s] = max([clock[s], *(end[one] for one in needs)]) + 1
                    turns.pop(0)
    return 1 - 2 * micro_batches / max(clock), max(kept[0])


def test_a_pipeline_waits_as_long_as_its_bubble_and_keeps_what_it_says():
    for stages, micro_batches in itertools.product((1, 2, 4, 8), (1, 2, 8, 32)):
        for schedule in ('GPipe', '1F1B'):
            share, kept = played(schedule, stages, micro_batches)
            assert share == pytest.approx(bubble(stages, micro_batches))
            assert kept == (min(stages, micro_batches) if schedule == '1F1B' else micro_batches)
    assert bubble(8, 8) == 7 / 15
    assert bubble(16, 135) <= 0.1 < bubble(16, 134)  # an exercise


def test_parameter_servers_by_hand():
    # 8 workers, 1 server: 8 arrays in, 8 out, one after the other.
    assert parameter_servers(8, 1, 100, WIRE) == 2 * 8 * (1 + 10)
    assert parameter_servers(8, 4, 100, WIRE) == 2 * 8 * (1 + 2.5)
    assert parameter_servers(2, 4, 100, WIRE) == 2 * 4 * (1 + 2.5)  # now the workers are busiest
    assert parameter_servers(8, 4, 100, WIRE, duplex=True) == 8 * (1 + 2.5)
    # A server beside each worker sends k slices where the sharded allreduce keeps one: (k - 1).
    assert parameter_servers(8, 8, 100, WIRE) / sharded(8, 100, WIRE) == pytest.approx(8 / 7)


def test_shards_and_cut_layers_by_hand():
    whole = ring(8, 160, WIRE)
    assert [zero(stage, 8, 160, WIRE) / whole for stage in range(4)] == [1, 1, 1, 1.5]
    wide = [zero(stage, 8, 1e9, WIRE, 2e9) / ring(8, 1e9, WIRE) for stage in range(4)]
    assert wide == pytest.approx([2, 1.5, 1.5, 2], rel=1e-6)

    def fully_sharded(data):  # parameters gathered forward and backward, gradients scattered
        reduce_scatter(data)
        all_gather(data)
        all_gather(data)

    counted = count(fully_sharded, 8, 840)
    assert counted.seconds(WIRE) == pytest.approx(zero(3, 8, 4 * 840, WIRE))
    assert tensor_parallel_seconds(2, 3, 20, BOARD) == 12 * ring(2, 20, WIRE) == 12 * 2 * (1 + 1)
    # Over two servers two of thirty messages are the network's, and all bytes pass it.
    dgx = MACHINES['DGX H100']
    by_hand = 28 * 3.4e-6 + 2 * 14e-6 + 30 / 16 * 1e6 / 320e9
    assert tensor_parallel_seconds(16, 1, 1e6, dgx) == pytest.approx(4 * by_hand)
    # Into the switch goes an array, and a slice; out of it the same.
    assert nvls(4, 80, WIRE) == 1 + 80 / 10 * 5 / 4
    for call, message in (
        (lambda: zero(4, 8, 160, WIRE), 'stage must be at most 3, not 4'),
        (lambda: zero('3', 8, 160, WIRE), "stage must be an integer of at least 0, not '3'"),
        (lambda: parameter_servers(8, 0, 1, WIRE), 'servers must be at least 1, not 0'),
        (lambda: tensor_parallel_seconds(8, 0, 1, BOARD), 'blocks must be at least 1, not 0'),
        (lambda: bubble(0, 1), 'stages must be at least 1, not 0'),
        (lambda: bubble(1, 0), 'micro_batches must be at least 1, not 0'),
        (lambda: memory_per_device(MODELS['LeNet'], 1, stage=5), 'stage must be at most 3'),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            call()


def test_memory_of_zero_as_its_authors_publish_it():
    """Rajbhandari and others 2020, table 1: 7.5 billion parameters, 64 GPUs, Adam, in GB."""
    model = MODELS['Llama 3.1 8B']
    scale = 7.5e9 / model.parameters
    for stage, gigabytes in ((0, 120), (1, 31.4), (2, 16.6), (3, 1.88)):
        kept = memory_per_device(model, 1, 3, stage=stage, devices=64)
        assert (kept.total - kept.activations) * scale == pytest.approx(gigabytes * 1e9, rel=0.01)
        # No stage shares these.
        assert kept.activations == memory_per_device(model, 1).activations

    # An exercise: a billion parameters in float32, Adam, eight devices.
    plain = Model('plain', [Layer('all', 10**9, 1.0)])
    kept = [memory_per_device(plain, 1, 2, stage=stage, devices=8).total for stage in range(4)]
    assert kept == [16e9, 9e9, 5.5e9, 2e9]
    # Another: 13 billion in bfloat16, 30 GB of activations: which numbers of devices have 80 GB?
    plain = Model('plain', [Layer('all', 13 * 10**9, 1.0, 15 * 10**9)], 2)
    fits = [
        [k for k in range(1, 20) if memory_per_device(plain, 1, 3, stage, k).total <= 80e9]
        for stage in range(4)
    ]
    assert fits == [[], [], list(range(8, 20)), list(range(5, 20))]


def test_llamas_have_the_published_sizes():
    for size, parameters in (('8B', 8.03e9), ('70B', 70.6e9), ('405B', 405.9e9)):
        model = MODELS[f'Llama 3.1 {size}']
        assert model.parameters == pytest.approx(parameters, rel=0.002)
        assert model.nbytes == 2 * model.parameters
        # Two operations for each parameter and token, the embedding's aside, and the attention's.
        seen = 2 * 8192 * (model.parameters - model.layers[0].parameters)
        assert 1 < model.flops / seen < 1.2
    assert math.isclose(LINKS['8 x 400 Gb IB'].bandwidth, 400e9)


def test_chapter_7_takes_its_prices_from_here():
    """7 billion parameters in 32 blocks, 16 sequences of 4,096 tokens, 8 devices; last 4 by 2."""
    cells = json.loads(CHAPTER_7.read_text(encoding='utf8'))['cells']
    (text,) = (t for cell in cells if 'Which way when?' in (t := ''.join(cell['source'])))
    text = text.replace('\N{NO-BREAK SPACE}', ' ')
    told = [re.findall(r'\| (?:\+ )?([\d.]+ m?s) (?=\|)', line) for line in text.splitlines()]
    P, A = 14e9, 16 * 4096 * 4096 * 2
    links = LINKS['NVLink 4'], LINKS['400 Gb InfiniBand']  # a port for each GPU
    fast, slow = (replace(link, latency=1e-12) for link in links)  # by bytes alone
    board = {link: Machine('board', 1, link) for link in (fast, slow)}
    priced = [
        [zero(1, 8, P, link), zero(3, 8, P, link), tensor_parallel_seconds(8, 32, A, board[link])]
        + [2 * 32 * link.seconds(A / 32)]  # forward and back, in 32 micro-batches
        for link in (fast, slow)
    ]
    rows = [
        *zip(*priced),
        (tensor_parallel_seconds(4, 32, A / 2, board[fast]), ring(2, P / 4, slow)),
    ]
    short = [[f'{s:.1f} s' if s > 1 else f'{1000 * s:.0f} ms' for s in row] for row in rows]
    assert [row for row in told if row] == short and f'{bubble(8, 16):.0%} idle' in text
