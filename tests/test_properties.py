"""What holds for any number of devices, any shape and any order: drawn, and shrunk where it fails.

MGPU_EXAMPLES=5000 draws that many of each, anew every time; without it, the same few.
"""

import os
from itertools import pairwise

import mxnet as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mxnet import nd

import mgpu_helpers as mgpu
from mgpu_helpers.cluster.shards import shard
from mgpu_helpers.collectives import OURS, fill_buckets
from mgpu_helpers.collectives.buckets import sync_with
from mgpu_helpers.collectives.messages import count

many = int(os.environ.get('MGPU_EXAMPLES', 0))
drawn = settings(max_examples=many or 30, derandomize=not many, deadline=None, database=None)
devices = st.integers(1, 9).flatmap(lambda k: st.permutations(range(9)).map(lambda d: d[:k]))
shapes = st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple)
names = st.sampled_from(sorted(OURS))
types = st.sampled_from(['float16', 'float32', 'float64'])


def whole(seed, shape, dtype):
    """Whole numbers, whose sums are exact in any order, in float16 too."""
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(dtype)


@drawn
@given(devices, st.integers(1, 40), st.lists(st.integers(1, 3), max_size=3), types)
def test_split_covers_the_batch_in_order_and_keeps_labels_beside_their_examples(d, n, rest, dtype):
    places = [mx.cpu(i) for i in d]
    X, y = whole(n, (n, *rest), dtype), np.arange(n, dtype=dtype)
    Xs, ys = mgpu.split_batch(nd.array(X, dtype=dtype), nd.array(y, dtype=dtype), places)
    busy = min(n, len(d))
    for shards, all_of_it in ((Xs, X), (ys, y)):
        sizes = [len(s) for s in shards]
        assert sizes == sorted(sizes, reverse=True) and sizes[0] - sizes[-1] <= 1
        assert [s.context for s in shards] == places[:busy]
        assert np.array_equal(np.concatenate([s.asnumpy() for s in shards]), all_of_it)


@drawn
@given(names, devices, shapes, types, st.integers(0, 2**32))
def test_an_allreduce_leaves_the_sum_on_all_devices_views_of_larger_arrays_too(
    name, d, shape, dtype, seed
):
    values = whole(seed, (len(d), *shape), dtype)
    larger = [nd.ones((shape[0] + 2, *shape[1:]), mx.cpu(i), dtype) for i in d]
    data = [x[1:-1] for x in larger]
    for x, value in zip(data, values, strict=True):
        x[:] = nd.array(value, x.context, dtype)
    assert OURS[name](data) is None
    for x, around in zip(data, larger, strict=True):
        assert np.array_equal(x.asnumpy(), values.sum(0)) and x.dtype == np.dtype(dtype).type
        assert (around[0].asnumpy() == 1).all() and (around[-1].asnumpy() == 1).all()


@drawn
@given(names, devices, shapes, st.integers(0, 2**32))
def test_all_devices_have_the_same_bits_also_of_sums_that_are_rounded(name, d, shape, seed):
    values = np.random.default_rng(seed).normal(size=(len(d), *shape)).astype('float32')
    data = [nd.array(v, mx.cpu(i)) for i, v in zip(d, values, strict=True)]
    OURS[name](data)
    for x in data:
        assert np.array_equal(x.asnumpy(), data[0].asnumpy())
    error = abs(data[0].asnumpy() - values.astype('float64').sum(0))
    assert (error <= 1e-6 * abs(values).sum(0)).all()


@drawn
@given(names, st.integers(1, 40), st.integers(1, 3000))
def test_what_is_sent_and_added(name, k, n):
    found = count(OURS[name], k, n)  # refuses what leaves no sum
    sent = found.matrix()
    assert not sent.diagonal().any() and sent.sum() >= 4 * 2 * (k - 1) * n * (name != 'butterfly')
    if name != 'butterfly':  # which adds the same in several places, to send less often
        assert sum(found.additions.values()) == (k - 1) * n and sent.sum() == 4 * 2 * (k - 1) * n
    if name == 'ring':  # a device sends to its neighbour only
        assert all((i + 1) % k == j for i, j in zip(*sent.nonzero(), strict=True))
        assert n % k or found.busiest * k == sent.sum()  # all ports carry the same


@drawn
@given(st.lists(st.integers(0, 10**9), max_size=40), st.integers(1, 10**9))
def test_buckets_are_filled_from_the_last_layer(sizes, limit):
    buckets = fill_buckets(sizes, limit)
    assert sum(buckets, []) == [*reversed(range(len(sizes)))]
    assert all(len(b) == 1 or sum(sizes[i] for i in b) <= limit for b in buckets)
    for early, late in pairwise(buckets):
        assert sum(sizes[i] for i in early) + sizes[late[0]] > limit


@drawn
@given(names, devices, st.lists(shapes, min_size=1, max_size=6), types, st.integers(1, 3000))
def test_every_way_to_sync_gives_the_same_sums(name, d, of, dtype, limit):
    values = [[whole([c, i], s, dtype) for i, s in enumerate(of)] for c in d]
    grads = [[nd.array(v, mx.cpu(c), dtype) for v in row] for c, row in zip(d, values, strict=True)]
    sync_with(OURS[name], limit)(grads)
    for row in grads:
        for g, parts in zip(row, zip(*values, strict=True), strict=True):
            assert np.array_equal(g.asnumpy(), sum(parts))


@drawn
@given(st.integers(0, 2000), st.integers(1, 300))
def test_workers_share_each_example_once_and_evenly(n, k):
    shards = [shard(range(n), rank, k) for rank in range(k)]
    assert [i for part in shards for i in part] == list(range(n))
    assert {len(part) for part in shards} <= {n // k, -(-n // k)}


@drawn
@given(st.integers(0, 40), st.integers(1, 20))
def test_pipelines_never_wait_in_a_circle(micro_batches, stages):
    pytest.importorskip('torch')
    from mgpu_helpers.pytorch.model_parallel import pipeline

    for schedule in (pipeline.gpipe_order, pipeline.one_f_one_b_order):
        orders = [schedule(micro_batches, stage, stages) for stage in range(stages)]
        done, at = set(), [0] * stages
        while len(done) < 2 * micro_batches * stages:
            before = len(done)
            for stage, order in enumerate(orders):
                while at[stage] < len(order):
                    kind, i = order[at[stage]]
                    there = stage - pipeline.TO[kind]  # whose result it needs
                    if kind == 'backward' and ('forward', i, stage) not in done:
                        break
                    if 0 <= there < stages and (kind, i, there) not in done:
                        break
                    assert (kind, i, stage) not in done
                    done.add((kind, i, stage))
                    at[stage] += 1
            assert len(done) > before
