"""Against what others measured: how far off the formulas are is asserted too."""

import numpy as np
import pytest

from mgpu_helpers.scaling import MACHINES, MODELS
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
