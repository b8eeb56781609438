"""What servers, shards, cut layers and pipelines cost: by hand, by counting, against a published
table.
"""

import itertools
import math

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

WIRE = Link('wire', latency=1.0, bandwidth=10.0)
BOARD = Machine('board', 1.0, WIRE)


def test_a_pipeline_waits_as_long_as_its_bubble():
    """GPipe: a stage of one second forward begins one second after the one before it."""
    for stages, micro_batches in itertools.product((1, 2, 4, 8), (1, 2, 8, 32)):
        forward = backward = micro_batches + stages - 1  # seconds until the last stage is done
        waits = 1 - 2 * micro_batches / (forward + backward)
        assert bubble(stages, micro_batches) == pytest.approx(waits)
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
