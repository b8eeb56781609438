"""Simulated training steps: what is hidden, what is exposed, and who waits."""

import itertools

import numpy as np
import pytest

from mgpu_helpers.scaling import ALGORITHMS, LINKS, MACHINES, MODELS, Link, Machine, simulate, step

# Two seconds for 100 bytes over a ring of two: 2 * (0.5 + 50 / 100). Four for 300 bytes.
LINK = Link('example', latency=0.5, bandwidth=100.0)
LAYERS = [('first', 100, 1.0, 2.0), ('second', 300, 1.0, 2.0)]


def test_buckets_travel_during_the_backward_pass():
    """Forward until 2. The second layer's gradient is there at 4 and travels until 8, the first's
    is there at 6, waits for the network, and travels from 8 to 10: 4 seconds after the backward
    pass.
    """
    found = simulate(LAYERS, 10, 2, LINK, bucket_bytes=None)
    assert (found.seconds, found.exposed, found.alone) == pytest.approx((10, 4, 6))
    assert (found.efficiency, found.throughput) == pytest.approx((6 / 10, 2 * 10 / 10))
    assert found.waiting == pytest.approx([0.4, 0.4])
    spans = found.timeline.spans
    network = [(s.name, s.start, s.end) for s in spans if s.lane == 'network']
    assert network == [('bucket 1', 4.0, 8.0), ('bucket 2', 8.0, 10.0)]
    assert [s.name for s in spans if s.lane == 'device 1'] == ['forward', 'second', 'first']
    # Without overlap: backward until 6, then 4 and 2 seconds.
    after = simulate(LAYERS, 10, 2, LINK, overlap=False, bucket_bytes=None, title='one by one')
    assert (after.seconds, after.exposed) == pytest.approx((12, 6))
    rows = found.table(after).rows
    assert rows[0] == ['layers, ring', 2, '10 s', '4 s', '40%', '2', '60%']
    assert rows[1][0] == 'one by one'


def test_one_bucket_for_both_layers():
    """400 bytes, complete at 6: 2 * (0.5 + 200 / 100) = 5 seconds."""
    for bucket_bytes in (400, 401, 10**9):
        found = simulate(LAYERS, 10, 2, LINK, bucket_bytes=bucket_bytes)
        assert found.seconds == pytest.approx(11)
    for bucket_bytes in (1, 300, 399):  # at most so many: one for each
        assert simulate(LAYERS, 10, 2, LINK, bucket_bytes=bucket_bytes).seconds == pytest.approx(10)


def test_other_work_and_one_device():
    machine = Machine('example', flops=1.0, link=LINK, overhead=0.25)
    found = simulate(LAYERS, 10, 2, machine, bucket_bytes=None, update=0.5)
    assert found.seconds == pytest.approx(0.25 + 10 + 0.5)
    assert found.alone == pytest.approx(0.25 + 6 + 0.5)
    kinds = [s.kind for s in found.timeline.spans if s.lane == 'device 0']
    assert kinds == ['compute', 'forward', 'backward', 'backward', 'update']
    # Pooling in front sends nothing, and prolongs the backward pass to 7: one second more fits.
    found = simulate([('pool', 0, 0.0, 1.0), *LAYERS], 10, 2, LINK, bucket_bytes=None)
    assert (found.seconds, found.exposed) == pytest.approx((10, 3))
    nothing = simulate([('pool', 0, 1.0, 1.0)], 10, 2, LINK)
    assert (nothing.seconds, nothing.exposed) == (2.0, 0.0)
    alone = simulate(LAYERS, 10, 1, LINK)
    assert alone.seconds == alone.alone == 6 and alone.timeline.lanes == ['device 0']
    assert (alone.efficiency, alone.exposed, alone.waiting[0]) == (1.0, 0.0, 0.0)


def test_without_overlap_it_is_the_closed_form_with_it_it_lies_between_the_ideal_and_none():
    machine = MACHINES['p3.16xlarge']
    for name, algorithm, devices in (
        ('LeNet', 'tree', 8),
        ('VGG-16', 'naive', 64),
        ('ResNet-50', 'hierarchical', 64),
        ('ResNet-50', 'ring', 1),
    ):
        options = {'algorithm': algorithm, 'overlap': False}
        found = simulate(MODELS[name], 32, devices, machine, bucket_bytes=1e12, **options)
        formula = step(MODELS[name], 32, devices, machine, **options)
        assert found.seconds == pytest.approx(formula.seconds, rel=1e-9)
        assert found.exposed == pytest.approx(formula.communication, rel=1e-9, abs=1e-15)
    # The closed form lets every byte travel as soon as there is any time left: the best case.
    for model in (MODELS[name] for name in ('LeNet', 'VGG-16', 'ResNet-101')):
        found, after = (
            simulate(model, 32, 64, machine, bucket_bytes=model.nbytes / 4, overlap=overlap).seconds
            for overlap in (True, False)
        )
        assert step(model, 32, 64, machine).seconds <= found < after


def test_messages_have_a_lane_for_each_device_that_sends():
    found = simulate(LAYERS, 10, 2, LINK, bucket_bytes=None, messages=True)
    assert found.timeline.lanes == ['device 0', 'device 0 sends', 'device 1', 'device 1 sends']
    sent = [(s.start, s.end) for s in found.timeline.spans if s.lane == 'device 1 sends']
    assert sent == [(4.0, 6.0), (6.0, 8.0), (8.0, 9.0), (9.0, 10.0)]


