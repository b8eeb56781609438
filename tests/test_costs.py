"""What communication costs: by counting, by hand, and against published tables."""

import itertools
import math
import sys

import pytest
from checkouts import ROOT
from checkouts import call as run

from mgpu_helpers.collectives import OURS, all_gather, count, reduce_scatter
from mgpu_helpers.scaling import (
    COSTS,
    LINKS,
    MACHINES,
    MODELS,
    Link,
    Machine,
    bubble,
    data_load,
    hierarchical,
    meeting_point,
    nvls,
    pipeline_load,
    ring,
    sharded_load,
    tensor_load,
    tensor_parallel_seconds,
)

PCIE = LINKS['PCIe 3 x16']
SLOW = Link('all latency', latency=1.0, bandwidth=1e30)  # a message costs 1, whatever its length
WIRE = Link('wire', latency=1.0, bandwidth=10.0)
THIN = Link('all bandwidth', latency=1e-30, bandwidth=1.0)  # a message costs its length


def test_an_algorithm_takes_what_its_formula_says():
    """Counted message by message, where all its slices are equally long."""
    assert COSTS.keys() == OURS.keys()
    for (name, algorithm), k in itertools.product(OURS.items(), [*range(1, 18), 31, 64]):
        numbers = k * 2 ** int(math.log2(k))
        counted = count(algorithm, k, numbers)
        for link in (SLOW, THIN, LINKS['25 Gb RoCE']):
            formula = COSTS[name](k, 4 * numbers, link)
            assert counted.seconds(link) == pytest.approx(formula, rel=1e-12), (name, k)


def test_halving_and_doubling_has_few_steps_and_few_bytes():
    for link, i in itertools.product(LINKS.values(), range(1, 11)):
        k = 2**i
        # The butterfly is better for short arrays: half the messages. With two devices, always.
        border = 1e12 if k == 2 else meeting_point(k, link)
        for n in (1, 1e4, 1e6, 0.999 * border, 1.001 * border, 1e9):
            cost = {name: f(k, n, link) for name, f in COSTS.items()}
            assert cost['halving_doubling'] <= min(cost['tree'], cost['ring']) * (1 + 1e-12)
            assert (cost['butterfly'] < cost['halving_doubling']) == (k == 2 or n < border), (k, n)


def test_what_dive_into_deep_learning_works_out():
    """160 MB on four GPUs with PCIe; 0.3 %: it leaves latencies out, six of 5.7 µs in 15 ms."""
    for name, seconds in (('naive', 60e-3), ('sharded', 15e-3)):
        ours = COSTS[name](4, 160e6, PCIE)
        assert seconds < ours == pytest.approx(seconds, rel=0.003)
    # On a ring of eight it has "approximately 6 ms", without the factor (k-1)/k.
    ours = ring(8, 160e6, Link('three NVLinks', 3.4e-6, 3 * 18e9))
    assert ours == pytest.approx(2 * 160e6 / (3 * 18e9) * 7 / 8, rel=0.01)  # 14 latencies more
    assert round(1000 * ours, 1) == 5.2


def test_levels_by_hand_and_against_one_flat_ring():
    inner, outer = Link('inner', 1e-6, 10e9), Link('outer', 10e-6, 1e9)
    inside = 2 * 3 * (1e-6 + 8e6 / 4 / 10e9)
    between = 2 * 9 * (10e-6 + 8e6 / 10 / 1e9)  # four slices of a quarter share the link
    assert hierarchical(8e6, [(4, inner), (10, outer)]) == pytest.approx(inside + between)
    network = LINKS['25 Gb RoCE']
    flat = ring(512, 4e3, network)
    assert hierarchical(4e3, [(4, PCIE), (128, network)]) < flat / 3
    assert hierarchical(4e3, [(512, network), (1, network)]) == flat  # a level of one is none


def test_what_a_link_takes_and_one_that_is_not_listed():
    assert Link('x', latency=0.5, bandwidth=10).seconds(20) == 2.5
    assert LINKS['NVLink 3'].arriving().seconds(240e9) == pytest.approx(1, rel=1e-5)
    with pytest.raises(KeyError, match='no link .carrier pigeon.: choose one of PCIe 3 x16, .*own'):
        LINKS['carrier pigeon']


def test_a_pipeline_waits_as_long_as_its_bubble():
    """GPipe: a stage of one second forward begins one second after the one before it."""
    for stages, micro_batches in itertools.product((1, 2, 4, 8), (1, 2, 8, 32)):
        forward = backward = micro_batches + stages - 1  # seconds until the last stage is done
        waits = 1 - 2 * micro_batches / (forward + backward)
        assert bubble(stages, micro_batches) == pytest.approx(waits)
    assert bubble(8, 8) == 7 / 15
    assert bubble(16, 135) <= 0.1 < bubble(16, 134)  # an exercise


