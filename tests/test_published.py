"""Against what others measured: how far off the formulas are is asserted too."""

import numpy as np
import pytest

from mgpu_helpers.scaling import CHIPS, LINKS, MACHINES, MODELS, TRAININGS, gpu_hours, step
from mgpu_helpers.scaling.published import (
    horovod_machine,
    horovod_shares,
    nccl_counts,
    nccl_runs,
    nccl_seconds,
)


def test_scaling_is_between_nothing_and_all_hidden_and_by_how_much():
    found = {name: horovod_shares(name) for name in ('Inception V3', 'ResNet-101', 'VGG-16')}
    # Not a target: no constant was chosen to make it smaller, and the text says what is left out.
    percents = {name: [round(100 * x) for x in of_one.values()] for name, of_one in found.items()}
    assert percents == {
        'Inception V3': [90, 84, 100, 94, 82],
        'ResNet-101': [90, 76, 100, 92, 81],
        'VGG-16': [68, 51, 77, 77, 74],
    }
    fewer = horovod_shares('VGG-16', devices=16)
    # On four servers more arrived than 80% of the label: a point above what should be the limit.
    none, most = fewer['nothing hidden'], fewer['hidden as far as it fits']
    assert none < most < fewer['measured'] == 13.7 / 16
    assert most == pytest.approx(0.845, abs=1e-3)


def test_the_inputs_are_those_of_the_source():
    v100 = MACHINES['p3.16xlarge'].flops  # images a second, operations forward and backward
    assert v100 == 384 * 3 * MODELS['ResNet-50'].flops
    for name, rate in (('Inception V3', 134.4), ('ResNet-101', 119.4), ('VGG-16', 130.9)):
        machine = horovod_machine(name)
        assert 64 / step(MODELS[name], 64, 1, machine).seconds == pytest.approx(rate)
        assert machine.devices_per_server == 4
        assert machine.network == LINKS['25 Gb RoCE'].arriving()
    with pytest.raises(ValueError, match='name must be one of Inception V3, .*, not .*AlexNet'):
        horovod_machine('AlexNet')


def test_nccl_on_machines_of_this_decade():
    """Nothing may be left out where it is far off: 76 arrays, by run and size."""
    rows = nccl_runs()
    off = {}
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
    counts = {(r.run, r.way, r.devices): round(100 * r.error) for r in nccl_counts()}
    assert [counts['H200', 'NVLS', k] for k in (5, 6, 7, 8)] == [2, 0, 0, -1]
    assert [counts['B200', 'NVLS', k] for k in (6, 7, 8)] == [-11, -11, -12]
    assert len(counts) == 17
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
    assert list(off.values()) == [-2, -6, 7, -65, -36, -13]
    assert 3.3e6 == pytest.approx(
        sum(r.gpu_hours for name, r in TRAININGS.items() if 'Llama 2' in name) + 1_038_336, rel=0.01
    )  # with that of 34 billion, whose hours are in the paper: the model card's sum
