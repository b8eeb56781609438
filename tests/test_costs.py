"""What an allreduce costs: the formulas, what they agree on, and what they refuse."""

import dataclasses
import math

import pytest

from mgpu_helpers import scaling
from mgpu_helpers.scaling import ALGORITHMS, LINKS, Link, hierarchical

COUNTS = (1, 2, 3, 4, 5, 8, 12, 64, 1000)
SLOW = Link('all latency', latency=1.0, bandwidth=1e30)  # a message costs 1, whatever its length
THIN = Link('all bandwidth', latency=1e-30, bandwidth=1.0)  # a message costs its length


def messages(name, devices):
    """Count the messages that follow one another."""
    return ALGORITHMS[name](devices, 1, SLOW)


def traffic(name, devices):
    """Count the bytes, in array lengths, that the busiest link carries one after the other."""
    return ALGORITHMS[name](devices, 1e6, THIN) / 1e6


@pytest.mark.parametrize('name', ALGORITHMS)
def test_one_device_has_nothing_to_sum(name):
    assert ALGORITHMS[name](1, 1e6, LINKS['PCIe 3 x16']) == 0


def test_messages_by_hand():
    assert [messages('naive', k) for k in (2, 4, 8)] == [2, 6, 14]
    assert [messages('through_host', k) for k in (2, 4, 8)] == [4, 8, 16]
    assert [messages('tree', k) for k in (2, 3, 4, 5, 8, 1000)] == [2, 4, 4, 6, 6, 20]
    # Not a power of two: two messages more than the largest power of two below.
    assert [messages('butterfly', k) for k in (2, 3, 4, 5, 7, 8, 1000)] == [1, 3, 2, 4, 4, 3, 11]
    assert [messages('sharded', k) for k in (2, 4, 8)] == [2, 6, 14]
    assert [messages('ring', k) for k in (2, 4, 8)] == [2, 6, 14]


def test_traffic_by_hand():
    assert traffic('naive', 4) == pytest.approx(6)
    assert traffic('through_host', 4) == pytest.approx(8)
    assert traffic('tree', 4) == pytest.approx(4)
    assert traffic('butterfly', 4) == pytest.approx(2)
    assert traffic('sharded', 4) == pytest.approx(1.5)
    assert traffic('ring', 4) == pytest.approx(1.5)


@pytest.mark.parametrize('devices', COUNTS[1:])
@pytest.mark.parametrize('name', ALGORITHMS)
def test_no_algorithm_beats_the_bounds(name, devices):
    # To know all k arrays takes log2(k) rounds, and 2(k-1)/k of an array through each link
    # (Patarasuk and Yuan 2009).
    assert messages(name, devices) >= math.log2(devices)
    assert traffic(name, devices) >= 2 * (devices - 1) / devices * (1 - 1e-12) or (
        # whole arrays in both directions at once: one may do where two halves would
        name == 'butterfly' and devices == 2
    )


def test_ring_reaches_the_bound_on_bytes_for_any_number_of_devices():
    for devices in COUNTS:
        assert traffic('ring', devices) == pytest.approx(2 * (devices - 1) / devices)


def test_which_is_best_depends_on_the_size():
    link = LINKS['25 Gb RoCE']
    for nbytes, best in ((4e3, 'butterfly'), (64e6, 'ring')):
        seconds = {name: f(64, nbytes, link) for name, f in ALGORITHMS.items() if name != 'sharded'}
        assert min(seconds, key=seconds.get) == best


def test_more_bytes_and_worse_links_cost_more():
    link = LINKS['PCIe 3 x16']
    for f in ALGORITHMS.values():
        base = f(8, 1e6, link)
        assert f(8, 2e6, link) > base
        assert f(8, 1e6, dataclasses.replace(link, bandwidth=8e9)) > base
        assert f(8, 1e6, dataclasses.replace(link, latency=1e-3)) > base
        assert f(16, 1e6, link) > base


def test_levels_by_hand():
    inner, outer = Link('inner', 1e-6, 10e9), Link('outer', 10e-6, 1e9)
    inside = 2 * 3 * (1e-6 + 8e6 / 4 / 10e9)
    between = 2 * 9 * (10e-6 + 8e6 / 10 / 1e9)  # four slices of a quarter share the link
    assert hierarchical(8e6, [(4, inner), (10, outer)]) == pytest.approx(inside + between)


def test_levels_against_one_flat_ring():
    network = LINKS['25 Gb RoCE']
    flat = ALGORITHMS['ring'](512, 4e3, network)
    assert hierarchical(4e3, [(4, LINKS['PCIe 3 x16']), (128, network)]) < flat / 3
    assert hierarchical(4e3, [(512, network)]) == flat
    assert hierarchical(4e3, [(512, network), (1, network)]) == flat  # a level of one is none


