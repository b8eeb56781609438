"""What servers, shards, cut layers and pipelines cost: by hand, by counting, against a published
table.
"""

import itertools
import math

import pytest

from mgpu_helpers.scaling import LINKS, MODELS, Link, memory_per_device
from mgpu_helpers.scaling.costs import ring, sharded
from mgpu_helpers.scaling.parallel import bubble, parameter_servers, tensor_parallel, zero

WIRE = Link('wire', latency=1.0, bandwidth=10.0)


def played(stages, micro_batches):
    """Play a pipeline, each stage one second forward and one backward; give the idle share."""
    end = {}
    for kind, m, s in itertools.product('fb', range(micro_batches), range(stages)):
        order = s if kind == 'f' else stages - 1 - s  # backward goes the other way
        before = [end.get((kind, m, order - 1 if kind == 'f' else order + 1), 0.0)]
        before += [end[kind, m - 1, order]] if m else []
        before += [end['f', micro_batches - 1, order]] if kind == 'b' else []
        end[kind, m, order] = max(before) + 1
    return 1 - 2 * micro_batches / max(end.values())


def test_a_pipeline_waits_as_long_as_its_bubble():
    for stages, micro_batches in itertools.product((1, 2, 4, 8), (1, 2, 8, 32)):
        assert bubble(stages, micro_batches) == pytest.approx(played(stages, micro_batches))
    assert bubble(8, 8) == 7 / 15 and bubble(8, 56) == 1 / 9


def test_parameter_servers_by_hand():
    # 8 workers, 1 server: 8 arrays in, 8 out, one after the other.
    assert parameter_servers(8, 1, 100, WIRE) == 2 * 8 * (1 + 10)
    assert parameter_servers(8, 4, 100, WIRE) == 2 * 8 * (1 + 2.5)
    assert parameter_servers(2, 4, 100, WIRE) == 2 * 4 * (1 + 2.5)  # now the workers are busiest
    # A server beside each worker sends k slices where the sharded allreduce keeps one: (k - 1).
    assert parameter_servers(8, 8, 100, WIRE) / sharded(8, 100, WIRE) == pytest.approx(8 / 7)


def test_shards_and_cut_layers_by_hand():
    whole = ring(8, 160, WIRE)
    assert [zero(stage, 8, 160, WIRE) / whole for stage in range(4)] == [1, 1, 1, 1.5]
    assert tensor_parallel(2, 3, 20, WIRE) == 12 * ring(2, 20, WIRE) == 12 * 2 * (1 + 1)
    for call, message in (
        (lambda: zero(4, 8, 160, WIRE), "stage must be one of 0, 1, 2, 3, not '4'"),
        (lambda: parameter_servers(8, 0, 1, WIRE), 'servers must be at least 1, not 0'),
        (lambda: tensor_parallel(8, 0, 1, WIRE), 'blocks must be at least 1, not 0'),
        (lambda: bubble(0, 1), 'stages must be at least 1, not 0'),
        (lambda: bubble(1, 0), 'micro_batches must be at least 1, not 0'),
        (lambda: memory_per_device(MODELS['LeNet'], 1, stage=5), 'stage must be one of'),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_memory_of_zero_as_its_authors_publish_it():
    """Rajbhandari and others 2020, table 1: 7.5 billion parameters, 64 GPUs, Adam, in GB."""
    model = MODELS['Llama 3.1 8B']
    scale = 7.5e9 / model.parameters
    for stage, gigabytes in ((0, 120), (1, 31.4), (2, 16.6), (3, 1.88)):
        kept = memory_per_device(model, 1, 3, stage=stage, devices=64)
        assert (kept.total - kept.activations) * scale == pytest.approx(gigabytes * 1e9, rel=0.01)
        assert kept.activations == memory_per_device(model, 1).activations  # no stage shares these


def test_llamas_have_the_published_sizes():
    for size, parameters in (('8B', 8.03e9), ('70B', 70.6e9), ('405B', 405.9e9)):
        model = MODELS[f'Llama 3.1 {size}']
        assert model.parameters == pytest.approx(parameters, rel=0.002)
        assert model.nbytes == 2 * model.parameters
        # Two operations for each parameter and token, the embedding's aside, and the attention's.
        seen = 2 * 8192 * (model.parameters - model.layers[0].parameters)
        assert 1 < model.flops / seen < 1.2
    assert math.isclose(LINKS['8 x 400 Gb IB'].bandwidth, 400e9)