def factors(found):
    """By what each device's forward pass of each step was longer than LAYERS' 2 seconds."""
    by_lane = {lane: [] for lane in found.timeline.lanes if lane != 'network'}
    for span in found.timeline.spans:
        if span.kind == 'forward':
            by_lane[span.lane].append(span.seconds / 2.0)
    return np.array(list(by_lane.values()))


def test_stragglers_keep_the_mean_have_the_spread_and_everybody_waits_for_them():
    found = simulate(LAYERS, 10, 16, LINK, spread=0.2, steps=500, seed=1)
    drawn = factors(found)
    assert drawn.shape == (16, 500) and drawn.min() > 0
    assert (drawn.mean(), drawn.std()) == pytest.approx((1, 0.2), abs=0.01)
    # Without overlap a step is the slowest device's computing, then the network's.
    found = simulate(LAYERS, 10, 4, LINK, overlap=False, spread=0.3, steps=20, bucket_bytes=1e9)
    drawn = factors(found)
    communication = ALGORITHMS['ring'](4, 400, LINK)
    assert found.seconds == pytest.approx((6 * drawn.max(axis=0)).mean() + communication)
    assert found.exposed == pytest.approx(communication)
    assert found.waiting == pytest.approx(1 - 6 * drawn.sum(axis=1) / (20 * found.seconds))
    a, b, c = (simulate(LAYERS, 10, 4, LINK, spread=0.3, seed=seed).seconds for seed in (1, 1, 2))
    assert a == b != c


def test_who_has_updated_goes_on_at_once():
    """With updates of different length, devices start their next step at different times."""
    found = simulate(LAYERS, 10, 3, LINK, spread=0.3, update=5.0, steps=2)
    spans = found.timeline.spans
    for lane in ('device 0', 'device 1', 'device 2'):
        own = [s for s in spans if s.lane == lane]
        updated = next(s.end for s in own if s.kind == 'update')
        assert [s.start for s in own if s.kind == 'forward'][1] == updated
    assert len({s.end for s in spans if s.kind == 'update'}) == 6


def test_more_devices_wait_longer_and_nobody_does_two_things_at_once():
    link, machine = LINKS['NVLink 4'], MACHINES['p3.16xlarge']
    counts = (1, 8, 64, 512)
    steps = [simulate(LAYERS, 10, k, link, spread=0.1, steps=50).seconds for k in counts]
    assert steps == sorted(steps) and steps[0] == pytest.approx(6, rel=0.05)
    assert steps[-1] > 6 * 1.2  # the largest of 512 lies about three spreads above the mean
    found = simulate(MODELS['VGG-16'], 8, 8, machine, spread=0.2, steps=5)
    assert len(found.timeline.lanes) == 9  # one is the network's
    for lane in found.timeline.lanes:
        spans = [s for s in found.timeline.spans if s.lane == lane]
        assert all(a.end <= b.start for a, b in itertools.pairwise(spans))
    many = simulate(MODELS['ResNet-101'], 64, 4096, machine, spread=0.1)
    assert many.waiting.shape == (4096,) and 0 < many.efficiency < 1
    assert 0 < many.waiting.min() < many.waiting.max() < 1
    with pytest.raises(ValueError, match='4096 devices are too many for a picture'):
        many.timeline  # noqa: B018


def test_simulate_refuses_bad_input():
    given = {'model': LAYERS, 'batch': 10, 'devices': 2, 'machine': LINK}
    for changed, kind, message in (
        ({'devices': 0}, ValueError, 'devices must be at least 1, not 0'),
        ({'batch': 0}, ValueError, 'batch must be at least 1, not 0'),
        ({'steps': 0}, ValueError, 'steps must be at least 1, not 0'),
        ({'steps': 10**8}, ValueError, '2 devices times 100,000,000 .*: simulate fewer devices'),
        ({'spread': -0.1}, ValueError, 'spread must be a number of at least 0, not -0.1'),
        ({'spread': 1.5}, ValueError, 'spread must be at most 1, not 1.5'),
        ({'seed': -1}, ValueError, 'seed must be at least 0, not -1'),
        ({'update': -1}, ValueError, 'update in seconds must be a number of at least 0, not -1'),
        ({'bucket_bytes': 0}, ValueError, 'bucket_bytes must be a number above 0, not 0'),
        ({'algorithm': 'gossip'}, ValueError, "algorithm must be one of .*, not 'gossip'"),
        ({'algorithm': 'hierarchical', 'messages': True}, ValueError, 'message by message, must'),
        ({'devices': 65, 'messages': True}, ValueError, '65 devices are too many to simulate mess'),
        ({'machine': LINK, 'model': MODELS['LeNet']}, TypeError, 'machine must be a Machine'),
        ({'model': 'ResNet'}, TypeError, "such as MODELS.*, or a list of layers, not 'ResNet'"),
        ({'model': []}, ValueError, 'no layer takes any time'),
        ({'model': [('a', 1, 0, 0)]}, ValueError, 'no layer takes any time'),
        ({'model': [('a', 1, 1)]}, TypeError, 'a layer must be'),
        ({'model': [('a', -1, 1, 1)]}, ValueError, "gradient_bytes of layer 'a' must be"),
        ({'model': [('a', 1, 1, float('inf'))]}, ValueError, "backward of layer 'a' must be"),
    ):
        with pytest.raises(kind, match=message):
            simulate(**given | changed)
