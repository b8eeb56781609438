"""Time what a reader of *Dive into Deep Learning* would use: d2l 1.0.3's functions, unchanged.

``d2l.load_data_fashion_mnist`` makes the batches (a transform per example, four loader processes)
and ``d2l.train_batch_ch13`` trains on each, as in ``d2l.train_ch13`` but without its curves and
its evaluation. The network is chapter 1's, and compiled, which favours the peer: d2l's own chapter
on several GPUs does not compile. Nothing from ``mgpu_helpers`` may be imported here: only the
environment decides which settings apply.
"""

import time

import mxnet as mx
from d2l import mxnet as d2l
from mxnet import gluon, init, np, npx
from mxnet.gluon import nn

from .peer_data import Published
from .protocol import WARM_UP, arrays, wait_for_the_others

npx.set_np()  # as at the start of every d2l chapter
LR = 0.2


def load(dataset, batch_size):
    """Call d2l's loader, with ``dataset`` in place of MXNet's ``FashionMNIST`` class."""
    original, gluon.data.vision.FashionMNIST = gluon.data.vision.FashionMNIST, dataset
    try:
        return d2l.load_data_fashion_mnist(batch_size)[0]
    finally:
        gluon.data.vision.FashionMNIST = original


def batches(num_examples, batch_size):
    """Load our arrays through d2l's loader; the data set yields them as MXNet's own class does."""
    images, labels = arrays(num_examples)

    class InMemory(gluon.data.vision.FashionMNIST):
        def _get_data(self):
            self._data = np.array(images[..., None], dtype='uint8')
            self._label = np.array(labels, dtype='int32')

    return load(InMemory, batch_size)


def prepare(num_devices):
    """Return the arguments of ``d2l.train_batch_ch13``: network, loss, trainer, devices."""
    devices = [mx.cpu(i) for i in range(num_devices)]
    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(20, 3, activation='relu'), nn.AvgPool2D(2, 2),
        nn.Conv2D(50, 5, activation='relu'), nn.AvgPool2D(2, 2),
        nn.Dense(128, activation='relu'), nn.Dense(10),
    )  # fmt: skip
    net.initialize(init.Xavier(), ctx=devices)
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), 'sgd', {'learning_rate': LR})
    return net, gluon.loss.SoftmaxCrossEntropyLoss(), trainer, devices


def train(num_devices, batch_size, num_examples):
    """Train for an epoch and return its seconds."""
    net, loss, trainer, devices = prepare(num_devices)

    def epoch(train_iter):
        metric = d2l.Accumulator(3)
        start = time.perf_counter()
        for features, labels in train_iter:
            l, acc = d2l.train_batch_ch13(net, features, labels, loss, trainer, devices)
            metric.add(l, acc, labels.shape[0])
        npx.waitall()
        return time.perf_counter() - start

    epoch(batches(min(WARM_UP, num_examples), batch_size))
    many = batches(num_examples, batch_size)
    wait_for_the_others()
    return epoch(many)


def first_step(num_devices, batch_size, num_examples):
    """Train on one batch."""
    train_iter = load(Published, batch_size)
    net, loss, trainer, devices = prepare(num_devices)
    features, labels = next(iter(train_iter))
    d2l.train_batch_ch13(net, features, labels, loss, trainer, devices)
    npx.waitall()
    return {}
