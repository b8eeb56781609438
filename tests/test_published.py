"""Against what others measured: how far off the formulas are is asserted too."""

import numpy as np
import pytest

from mgpu_helpers.scaling import (
    CHIPS,
    MACHINES,
    MODELS,
    TRAININGS,
    gpu_hours,
    tensor_parallel_seconds,
)
from mgpu_helpers.scaling.published import nccl_runs, nccl_seconds


def test_the_inputs_are_those_of_the_source():
    v100 = MACHINES['p3.16xlarge'].flops  # images a second, operations forward and backward
    assert v100 == 384 * 3 * MODELS['ResNet-50'].flops


def test_nccl_on_machines_of_this_decade():
    """Nothing may be left out where it is far off: 76 arrays, by run and size."""
    rows = nccl_runs()
    off, buckets = {}, {}
    for run in dict.fromkeys(row.run for row in rows):
        for least, most in ((0, 2**20), (2**20, 2**27), (2**27, 2**40)):
            here = [r.error for r in rows if r.run == run and least < r.nbytes <= most]
            off.setdefault(run, []).append((len(here), round(100 * np.median(np.abs(here)))))
    assert off == {
        '8 H200': [(6, 43), (7, 35), (7, 1)],
        '8 A100': [(6, 23), (7, 22), (7, 3)],
        '4 x 8 B200': [(6, 38), (7, 25), (7, 19)],
        '2 x 8 A100': [(6, 53), (7, 52), (3, 21)],
    }
    for row in rows:
        if row.nbytes == 2**25:
            share = row.bus_bandwidth / row.label
            buckets[row.run] = round(100 * share), round(row.measured / row.predicted, 2)
    assert buckets == {
        '8 H200': (61, 1.43),
        '8 A100': (46, 1.41),
        '4 x 8 B200': (23, 1.47),
        '2 x 8 A100': (41, 1.82),
    }
    # By hand: the start, 14 steps of 3.4 µs, and 7/4 of the bytes, of which 360 GB/s arrive.
    seconds = 8.4e-6 + 14 * 3.4e-6 + 1.75 * 32768 / 360e9
    assert nccl_seconds(8, 32768, MACHINES['DGX H100']) == pytest.approx(seconds)
    # Between servers 2 of 30 steps are the network's, all bytes too.
    seconds = 8.4e-6 + 28 * 3.4e-6 + 2 * 14e-6 + 2 * 15 / 16 * 2**30 / 40e9
    assert nccl_seconds(16, 2**30, MACHINES['p4d.24xlarge']) == pytest.approx(seconds)
    seconds = 25e-6 + 9 / 8 * 2**30 / (0.68 * 450e9)
    assert nccl_seconds(8, 2**30, MACHINES['DGX H100'], 'NVLS') == pytest.approx(seconds)


def test_trainings_whose_hours_were_published():
    off = {}
    for name, run in TRAININGS.items():
        found = gpu_hours(run.parameters, run.tokens, CHIPS[run.chip].flops, 0.4)
        off[name] = round(100 * (found / run.gpu_hours - 1))
    assert list(off.values()) == [-2, -6, 7, -13, -13, -34, -36, -65]
    assert 3.3e6 == pytest.approx(
        sum(r.gpu_hours for name, r in TRAININGS.items() if 'Llama 2' in name) + 1_038_336, rel=0.01
    )  # with that of 34 billion, whose hours are in the paper: the model card's sum


def test_a_step_and_a_bill_of_llama_70b():
    """torchtitan, June 2025: 256 H100, 16 sequences a server, all activations computed again."""
    model, dgx = MODELS['Llama 3.1 70B'], MACHINES['DGX H100']
    tokens = 16 * 8192 / 8
    sums = 6 / 4 * tensor_parallel_seconds(8, 80, 2 * 16 * 8192 * 8192, dgx)
    seconds = 4 * 16 / 8 * model.flops / dgx.flops + sums
    assert tokens / seconds == pytest.approx(597.3, rel=0.1)
    assert 0.4 * sums < tokens / 597.3 - tokens / 652.4 < 0.6 * sums
    hours = 15e12 * seconds / tokens / 3600
    assert hours == pytest.approx(TRAININGS['Llama 3.1 70B'].gpu_hours, rel=0.1)


def test_attention_beside_6pd():
    for name, added, in_all in (('8B', 13.4, 6.8), ('70B', 7.6, 6.1), ('405B', 4.2, 3.6)):
        model = MODELS[f'Llama 3.1 {name}']
        simple = 6 * 8192 * model.parameters
        multiplied = simple - 6 * 8192 * model.layers[0].parameters
        found = 3 * model.flops - multiplied, 3 * model.flops - simple
        assert [round(100 * x / simple, 1) for x in found] == [added, in_all]
