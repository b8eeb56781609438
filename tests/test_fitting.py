"""Latency and bandwidth out of measured times."""

import io
import time

import numpy as np
import pytest

from mgpu_helpers.scaling.fitting import SIZES, fit, measure

N = np.array(SIZES)
# 20 µs and 8 GB/s up to 3 MiB, beyond that 50 µs more and 4 GB/s.
TRUE = np.where(N < 3 * 2**20, 20e-6 + N / 8e9, 70e-6 + N / 4e9)


def test_two_lines_are_found_exactly_in_any_order_of_the_sizes():
    shuffled = np.random.default_rng(0).permutation(len(N))
    found = fit([SIZES[i] for i in shuffled], TRUE[shuffled])
    assert list(found.nbytes) == list(SIZES)
    assert (found.cache.alpha, found.cache.bandwidth) == pytest.approx((20e-6, 8e9))
    assert (found.memory.alpha, found.memory.bandwidth) == pytest.approx((70e-6, 4e9))
    assert 2 * 2**20 < found.border < 4 * 2**20
    assert found.worst_error < 1e-9
    unseen = np.array([6000, 9_000_000])
    assert found.seconds(unseen) == pytest.approx([20e-6 + 6000 / 8e9, 70e-6 + 9e6 / 4e9])


def test_every_size_counts_the_same_and_noise_is_survived():
    """One line with two wrong points: least squares of seconds would hit only the large one."""
    times = TRUE.copy()
    times[0] *= 1.3
    times[-1] *= 1.3
    found = fit(SIZES, times)
    assert found.cache.alpha == pytest.approx(20e-6, rel=0.08)
    assert found.errors[0] < -0.1
    assert found.median_error < 0.05
    assert found.worst_error == pytest.approx(abs(found.errors).max())
    for seed in range(5):  # noise of ten percent is survived and reported
        found = fit(SIZES, TRUE * np.random.default_rng(seed).normal(1, 0.1, len(N)))
        assert 0.01 < found.median_error < 0.2
        bandwidths = found.cache.bandwidth, found.memory.bandwidth
        assert bandwidths == pytest.approx((8e9, 4e9), rel=0.5)


def test_alpha_is_never_negative_and_where_lines_cross_the_model_is_continuous():
    times = np.where(N < 2**20, 1e-5 + N / 1e9, N**1.3 / 1e11)  # steeper than any line from above 0
    found = fit(SIZES, times)
    assert found.cache.alpha >= 0 == found.memory.alpha and found.memory.bandwidth > 0
    found = fit(SIZES, np.maximum(100e-6 + N / 20e9, N / 4e9))
    below, above = (found.seconds(found.border * f) for f in (1 - 1e-9, 1 + 1e-9))
    assert below == pytest.approx(above, rel=1e-6)


def test_measurements_that_cannot_be_fitted():
    for sizes, times, message in (
        (SIZES, TRUE[1:], '15 sizes and 14 times'),
        (SIZES[:5], TRUE[:5], '5 different sizes are too few for two lines of at least 3'),
        ([0, *SIZES[1:]], TRUE, 'a size in bytes must be at least 1, not 0'),
        (SIZES, [-1, *TRUE[1:]], 'a time in seconds must be a number above 0, not -1'),
        ([SIZES[1], *SIZES[1:]], TRUE, 'a size stands in the list twice'),
        (SIZES, TRUE[::-1], 'do not grow with the size'),
    ):
        with pytest.raises(ValueError, match=message):
            fit(sizes, times)


def test_plot_and_text_show_every_fit_with_points_and_two_lines():
    first, second = fit(SIZES, TRUE, 'ring'), fit(SIZES, 2 * TRUE, 'naive')
    assert repr(first).startswith('ring, cache: 20 µs + bytes / 8 GB/s, memory: 70 µs + bytes / 4')
    figure = first.plot(second)
    times, errors = figure.axes
    assert (len(times.lines), len(errors.lines)) == (6, 2)
    assert [text.get_text() for text in times.get_legend().texts][:2] == ['ring', 'naive']
    figure.savefig(io.BytesIO())
    with pytest.raises(TypeError, match='compares with fits, not with 3'):
        first.plot(3)


def test_measure_gives_the_shortest_time_of_each_size():
    """Every third call is disturbed: it takes 100 ms longer."""
    calls = []

    def run(nbytes):
        calls.append(nbytes)
        time.sleep(nbytes / 1e6 + 0.1 * (len(calls) % 3 == 0))

    times = measure(run, [1000, 10000], repeats=3)
    assert len(calls) == 12
    assert 0.001 <= times[0] < 0.1
    assert 0.010 <= times[1] < 0.1
    # Its time is up at once: three rounds of two calls there are all the same.
    del calls[:]
    measure(run, [1], repeats=1000, seconds=1e-6)
    assert len(calls) == 6


def test_measure_refuses_before_it_runs(capsys):
    for arguments, kind, message in (
        ((7,), TypeError, 'run must be a function of a number of bytes, not 7'),
        ((print, []), ValueError, 'sizes is empty'),
        ((print, [0]), ValueError, 'each of sizes must be at least 1, not 0'),
        ((print, [1], 0), ValueError, 'repeats must be at least 1, not 0'),
        ((print, [1], 1, 0), ValueError, 'seconds must be a number above 0'),
    ):
        with pytest.raises(kind, match=message):
            measure(*arguments)
    assert capsys.readouterr().out == ''
