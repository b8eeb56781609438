"""Simulated training steps: what is hidden, what is exposed, and who waits."""

import pytest

from mgpu_helpers.scaling import (
    COSTS,
    MACHINES,
    MODELS,
    Layer,
    Link,
    Machine,
    Model,
    simulate,
    step,
)

# Two seconds for 100 bytes over a ring of two: 2 * (0.5 + 50 / 100). Four for 300 bytes. A batch
# of 10 computes for one second forward in each layer, and for two seconds backward.
LINK = Link('example', latency=0.5, bandwidth=100.0)
TWO = Machine('example', flops=10.0, link=LINK)
TOY = Model('toy', [Layer('first', 25, 1.0), Layer('second', 75, 1.0)])


def test_buckets_travel_during_the_backward_pass():
    """Forward until 2. The second layer's gradient is there at 4 and travels until 8, the first's
    is there at 6, waits for the network, and travels from 8 to 10.
    """
    run = simulate(TOY, 10, 2, TWO, bucket_bytes=1)
    assert (run.seconds, run.alone, run.efficiency) == pytest.approx((10, 6, 6 / 10))
    # Both in one bucket, 400 bytes, complete at 6: 2 * (0.5 + 200 / 100) = 5 seconds.
    for bucket_bytes, seconds in ((399, 10), (400, 11), (10**9, 11)):
        run = simulate(TOY, 10, 2, TWO, bucket_bytes=bucket_bytes)
        assert run.seconds == pytest.approx(seconds)
    slow = Machine('example', flops=10.0, link=LINK, overhead=0.25)
    run = simulate(TOY, 10, 2, slow, bucket_bytes=1)
    assert (run.seconds, run.alone) == pytest.approx((0.25 + 10, 0.25 + 6))
    # Pooling in front sends nothing, and prolongs the backward pass to 8.5: 2 seconds more fit.
    pool = Model('pool', [Layer('pool', 0, 0.5), *TOY.layers])
    run = simulate(pool, 10, 2, TWO, bucket_bytes=1)
    assert (run.alone, run.seconds) == pytest.approx((7.5, 10.5))
    alone = simulate(TOY, 10, 1, TWO)
    assert alone.seconds == alone.alone == 6


def test_all_in_one_bucket_it_is_the_closed_form_and_in_several_between_the_ideal_and_that():
    machine = MACHINES['p3.16xlarge']
    for name, algorithm, devices in (
        ('LeNet', 'tree', 8),
        ('VGG-16', 'naive', 64),
        ('ResNet-50', 'hierarchical', 64),
        ('ResNet-50', 'ring', 1),
    ):
        run = simulate(MODELS[name], 32, devices, machine, algorithm, bucket_bytes=1e12)
        formula = step(MODELS[name], 32, devices, machine, algorithm, overlap=False)
        assert run.seconds == pytest.approx(formula.seconds, rel=1e-9)
    # The closed form lets every byte travel as soon as there is any time left: the best case.
    for model in (MODELS[name] for name in ('VGG-16', 'ResNet-101')):
        bucketed, last = (
            simulate(model, 32, 64, machine, bucket_bytes=size).seconds
            for size in (model.nbytes / 4, 1e12)
        )
        assert step(model, 32, 64, machine).seconds <= bucketed < last


def test_stragglers_keep_the_mean_and_everybody_waits_for_the_slowest():
    communication = COSTS['ring'](4, 400, LINK)
    run = simulate(TOY, 10, 4, TWO, spread=0.3, steps=5000, bucket_bytes=1e9)
    # The largest of four lies about one spread above the mean (1.03, if normal).
    assert run.seconds - communication == pytest.approx(6 * (1 + 1.03 * 0.3), rel=0.05)
    a, b, c = (simulate(TOY, 10, 4, TWO, spread=0.3, seed=seed).seconds for seed in (1, 1, 2))
    assert a == b != c
    # Whoever is slow stays so: all steps are as long as the first.
    one, many = (
        simulate(TOY, 10, 4, TWO, spread=0.3, lasting=True, steps=steps).seconds
        for steps in (1, 50)
    )
    assert one == pytest.approx(many)
    assert simulate(TOY, 10, 4, TWO, spread=0.3, steps=50).seconds != many
    # More devices wait longer.
    steps = [simulate(TOY, 10, k, TWO, spread=0.1, steps=50).seconds for k in (1, 8, 64, 512)]
    assert steps == sorted(steps) and steps[0] == pytest.approx(6, rel=0.05)


def test_simulate_refuses_bad_input():
    given = {'model': TOY, 'batch': 10, 'devices': 2, 'machine': TWO}
    for changed, kind, message in (
        ({'steps': 10**8}, ValueError, 'devices times steps must be at most 100000000'),
        ({'spread': -0.1}, ValueError, 'spread must be a number of at least 0, not -0.1'),
        ({'spread': 1.5}, ValueError, 'spread must be a fraction of the mean, at most 1, not 1.5'),
        ({'bucket_bytes': 0}, ValueError, 'bucket_bytes must be a number above 0, not 0'),
        ({'machine': LINK}, TypeError, 'machine must be a Machine'),
        ({'model': 'ResNet'}, TypeError, "such as MODELS.*, not 'ResNet'"),
    ):
        with pytest.raises(kind, match=message):
            simulate(**given | changed)