def test_published_links():
    speeds = {name: link.bandwidth / 1e9 for name, link in LINKS.items()}
    assert speeds['PCIe 3 x16'] == 16
    assert speeds['PCIe 5 x16'] == 4 * speeds['PCIe 3 x16']
    assert [speeds[f'NVLink {i}'] for i in (2, 3, 4)] == [150, 300, 450]
    assert speeds['25 Gb RoCE'] == 3.125
    assert speeds['400 Gb InfiniBand'] == 50
    assert all(link.source for link in LINKS.values())
    assert len(scaling.links_table().rows) == len(LINKS)


def test_time_of_a_message():
    assert Link('x', latency=0.5, bandwidth=10).seconds(20) == 2.5


@pytest.mark.parametrize('bad', [0, -1, -1e-9, math.inf, -math.inf, math.nan])
def test_a_link_needs_numbers_above_zero(bad):
    with pytest.raises(ValueError, match=f'latency in seconds must be a number above 0.*{bad}'):
        Link('x', latency=bad, bandwidth=1e9)
    with pytest.raises(ValueError, match='bandwidth in bytes per second must be .* above 0'):
        Link('x', latency=1e-6, bandwidth=bad)


@pytest.mark.parametrize('bad', ['16 GB/s', None, True, [1e9]])
def test_a_link_needs_numbers(bad):
    with pytest.raises(TypeError, match='bandwidth in bytes per second must be a number above 0'):
        Link('x', latency=1e-6, bandwidth=bad)
    with pytest.raises(TypeError, match='latency in seconds must be a number above 0'):
        Link('x', latency=bad, bandwidth=1e9)


@pytest.mark.parametrize('name', ALGORITHMS)
def test_what_a_cost_refuses(name):
    f, link = ALGORITHMS[name], LINKS['PCIe 3 x16']
    for devices in (0, -1):
        with pytest.raises(ValueError, match=f'devices must be at least 1, not {devices}'):
            f(devices, 1e6, link)
    for devices in (2.0, '2', None, True):
        with pytest.raises(TypeError, match='devices must be an integer'):
            f(devices, 1e6, link)
    for nbytes in (0, -4, math.inf, math.nan):
        with pytest.raises(ValueError, match='nbytes must be a number above 0'):
            f(2, nbytes, link)
    with pytest.raises(TypeError, match='nbytes must be a number'):
        f(2, '4 MB', link)
    for bad in (16e9, 'PCIe 3 x16', None):
        with pytest.raises(TypeError, match='link must be a Link, such as LINKS'):
            f(2, 1e6, bad)


def test_what_levels_refuse():
    link = LINKS['PCIe 3 x16']
    with pytest.raises(ValueError, match='levels is an empty list'):
        hierarchical(1e6, [])
    for bad in ((4, link), link, [4, 128], [(4, link, link)], None):
        with pytest.raises(TypeError, match=r'levels must be a list of \(devices, link\)'):
            hierarchical(1e6, bad)
    with pytest.raises(ValueError, match='devices must be at least 1, not 0'):
        hierarchical(1e6, [(4, link), (0, link)])
    with pytest.raises(ValueError, match='nbytes must be a number above 0'):
        hierarchical(0, [(4, link)])


def test_picture_of_the_costs(tmp_path):
    figure = scaling.plot_costs(8, LINKS['PCIe 3 x16'])
    (axes,) = figure.axes
    drawn = {line.get_label(): line.get_data() for line in axes.lines}
    assert set(drawn) == set(ALGORITHMS) - {'sharded'}
    for name, (sizes, ms) in drawn.items():
        assert ms[3] == 1000 * ALGORITHMS[name](8, int(sizes[3]), LINKS['PCIe 3 x16'])
    figure.savefig(tmp_path / 'costs.png')
    assert (tmp_path / 'costs.png').stat().st_size > 10_000
    with pytest.raises(ValueError, match='sizes is empty'):
        scaling.plot_costs(8, LINKS['PCIe 3 x16'], sizes=[])
    with pytest.raises(ValueError, match='devices must be at least 1'):
        scaling.plot_costs(0, LINKS['PCIe 3 x16'])


def test_no_framework_is_imported():
    import subprocess
    import sys

    code = (
        'import sys; from mgpu_helpers import scaling; '
        'assert all(getattr(scaling, name) is not None for name in scaling.__all__); '
        'print([m for m in ("mxnet", "torch") if m in sys.modules])'
    )
    found = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == '[]'
