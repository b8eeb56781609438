"""Latency and bandwidth out of measured times."""

import io
import time

import numpy as np
import pytest
from PIL import Image

from mgpu_helpers.scaling import ALGORITHMS, Link
from mgpu_helpers.scaling.fitting import SIZES, fit, measure

N = np.array(SIZES)
# 20 µs and 8 GB/s up to 3 MiB, beyond that 50 µs more and 4 GB/s.
TRUE = np.where(N < 3 * 2**20, 20e-6 + N / 8e9, 70e-6 + N / 4e9)


def test_two_lines_are_found_exactly():
    found = fit(SIZES, TRUE)
    assert found.cache.alpha == pytest.approx(20e-6)
    assert found.cache.bandwidth == pytest.approx(8e9)
    assert found.memory.alpha == pytest.approx(70e-6)
    assert found.memory.bandwidth == pytest.approx(4e9)
    assert 2 * 2**20 < found.border < 4 * 2**20
    assert found.worst_error < 1e-9
    assert found.seconds(8 * 2**20) == pytest.approx(70e-6 + 8 * 2**20 / 4e9)
    assert found.seconds(SIZES[0]) == pytest.approx(20e-6 + SIZES[0] / 8e9)


def test_every_size_counts_the_same():
    """One line with two wrong points: least squares of seconds would hit only the large one."""
    times = TRUE.copy()
    times[0] *= 1.3
    times[-1] *= 1.3
    found = fit(SIZES, times)
    assert found.cache.alpha == pytest.approx(20e-6, rel=0.08)
    assert found.errors[0] < -0.1
    assert found.median_error < 0.05
    assert found.worst_error == pytest.approx(abs(found.errors).max())


@pytest.mark.parametrize('seed', range(5))
def test_noise_of_ten_percent_is_survived_and_reported(seed):
    noise = np.random.default_rng(seed).normal(1, 0.1, len(N))
    found = fit(SIZES, TRUE * noise)
    assert 0.01 < found.median_error < 0.2
    assert found.cache.bandwidth == pytest.approx(8e9, rel=0.5)
    assert found.memory.bandwidth == pytest.approx(4e9, rel=0.5)


def test_sizes_that_were_held_out_are_predicted():
    found = fit(SIZES[::2], TRUE[::2], 'every other size')
    unseen = found.against(SIZES[1::2], TRUE[1::2], 'the rest')
    assert unseen.cache == found.cache
    assert len(unseen.errors) == 7
    assert unseen.label == 'the rest'
    assert unseen.median_error < 0.01
    wrong = found.against(SIZES[1::2], 2 * TRUE[1::2])
    assert wrong.median_error == pytest.approx(0.5, abs=0.01)


def test_order_of_the_sizes_does_not_matter():
    shuffled = np.random.default_rng(0).permutation(len(N))
    found = fit([SIZES[i] for i in shuffled], TRUE[shuffled])
    assert found.cache.alpha == pytest.approx(20e-6)
    assert list(found.nbytes) == list(SIZES)


def test_alpha_is_never_negative():
    times = np.where(N < 2**20, 1e-5 + N / 1e9, N**1.3 / 1e11)  # steeper than any line from above 0
    found = fit(SIZES, times)
    assert found.cache.alpha >= 0
    assert found.memory.alpha == 0
    assert found.memory.bandwidth > 0


def test_where_the_lines_cross_the_model_is_continuous():
    times = np.maximum(100e-6 + N / 20e9, N / 4e9)
    found = fit(SIZES, times)
    below, above = (found.seconds(found.border * f) for f in (1 - 1e-9, 1 + 1e-9))
    assert below == pytest.approx(above, rel=1e-6)


@pytest.mark.parametrize('algorithm', ALGORITHMS)
@pytest.mark.parametrize('devices', [2, 5])
def test_link_from_one_algorithm_gives_its_formula_back(algorithm, devices):
    """What was fitted is the whole allreduce; the link is what a single message takes."""
    link = Link('true', 5e-6, 3e9)
    times = [ALGORITHMS[algorithm](devices, n, link) for n in SIZES]
    for regime in ('cache', 'memory'):
        got = fit(SIZES, times, algorithm).link(algorithm, devices, regime)
        assert got.latency == pytest.approx(5e-6, rel=1e-3)
        assert got.bandwidth == pytest.approx(3e9, rel=1e-6)


