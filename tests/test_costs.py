"""What an allreduce costs: the formulas, what they agree on, and what they refuse."""

import itertools
import math
import sys

import pytest
from checkouts import ROOT
from checkouts import call as run

from mgpu_helpers.collectives import OURS, count
from mgpu_helpers.scaling import COSTS, LINKS, Link, hierarchical, meeting_point, ring

PCIE = LINKS['PCIe 3 x16']
SLOW = Link('all latency', latency=1.0, bandwidth=1e30)  # a message costs 1, whatever its length
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


def test_published_links():
    assert Link('x', latency=0.5, bandwidth=10).seconds(20) == 2.5
    speeds = {name: link.bandwidth / 1e9 for name, link in LINKS.items()}
    assert [speeds[f'PCIe {i} x16'] for i in (3, 5)] == [16, 64]
    assert [speeds[f'NVLink {i}'] for i in (2, 3, 4, 5)] == [150, 300, 450, 900]
    assert (speeds['25 Gb RoCE'], speeds['400 Gb InfiniBand']) == (3.125, 50)
    assert all(link.source for link in LINKS.values())
    assert LINKS['NVLink 3'].arriving().seconds(240e9) == pytest.approx(1, rel=1e-5)
    with pytest.raises(KeyError, match='no link .carrier pigeon.; there are: PCIe 3 x16, .*own'):
        LINKS['carrier pigeon']


def test_what_links_costs_and_levels_refuse():
    costs = COSTS.values()
    refused = [
        *((f, (0, 1e6, PCIE), ValueError, 'devices must be at least 1') for f in costs),
        *((f, (2, 0, PCIE), ValueError, 'nbytes must be a number above 0') for f in costs),
        *(
            (f, (2, 1e6, 'PCIe'), TypeError, 'link must be a Link, such as LINKS')
            for f in COSTS.values()
        ),
        *((meeting_point, (k, PCIE), ValueError, f'power of two, not {k}') for k in (2, 6)),
        (hierarchical, (1e6, [(4, PCIE), (0, PCIE)]), ValueError, 'devices must be at least 1'),
        (hierarchical, (0, [(4, PCIE)]), ValueError, 'nbytes must be a number above 0'),
    ]
    for bad in ([], (4, PCIE), [4, 128], None):
        refused.append((hierarchical, (1e6, bad), TypeError, r'list of \(devices, link\)'))
    for bad, kind in ((0, ValueError), (math.nan, ValueError), ('16 GB/s', TypeError)):
        refused.append((Link, ('x', bad, 1e9), kind, f'latency in seconds must be .*{bad}'))
        refused.append((Link, ('x', 1e-6, bad), kind, 'bandwidth in bytes per second must be'))
    for call, arguments, kind, message in refused:
        with pytest.raises(kind, match=message):
            call(*arguments)


def test_no_framework_is_needed():
    code = """
import sys
from mgpu_helpers import scaling
assert all(getattr(scaling, name) is not None for name in scaling.__all__)
print([m for m in ('mxnet', 'torch', 'ipywidgets') if m in sys.modules])"""
    assert run(ROOT, sys.executable, '-c', code).stdout == '[]\n'