def test_shards_and_cut_layers_by_hand():
    def fully_sharded(data):  # parameters gathered forward and backward, gradients scattered
        reduce_scatter(data)
        all_gather(data)
        all_gather(data)

    counted = count(fully_sharded, 8, 840)
    assert counted.seconds(WIRE) == pytest.approx(1.5 * ring(8, 4 * 840, WIRE))
    assert (
        tensor_parallel_seconds(2, 3, 20, Machine('board', 1.0, WIRE))
        == 12 * ring(2, 20, WIRE)
        == 12 * 2 * (1 + 1)
    )
    # Over two servers two of thirty messages are the network's, and all bytes pass it.
    dgx = MACHINES['DGX H100']
    by_hand = 28 * 3.4e-6 + 2 * 14e-6 + 30 / 16 * 1e6 / 320e9
    assert tensor_parallel_seconds(16, 1, 1e6, dgx) == pytest.approx(4 * by_hand)
    # Into the switch goes an array, and a slice; out of it the same.
    assert nvls(4, 80, WIRE) == 1 + 80 / 10 * 5 / 4


def test_every_load_is_messages_over_computing():
    """Counted from what a Llama block multiplies and sends, on links without latency."""
    C, W, t, k = 4e14, 5e10, 4096, 8
    wire, model = Link('no latency', 1e-30, W), MODELS['Llama 3.1 70B']
    width, keys, hidden, P = 8192, 1024, 28672, 1e9
    cut = 2 * width * width + 2 * width * keys + 3 * width * hidden
    assert cut + 2 * width == model.layers[1].parameters
    backward, step = 4 * P * t / C, 6 * P * t / C
    for size in (2, 4):
        load = data_load(C / W, t, size, devices=k)
        assert load * backward == pytest.approx(ring(k, size * P, wire))
        load = sharded_load(C / W, t, size, devices=k)
        sent = ring(k, 2 * P, wire) + ring(k, size * P, wire) / 2
        assert load * step == pytest.approx(sent)
    # A block's products take 6 operations for each token and parameter, on k devices.
    block = 6 * t * cut / k / C
    sums = tensor_parallel_seconds(k, 1, 2 * t * width, Machine('board', C, wire))
    assert tensor_load(C / W, k, width, cut) * block == pytest.approx(sums)
    there_and_back = 2 * wire.seconds(2 * t * width)
    assert pipeline_load(C / W, width, 10 * cut) * 60 * t * cut / C == pytest.approx(there_and_back)


def test_loads_on_an_h100_at_40_percent_of_its_label():
    """What an engineer worked out beside us, at 396e12 a second."""
    near, far = 395.6e12 / 360e9, 395.6e12 / 40e9
    assert tensor_load(near, 8, 8192, 12 * 8192**2) == pytest.approx(7 * near / 4.5 / 8192)
    assert tensor_load(near, 8, 8192, 12 * 8192**2) == pytest.approx(0.21, abs=0.005)
    # As chapter 9 has them: keys in a ring, tokens where it is 1; experts, forward only.
    assert 2 * far * 8 / 64 == pytest.approx(2475, rel=0.002)
    assert sharded_load(near, near) == 1 and sharded_load(near, near, 4) == pytest.approx(4 / 3)
    ahead = [[2 / 3 * cw * 7 / 8 / h for cw in (near, far)] for h in (14336, 2048)]
    assert ahead == [pytest.approx([0.045, 0.40], abs=0.005), pytest.approx([0.31, 2.8], abs=0.02)]


def test_what_costs_refuse():
    board = Machine('board', 1.0, WIRE)
    refused = [
        *((f, (0, 1e6, PCIE), 'devices must be at least 1') for f in COSTS.values()),
        *((f, (2, 0, PCIE), 'nbytes must be a number above 0') for f in COSTS.values()),
        *((f, (2, 1e6, 'PCIe'), 'link must be a Link, such as LINKS') for f in COSTS.values()),
        *((meeting_point, (k, PCIE), f'power of two, not {k}') for k in (2, 6)),
        (hierarchical, (1e6, [(4, PCIE), (0, PCIE)]), 'devices must be at least 1'),
        (Link, ('x', math.nan, 1e9), 'latency in seconds must be .*nan'),
        (Link, ('x', 1e-6, '16 GB/s'), 'bandwidth in bytes per second must be'),
        (WIRE.seconds, (-1e12,), 'nbytes must be a number of at least 0, not -1'),
        (tensor_parallel_seconds, (8, 0, 1, board), 'blocks must be at least 1, not 0'),
        (bubble, (1, 0), 'micro_batches must be at least 1, not 0'),
        (data_load, (1e3, 0), 'tokens must be a number above 0, not 0'),
    ]
    for call, arguments, message in refused:
        with pytest.raises((TypeError, ValueError), match=message):
            call(*arguments)


def test_no_framework_is_needed():
    code = """
import sys
from mgpu_helpers import scaling
assert all(getattr(scaling, name) is not None for name in scaling.__all__)
print([m for m in ('mxnet', 'torch', 'ipywidgets') if m in sys.modules])"""
    assert run(ROOT, sys.executable, '-c', code).stdout == '[]\n'