def test_link_predicts_another_algorithm():
    link = Link('true', 5e-6, 3e9)
    found = fit(SIZES, [ALGORITHMS['naive'](4, n, link) for n in SIZES]).link('naive', 4)
    assert ALGORITHMS['ring'](4, 10**7, found) == pytest.approx(
        ALGORITHMS['ring'](4, 10**7, link), rel=1e-3
    )


@pytest.mark.parametrize(
    'arguments, message',
    [
        (('quantum', 2), "no formula for 'quantum': choose one of naive"),
        (('ring', 1), 'devices must be at least 2, not 1'),
        (('ring', 2, 'disk'), "regime must be 'cache' or 'memory', not 'disk'"),
    ],
)
def test_link_of_nothing_known_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        fit(SIZES, TRUE).link(*arguments)


@pytest.mark.parametrize(
    'sizes, times, message',
    [
        (SIZES, TRUE[1:], '15 sizes and 14 times'),
        (SIZES[:5], TRUE[:5], '5 different sizes are too few for two lines of at least 3'),
        ([], [], 'no size was measured'),
        ([0, *SIZES[1:]], TRUE, 'a size in bytes must be at least 1, not 0'),
        (SIZES, [-1, *TRUE[1:]], 'a time in seconds must be a number above 0, not -1'),
        (SIZES, [float('nan'), *TRUE[1:]], 'a time in seconds must be a number above 0, not nan'),
        ([SIZES[1], *SIZES[1:]], TRUE, 'a size stands in the list twice'),
        (SIZES, TRUE[::-1], 'do not grow with the size'),
    ],
)
def test_measurements_that_cannot_be_fitted(sizes, times, message):
    with pytest.raises(ValueError, match=message):
        fit(sizes, times)


def test_table_and_text_show_prediction_and_errors():
    found = fit(SIZES, TRUE, 'ring')
    rows = found.table().rows
    assert rows[0] == ['4 kB', '20.5 µs', '20.5 µs', '+0%', 'cache']
    assert rows[-1] == ['65.5 MB', '16.5 ms', '16.5 ms', '+0%', 'memory']
    assert repr(found).startswith('ring, cache: 20 µs + bytes / 8 GB/s, memory: 70 µs + bytes / 4')


def test_plot_shows_every_fit_with_points_and_two_lines():
    first, second = fit(SIZES, TRUE, 'ring'), fit(SIZES, 2 * TRUE, 'naive')
    figure = first.plot(second)
    times, errors = figure.axes
    assert len(times.lines) == 6
    assert len(errors.lines) == 2
    assert [text.get_text() for text in times.get_legend().texts] == ['ring', 'naive']
    picture = io.BytesIO()
    figure.savefig(picture, format='png')
    assert len(Image.open(picture).convert('L').getcolors()) > 10


def test_plot_compares_fits_only():
    with pytest.raises(TypeError, match='compares with fits, not with 3'):
        fit(SIZES, TRUE).plot(3)


def test_measure_gives_the_shortest_time_of_each_size():
    """Every third call is disturbed: it takes 200 ms longer."""
    calls = []

    def run(nbytes):
        calls.append(nbytes)
        time.sleep(nbytes / 1e6 + 0.2 * (len(calls) % 3 == 0))

    times = measure(run, [1000, 10000], repeats=3)
    assert len(calls) == 12
    assert 0.001 <= times[0] < 0.2
    assert 0.010 <= times[1] < 0.2


def test_measure_stops_when_its_time_is_up_but_not_before_three_rounds():
    calls = []
    measure(lambda nbytes: calls.append(time.sleep(0.01)), [1], repeats=1000, seconds=1e-6)
    assert len(calls) == 6


@pytest.mark.parametrize(
    'arguments, kind, message',
    [
        ((7,), TypeError, 'run must be a function of a number of bytes, not 7'),
        ((print, []), ValueError, 'there is no size to measure'),
        ((print, [0]), ValueError, 'a size in bytes must be at least 1, not 0'),
        ((print, [1.5]), TypeError, 'a size in bytes must be an integer'),
        ((print, [1], 0), ValueError, 'repeats must be at least 1, not 0'),
        ((print, [1], 1, 0), ValueError, 'seconds must be a number above 0'),
    ],
)
def test_measure_refuses_before_it_runs(arguments, kind, message, capsys):
    with pytest.raises(kind, match=message):
        measure(*arguments)
    assert capsys.readouterr().out == ''
