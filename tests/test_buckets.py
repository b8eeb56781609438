"""Buckets and ``sync_with``: the same training, in fewer messages."""

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, nd

import mgpu_helpers as mgpu
from mgpu_helpers.collectives import allreduce_halving_doubling, allreduce_ring
from mgpu_helpers.collectives.buckets import Bucket, sync_with

SHAPES = [(20, 1, 3, 3), (20,), (50, 20, 5, 5), (50,), (800, 128), (128,), (128, 10), (10,)]


def gradients(k, dtype='float32', shapes=SHAPES, seed=0):
    rng = np.random.default_rng(seed)
    return [
        [nd.array(rng.integers(-9, 9, s), ctx=mx.cpu(c), dtype=dtype) for s in shapes]
        for c in range(k)
    ]


def assert_equal(results, wanted):
    for a, b in zip(results, wanted, strict=True):
        np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())


def test_what_no_bucket_can_hold_is_refused():
    two, there = nd.ones(2), nd.ones(2, ctx=mx.cpu(1))
    for arrays, error, words in (
        ([], ValueError, 'at least one per bucket'),
        ([two, two.astype('float16')], ValueError, r'float16 on cpu\(0\).*a bucket per kind'),
        ([two, there], ValueError, r'cpu\(0\), float32 on cpu\(1\).*a bucket per kind'),
    ):
        with pytest.raises(error, match=words):
            Bucket(arrays)


def test_fewer_messages_with_a_bucket():
    for bucket_bytes, sizes in (
        (1, [int(np.prod(s)) for s in reversed(SHAPES)]),
        (10**6, [129_068]),
        (150_000, [10 + 1280 + 128, 800 * 128, 50 + 25_000 + 20 + 180]),
    ):
        seen = []
        sync_with(lambda data: seen.append(data[0].size), bucket_bytes)(gradients(2))  # noqa: B023
        assert seen == sizes


def test_gradients_that_do_not_match_are_left_alone():
    grads = [[nd.ones(2), nd.ones(3)], [nd.ones(2, ctx=mx.cpu(1)), nd.ones(4, ctx=mx.cpu(1))]]
    for wrong, error, words in (
        ([nd.ones(2)], TypeError, r'grads must be grads\[c\]\[i\]'),
        ([], ValueError, 'at least one gradient per device'),
        ([[nd.ones(2)], []], ValueError, r'numbers of gradients .* not 1, 0'),
        (grads, ValueError, r'shapes of gradient 1 .* \(3,\), \(4,\)'),
    ):
        for bucket_bytes in (1, 100):
            with pytest.raises(error, match=words):
                sync_with(allreduce_ring, bucket_bytes)(wrong)
    assert all((g.asnumpy() == 1).all() for of_one in grads for g in of_one)
    with pytest.raises(ValueError, match='bucket_bytes must be at least 1, not 0'):
        sync_with(allreduce_ring, 0)


def test_training_with_buckets_is_training_with_the_naive_sum_also_where_gradients_live_in_them():
    devices, params = [mx.cpu(i) for i in range(3)], mgpu.init_params(0.1, seed=1, dtype='float64')
    train_iter, _ = mgpu.load_data_fashion_mnist(60, num_examples=180, seed=0, dtype='float64')
    batches, ends = list(train_iter), []
    marked = [mgpu.get_params(params, d) for d in devices]
    buckets = [Bucket(replica) for replica in marked]
    for replica, bucket in zip(marked, buckets, strict=True):
        autograd.mark_variables(replica, bucket.parts)  # no packing is needed
    for sync, replicas in (
        (mgpu.sync_gradients, None),
        (sync_with(allreduce_halving_doubling, 100_000), None),
        (lambda _: allreduce_halving_doubling([b.flat for b in buckets]), marked),
    ):
        replicas = replicas or [mgpu.get_params(params, d) for d in devices]
        for X, y in batches:
            mgpu.train_batch(X, y, replicas, devices, 0.1, sync=sync)
        for replica in replicas[1:]:
            assert_equal(replica, replicas[0])
        ends.append([p.asnumpy() for p in replicas[0]])
    for end in ends[1:]:
        for a, b in zip(ends[0], end, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-14)
