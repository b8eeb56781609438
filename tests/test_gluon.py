"""Chapter 2's networks and steps: k devices equal one, uneven batches, what is refused."""

from functools import partial

import mxnet as mx
import numpy as np
import pytest
from mxnet import gluon, init, nd
from mxnet.gluon import nn
from mxnet.gluon.utils import split_and_load
from serving import real_files

import mgpu_helpers as mgpu
from mgpu_helpers.gluon import (
    average_running_stats,
    evaluate_accuracy_gpus,
    forward_backward,
    lenet,
    make_trainer,
    prepare,
    resnet18_28,
    train_batch,
)

DEVICES = [mx.cpu(i) for i in range(5)]
FIXED = partial(nn.BatchNorm, use_global_stats=True)


@pytest.fixture(scope='module')
def batch():
    """50 examples: neither 3 nor 4 divides it."""
    train_iter, _ = mgpu.load_data_fashion_mnist(50, num_examples=50, seed=3, dtype='float64')
    return next(iter(train_iter))


@pytest.fixture(scope='module')
def small(batch):
    """10 of them, of seven classes: a ResNet in float64 takes its time."""
    X, y = batch
    return X[:10], y[:10] % 7


def started(net, devices, dtype='float64', seed=1):
    """Initialize a network in another dtype, with the same parameters for every list of devices."""
    mx.random.seed(seed)
    net.cast(dtype)
    net.initialize(init.Xavier(), ctx=devices)
    return net


def trained(net):
    return [p for p in net.collect_params().values() if p.grad_req != 'null']


def summed_gradient(net):
    return np.concatenate([sum(g.asnumpy() for g in p.list_grad()).ravel() for p in trained(net)])


def values(net, device):
    return np.concatenate([p.data(device).asnumpy().ravel() for p in trained(net)])


def relative(a, b):
    return np.linalg.norm(a - b) / np.linalg.norm(b)


def test_networks_have_the_original_texts_layers_and_counts():
    for net, outputs, trained_and_not in (
        (lenet(), '20x26x26 20x13x13 50x9x9 50x4x4 800 128 10', [(8, 129_068), (0, 0)]),
        (
            resnet18_28(10),
            '1x28x28 64x26x26 64x12x12 64x12x12 64x12x12 '
            '128x6x6 128x6x6 256x3x3 256x3x3 256x1x1 10',
            [(58, 2_777_868), (26, 3_586)],
        ),
    ):
        X, shapes = nd.zeros((2, 1, 28, 28)), []
        for layer in started(net, DEVICES[:1], 'float32'):
            X = layer(X)
            shapes.append('x'.join(map(str, X.shape[1:])))
        assert ' '.join(shapes) == outputs
        params = net.collect_params().values()
        sizes = [[np.prod(p.shape) for p in params if p.grad_req == r] for r in ('write', 'null')]
        assert [(len(of_kind), sum(of_kind)) for of_kind in sizes] == trained_and_not
    kernels = [p.shape for name, p in net.collect_params('.*conv.*weight').items()]
    assert sorted(k[2] for k in kernels) == [1, 1] + [3] * 13


def test_four_devices_compute_the_numbers_that_the_straight_dope_printed():
    """Gluon's own start, the first 16 digits: its GPUs' first scores, filter and gradients."""
    real_files('mnist')  # or skip: these digits were printed
    mx.random.seed(0)
    net = lenet()
    net.initialize(ctx=DEVICES[:4])
    digits = mgpu.data.dataset('mnist')
    X, y = nd.array(digits.train_images[:16, None] / 255), nd.array(digits.train_labels[:16])
    data, label = (split_and_load(a, DEVICES[:4]) for a in (X, y))
    computed = [net(data[i])[0, :3].asnumpy() for i in (0, 1)]
    forward_backward(net, data, label)
    weight = net.collect_params()['cnn_conv0_weight']
    computed += [a[0, 0, 0].asnumpy() for a in [weight.data(DEVICES[3]), *weight.list_grad()]]
    printed = [
        [-0.00481915, 0.0019142, 0.02079279],
        [-0.00461744, 0.01375779, 0.03823002],
        [0.0068339, 0.01299825, 0.0301265],
        [-0.05446478, -0.06920426, -0.03950822],
        [0.13215259, 0.13300328, 0.09848808],
        [-0.15555602, -0.12390864, 0.00930843],
        [-0.12295836, -0.08860554, -0.08663689],
    ]
    np.testing.assert_allclose(computed, printed, rtol=1e-4)


