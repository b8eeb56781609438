"""Latency and bandwidth out of measured times."""

import time

import numpy as np
import pytest

from mgpu_helpers.scaling.fitting import SIZES, fit_link, measure

N = np.array(SIZES)
TWICE = [2] * len(N)
TRUE = 2 * (20e-6 + N / 8e9)  # two messages of 20 µs at 8 GB/s


def test_a_link_is_found_exactly_in_any_order_of_the_sizes_and_of_any_numbers_of_messages():
    sizes, times, messages = [*N, *N], [*TRUE, *(4 * TRUE)], [*TWICE, *[8] * len(N)]
    for order in (range(len(N)), np.random.default_rng(0).permutation(2 * len(N))):
        link = fit_link(*([values[i] for i in order] for values in (sizes, times, messages)))
        assert (link.latency, link.bandwidth) == pytest.approx((20e-6, 8e9))


def test_every_size_counts_the_same_and_noise_is_survived():
    """With a wrong point at both ends: least squares of seconds would hit only the large one."""
    times = TRUE.copy()
    times[[0, -1]] *= 1.3
    assert fit_link(SIZES, times, TWICE).latency == pytest.approx(20e-6, rel=0.15)
    for seed in range(5):
        noise = np.random.default_rng(seed).normal(1, 0.1, len(N))
        link = fit_link(SIZES, TRUE * noise, TWICE)
        assert (link.latency, link.bandwidth) == pytest.approx((20e-6, 8e9), rel=0.3)
    link = fit_link(SIZES, N**1.3 / 1e11, TWICE)  # steeper than any line from above 0
    assert link.latency == 1e-9 and link.bandwidth > 0


def test_measurements_that_cannot_be_fitted():
    for sizes, times, messages, words in (
        (SIZES, TRUE[1:], TWICE, '6 sizes, 5 times and 6 numbers of messages: give three'),
        (SIZES[:2], TRUE[:2], TWICE[:2], '2 sizes, 2 times and 2 numbers of messages: give three'),
        ([0, *SIZES[1:]], TRUE, TWICE, 'a size in bytes must be at least 1, not 0'),
        (SIZES, [-1, *TRUE[1:]], TWICE, 'a time in seconds must be a number above 0, not -1'),
        ([SIZES[0]] * 6, TRUE, TWICE, 'three different sizes'),
        (SIZES, TRUE, [0] * 6, 'messages must be at least 1, not 0'),
        (SIZES, TRUE[::-1], TWICE, 'do not grow with the size'),
    ):
        with pytest.raises(ValueError, match=words):
            fit_link(sizes, times, messages)


def test_measure_gives_the_shortest_time_of_each_size():
    """Every third call is disturbed: it takes 100 ms longer."""
    calls = []

    def run(nbytes):
        calls.append(nbytes)
        time.sleep(nbytes / 1e6 + 0.1 * (len(calls) % 3 == 0))

    times = measure({'slow': run, 'again': run}, [1000, 10000], repeats=3)
    assert len(calls) == 24 and list(times) == ['slow', 'again']
    for small, large in times.values():
        assert 0.001 <= small < 0.1 and 0.010 <= large < 0.1
    # Its time is up at once: three rounds of two calls there are all the same.
    del calls[:]
    measure({0: run}, [1], repeats=1000, seconds=1e-6)
    assert len(calls) == 6


def test_measure_refuses_before_it_runs(capsys):
    for arguments, kind, message in (
        (({'a': print}, []), ValueError, 'sizes must be .*at least one, not'),
        (({'a': print}, [0]), ValueError, 'each of sizes must be at least 1, not 0'),
        (({'a': print}, [1], 0), ValueError, 'repeats must be at least 1, not 0'),
        (({'a': print}, [1], 1, 0), ValueError, 'seconds must be a number above 0'),
    ):
        with pytest.raises(kind, match=message):
            measure(*arguments)
    assert capsys.readouterr().out == ''
