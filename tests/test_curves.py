"""A training step's time, how it scales, and what hides."""

import itertools
from dataclasses import replace

import pytest

from mgpu_helpers.scaling import MACHINES, MODELS, Layer, Link, Machine, Model
from mgpu_helpers.scaling.costs import ring
from mgpu_helpers.scaling.curves import hiding_batch, step, strong_scaling
from mgpu_helpers.scaling.machines import communication_seconds

RESNET, VGG = MODELS['ResNet-50'], MODELS['VGG-16']
SERVERS = MACHINES['p3.16xlarge']
POWERS = [2**i for i in range(11)]

# By hand: one example takes 1 s forward and 2 s backward, and two devices need 5 s to sum.
TOY = Model('toy', [Layer('all', parameters=100, flops=1000, activations=50)])
BOARD = Machine('board', flops=1000, link=Link('wire', latency=0.5, bandwidth=100))


def test_a_step_by_hand():
    assert communication_seconds(2, TOY.nbytes, BOARD) == 2 * (0.5 + 200 / 100) == 5
    assert step(TOY, 1, 1, BOARD).seconds == 3
    assert step(TOY, 1, 2, BOARD).seconds == 1 + 5  # 2 of 5 are hidden
    assert step(TOY, 1, 2, BOARD, overlap=False).seconds == 3 + 5
    assert step(TOY, 4, 2, BOARD).seconds == 12  # all are
    assert step(TOY, 4, 2, replace(BOARD, overhead=0.25)).seconds == 12.25
    cost = step(TOY, 2, 2, BOARD)
    assert (cost.forward, cost.backward, cost.communication, cost.exposed) == (2, 4, 5, 1)
    # More buckets cost latencies.
    assert communication_seconds(2, 400, BOARD, buckets=4) == 5 + 3 * 2 * 0.5


def test_the_hiding_batch_is_where_the_curve_reaches_all():
    # By hand: the allreduce takes 5 s, the backward pass 2 s an example: three examples.
    assert hiding_batch(TOY, 2, BOARD) == 3
    assert hiding_batch(TOY, 1, BOARD) == 1  # nothing to hide

    for model in (MODELS['LeNet'], RESNET, VGG):
        for devices, algorithm in ((2, 'ring'), (64, 'ring'), (1024, 'hierarchical')):
            batch = hiding_batch(model, devices, SERVERS, algorithm)
            less, just, more = (
                step(model, b, devices, SERVERS, algorithm).exposed
                for b in (max(batch - 1, 1), batch, 10 * batch)
            )
            assert just == 0 == more and (batch == 1 or less > 0)


def test_the_rule_to_remember():
    """b > C/W in bfloat16, 2 C/W in float32, over the uses of each parameter in an example."""
    C, W = 989e12, 400e9
    cluster = Machine('cluster', C, Link('no latency', 1e-15, W))
    for value_bytes, uses in itertools.product((2, 4), (1, 160)):
        dense = Model('dense', [Layer('all', 10**9, uses * 2 * 10**9)], value_bytes)
        batch = hiding_batch(dense, 10**5, cluster)
        assert batch == pytest.approx(value_bytes / 2 * C / W / uses, abs=1)


def test_inside_a_server_and_through_the_network():
    assert BOARD.levels(1000) == [(1000, BOARD.link)]
    assert SERVERS.levels(5) == [(5, SERVERS.link)]
    assert SERVERS.levels(24) == [(8, SERVERS.link), (3, SERVERS.network)]
    inside = communication_seconds(8, 1e8, SERVERS)
    assert inside == ring(8, 1e8, SERVERS.link)
    # A ring of 9: 16 messages in a row, 2 of them through the network, which sets the pace.
    link, network = SERVERS.link, SERVERS.network
    by_hand = 14 * link.latency + 2 * network.latency + 16 / 9 * 1e8 / network.bandwidth
    assert communication_seconds(9, 1e8, SERVERS) == pytest.approx(by_hand)
    by_hand = ring(8, 1e8, SERVERS.link) + ring(128, 1e8, SERVERS.network)
    assert communication_seconds(1024, 1e8, SERVERS, 'hierarchical') == by_hand
    assert communication_seconds(4, 1e8, SERVERS, 'hierarchical') == ring(4, 1e8, SERVERS.link)


def test_one_batch_on_more_and_more_devices():
    curve = strong_scaling(RESNET, 8192, POWERS, SERVERS, algorithm='hierarchical')
    assert curve.speedup[0] == 1
    for k, seconds, speedup in zip(POWERS, curve.seconds, curve.speedup, strict=True):
        assert seconds == step(RESNET, 8192 // k, k, SERVERS, 'hierarchical').seconds
        assert speedup == curve.seconds[0] / seconds
    # An uneven batch waits for the largest part.
    assert [s.batch for s in strong_scaling(TOY, 10, [1, 3], BOARD).steps] == [10, 4]


def test_what_machines_steps_and_scaling_refuse():
    both = 'pass both devices_per_server and network'
    model, machine = "Model, .* not 'ResNet-50'", "Machine, .* not 'p3.16xlarge'"
    for changed, kind, message in (
        ({'flops': 0}, ValueError, 'flops .*must be a number above 0, not 0'),
        ({'network': None}, ValueError, both),
        ({'link': 16e9}, TypeError, 'link must be a Link'),
        ({'memory': -1}, ValueError, 'memory in bytes must be a number above 0, not -1'),
        ({'overhead': -1.0}, ValueError, 'overhead in seconds must be a number'),
    ):
        with pytest.raises(kind, match=message):
            replace(SERVERS, **changed)
    for call, arguments, message in (
        (step, ('ResNet-50', 64, 8, SERVERS), f'model must be a {model}'),
        (step, (RESNET, 64, 8, 'p3.16xlarge'), f'machine must be a {machine}'),
        (step, (RESNET, 0, 8, SERVERS), 'batch must be at least 1, not 0'),
        (step, (RESNET, 10**400, 8, SERVERS), 'batch must be at most .* an int'),
        (step, (RESNET, 64, 8, SERVERS, 'star'), 'must be one of naive, .* not .star'),
        (step, (RESNET, 64, 8, SERVERS, 'ring', True, 0), 'buckets must be at least 1, not 0'),
        (communication_seconds, (12, 1e8, SERVERS, 'hierarchical'), '12 devices do not fill'),
        (
            communication_seconds,
            (16, 1e8, SERVERS, 'sharded'),
            "'sharded' works within one .* 8 devices: .*use 'ring'",
        ),
        (strong_scaling, (RESNET, 64, [1, 1024], SERVERS), '64 is too small for 1,024 devices'),
        (strong_scaling, (RESNET, 64, [], SERVERS), 'device_counts must be a list of integers'),
        (strong_scaling, (RESNET, 64, 8, SERVERS), 'device_counts must be a list of integers'),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            call(*arguments)