@pytest.mark.parametrize('make_net', [lenet, partial(resnet18_28, 7, FIXED)], ids=['lenet', 'res'])
def test_four_devices_equal_one_with_batch_statistics_fixed(make_net, small):
    losses, gradients = [], []
    for k in (1, 4):
        net = started(make_net(), DEVICES[:k])
        net.hybridize(static_alloc=True, static_shape=True)
        data, label = (split_and_load(a, DEVICES[:k], even_split=False) for a in small)
        shards = forward_backward(net, data, label)
        losses.append(np.concatenate([l.asnumpy() for l in shards]))
        gradients.append(summed_gradient(net))
    assert len(shards) == 4
    assert relative(*losses) < 1e-10 and relative(*gradients) < 1e-10


def test_hybridizing_changes_nothing():
    """Uneven batches, evaluation in between, running statistics included; bit for bit."""
    train_iter, test_iter = mgpu.load_data_fashion_mnist(20, num_examples=50, seed=0)
    batches, some = list(train_iter), [next(iter(test_iter))]
    left = []
    for hybridize in (False, True):
        net = resnet18_28(10)
        prepare(net, DEVICES[:2], seed=0)
        net.hybridize(hybridize, static_alloc=True, static_shape=True)
        trainer = make_trainer(net, lr=0.02)
        for X, y in [*batches, *batches]:
            train_batch(X, y, net, DEVICES[:2], trainer)
            if len(X) < 20:
                evaluate_accuracy_gpus(net, some)
        nd.waitall()
        left.append([v.asnumpy() for p in net.collect_params().values() for v in p.list_data()])
    assert all(np.array_equal(a, b) for a, b in zip(*left, strict=True))


def test_k_devices_train_as_one_and_give_the_losses_of_every_shard(batch):
    ends = []
    for k in (1, 2, 3):
        net = started(lenet(), DEVICES[:k])
        trainer = make_trainer(net, lr=0.1)
        for _ in range(3):
            losses = train_batch(*batch, net, DEVICES[:k], trainer)
        ends.append([values(net, d) for d in DEVICES[:k]])
    (one,), *others = ends
    for several in others:
        assert relative(several[0], one) < 1e-10
        assert all(np.array_equal(several[0], other) for other in several)
    shards = [(l.shape, l.context) for l in losses]
    assert shards == list(zip([(17,), (17,), (16,)], DEVICES))


def test_another_loss(batch):
    X, _ = batch
    net = nn.HybridSequential()
    net.add(nn.Flatten(), nn.Dense(1))
    started(net, DEVICES[:2])
    losses = train_batch(
        X, X.mean(axis=(1, 2, 3)), net, DEVICES[:2], make_trainer(net, 0.01), gluon.loss.L2Loss()
    )
    assert [l.shape for l in losses] == [(25,), (25,)]


def test_running_statistics_are_left_alone_by_the_trainer_and_averaged(small):
    """Its first step would copy device 0's to all, with every parameter in its hands."""
    net = started(resnet18_28(10), DEVICES[:3])
    train_batch(*small, net, DEVICES[:3], make_trainer(net, lr=0.1))
    running = net.collect_params('.*running_(mean|var)').values()
    before = [[v.asnumpy() for v in p.list_data()] for p in running]
    weights = values(net, DEVICES[1])
    average_running_stats(net)
    for param, of_each in zip(running, before, strict=True):
        assert not np.array_equal(of_each[0], of_each[1])
        for value in param.list_data():
            np.testing.assert_allclose(value.asnumpy(), np.mean(of_each, axis=0), rtol=1e-12)
    assert np.array_equal(values(net, DEVICES[1]), weights)


def test_accuracy_on_all_devices_counts_each_example_once():
    """100 = 3 × 33 + 1: the last batch has one example for three devices."""
    train_iter, _ = mgpu.load_data_fashion_mnist(33, num_examples=100, seed=0)
    batches = list(train_iter)
    for k in (1, 3):
        net = lenet()
        prepare(net, DEVICES[:k], seed=0)
        right = sum((net(X).argmax(axis=1) == y).sum().asscalar() for X, y in batches)
        assert evaluate_accuracy_gpus(net, batches) == pytest.approx(right / 100)


def test_only_the_last_layer_is_trained_if_the_others_are_frozen(batch):
    net = started(lenet(), DEVICES[:2])
    net(batch[0].as_in_context(DEVICES[0]))
    for param in list(net.collect_params().values())[:-2]:
        param.grad_req = 'null'
    params = net.collect_params().values()
    before = [p.data(DEVICES[1]).asnumpy() for p in params]
    train_batch(*batch, net, DEVICES[:2], make_trainer(net, lr=0.1))
    same = [np.array_equal(a, p.data(DEVICES[1]).asnumpy()) for a, p in zip(before, params)]
    assert same == [True] * 6 + [False] * 2
