"""Chapter 1's functions: k devices equal one, on the data that a reader has."""

import mxnet as mx
import numpy as np
from mxnet import autograd, nd

import mgpu_helpers as mgpu

DEVICES = [mx.cpu(i) for i in range(5)]


def replicas(k, **start):
    params = mgpu.init_params(**start)
    return [mgpu.get_params(params, d) for d in DEVICES[:k]]


def test_gradient_is_the_exact_mean_uneven_or_with_devices_that_have_no_example():
    for n, k in [(6, 2), (5, 3), (2, 4)]:
        X = nd.random.uniform(shape=(n, 1, 28, 28), dtype='float64')
        y = nd.arange(n, dtype='float64')
        start = {'scale': 0.1, 'seed': 2, 'dtype': 'float64'}
        (params,), several = replicas(1, **start), replicas(k, **start)
        with autograd.record():
            mean = mgpu.loss(mgpu.lenet(X, params), y).mean()
        mean.backward()
        for p in sum(several, []):  # a gradient left over from another batch must not be added
            p.grad[:] = 5
        assert len(mgpu.train_batch(X, y, several, DEVICES[:k], lr=1.0)) == min(n, k)
        for replica in several:
            for before, after in zip(params, replica, strict=True):
                expected = (before - before.grad).asnumpy()
                np.testing.assert_allclose(after.asnumpy(), expected, rtol=1e-10, atol=1e-15)


def test_start_has_the_sources_shapes_is_the_same_under_a_seed_and_is_copied():
    params = mgpu.init_params(seed=0)
    assert [p.shape for p in params] == [
        (20, 1, 3, 3), (20,), (50, 20, 5, 5), (50,), (800, 128), (128,), (128, 10), (10,),
    ]  # fmt: skip
    assert 0.009 < params[4].asnumpy().std() < 0.011
    assert not params[1].asnumpy().any()
    first, again, free = (mgpu.init_params(seed=s)[0].asnumpy() for s in (4, 4, None))
    assert np.array_equal(first, again) and not np.array_equal(first, free)
    copy = mgpu.get_params(params, mx.cpu(0))
    copy[0][:] = 0
    assert params[0].asnumpy().any() and copy[0].grad.shape == copy[0].shape


def test_accuracy_counts_each_test_example_once():
    """10,000 = 39 × 256 + 16: a padded last batch would count 240 examples twice."""
    _, test_iter = mgpu.load_data_fashion_mnist(256, num_examples=256)
    labels = np.concatenate([y.asnumpy() for _, y in test_iter])
    always_3 = mgpu.evaluate_accuracy(
        lambda X: nd.one_hot(nd.full((len(X),), 3, ctx=X.context), 10), test_iter, mx.cpu(1)
    )
    assert len(labels) == 10000 and always_3 == (labels == 3).mean()


def test_iterators_give_arrays_of_the_asked_type():
    for dtype in ('float32', 'float64'):
        train_iter, test_iter = mgpu.load_data_mnist(100, num_examples=250, seed=0, dtype=dtype)
        batches = list(train_iter)
        assert len(train_iter) == 3 and len(test_iter) == 100
        assert [len(y) for _, y in batches] == [100, 100, 50]
        X, y = batches[0]
        assert X.shape == (100, 1, 28, 28) and X.dtype == y.dtype == np.dtype(dtype)
        assert 0 <= X.min().asscalar() < 0.01 and 0.9 < X.max().asscalar() <= 1
