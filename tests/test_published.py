"""Against what others calculated and measured: how far off the formulas are is asserted too."""

import pytest

from mgpu_helpers.scaling import (
    LINKS,
    MODELS,
    horovod_machine,
    published_scaling,
    published_table,
    published_times,
    step_seconds,
)

TIMES = {c.what: c for c in published_times()}
SHARES = {c.what: c for c in published_scaling()}
HOROVOD = [c for c in SHARES.values() if 'Horovod' in c.source]


@pytest.mark.parametrize(
    'what, milliseconds',
    [('gathered on one GPU', 60), ('through the CPU', 80), ('sharded four ways', 15)],
)
def test_160_megabytes_over_pcie(what, milliseconds):
    assert TIMES[what].published == milliseconds / 1000
    # 0.3 %: the source leaves latencies out, six of 5.7 microseconds in 15 ms
    assert TIMES[what].predicted == pytest.approx(milliseconds / 1000, rel=0.003)
    assert TIMES[what].predicted > TIMES[what].published


def test_160_megabytes_around_a_ring_of_eight():
    found = TIMES['ring']
    without = 2 * 160e6 / (3 * 18e9)  # what the source calculates, and calls approximately 6 ms
    assert round(1000 * without) == 1000 * found.published == 6
    # The ring moves (k-1)/k of that; 1 %: fourteen latencies of 3.4 microseconds, left out there.
    assert found.predicted == pytest.approx(without * 7 / 8, rel=0.01)
    # So ours is 13 % below the published figure: 7/8, and 1 % because that is rounded up.
    assert found.error == pytest.approx(7 / 8 * 5.926 / 6 * 1.009 - 1, abs=0.002)
    assert '7/8' in found.note


def test_the_512_gpus_of_horovod_are_there():
    published = {c.what: c.published for c in HOROVOD if '512' in c.what}
    assert published == {
        'Inception V3, 512 GPUs': 0.90,
        'ResNet-101, 512 GPUs': 0.90,
        'VGG-16, 512 GPUs': 0.68,
    }


@pytest.mark.parametrize('found', HOROVOD, ids=lambda c: c.what)
def test_horovod_lies_between_all_hidden_and_nothing_hidden(found):
    assert found.unhidden < found.published < found.predicted


def test_the_formula_is_too_good_and_by_how_much():
    # Not a target: this is how far off it is, and the text says what it leaves out. No constant
    # was chosen to make it smaller.
    assert {c.what: round(100 * c.error) for c in HOROVOD} == {
        'Inception V3, 16 GPUs': 7,
        'ResNet-101, 16 GPUs': 10,
        'VGG-16, 16 GPUs': 15,
        'Inception V3, 128 GPUs': 11,
        'ResNet-101, 128 GPUs': 11,
        'VGG-16, 128 GPUs': 17,
        'Inception V3, 512 GPUs': 11,
        'ResNet-101, 512 GPUs': 11,
        'VGG-16, 512 GPUs': 25,
    }


def test_the_formula_finds_the_network_that_scales_worst():
    for devices in (16, 128, 512):
        at = {c.what.split(',')[0]: c for c in HOROVOD if f' {devices} GPUs' in c.what}
        for figure in ('predicted', 'published', 'unhidden'):
            assert min(at, key=lambda name: getattr(at[name], figure)) == 'VGG-16'
    vgg = [c.predicted for c in HOROVOD if 'VGG' in c.what]
    assert vgg == sorted(vgg, reverse=True)


def test_eight_gpus_of_mxnet():
    found = SHARES['ResNet-50, 8 GPUs']
    assert found.published == pytest.approx(0.9775)
    # Below even what is left if nothing is hidden: it is not the allreduce that costs the 2 %.
    assert found.published < found.unhidden < found.predicted
    assert found.error == pytest.approx(0.023, abs=0.001)


def test_one_gpu_is_as_fast_as_measured():
    for name, rate in (('Inception V3', 134.4), ('ResNet-101', 119.4), ('VGG-16', 130.9)):
        seconds = step_seconds(MODELS[name], 64, 1, horovod_machine(name))
        assert 64 / seconds == pytest.approx(rate)


def test_the_inputs_are_those_of_the_source():
    machine = horovod_machine('VGG-16')
    assert machine.devices_per_server == 4
    assert machine.network is LINKS['25 Gb RoCE']
    assert machine.network.bandwidth == 25e9 / 8
    assert SHARES['VGG-16, 512 GPUs'].inputs == '553 MB in 4, 130.9 images/s'


def test_in_levels_the_order_stays():
    found = {c.what: c for c in published_scaling('hierarchical')}
    assert found['VGG-16, 512 GPUs'].published < found['VGG-16, 512 GPUs'].predicted
    assert found['VGG-16, 512 GPUs'].predicted < found['ResNet-101, 512 GPUs'].predicted
    assert found['VGG-16, 512 GPUs'].predicted != SHARES['VGG-16, 512 GPUs'].predicted


def test_the_tables_show_the_error():
    table = published_table(published_times())
    assert table.rows[3][2:6] == ['6 ms', '5.23 ms', '13% less', 'the source has no (k-1)/k = 7/8']
    table = published_table(published_scaling())
    row = next(row for row in table.rows if row[0] == 'VGG-16, 512 GPUs')
    assert row[2:6] == ['68%', '54%', '85%', '25% more']
    assert 'its error' in table.headers and 'source' in table.headers
    assert all(row[-1] for row in table.rows)


def test_times_and_efficiencies_are_not_mixed():
    with pytest.raises(ValueError, match='make a table of each'):
        published_table([*published_times(), *published_scaling()])


def test_bad_names():
    with pytest.raises(ValueError, match='name must be one of Inception V3, .*, not .*AlexNet'):
        horovod_machine('AlexNet')
    with pytest.raises(ValueError, match='algorithm must be one of .*hierarchical, not .*star'):
        published_scaling('star')
