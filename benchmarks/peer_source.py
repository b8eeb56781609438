"""Time what readers had before: the training step of *Dive into Deep Learning*'s first edition.

The algorithm is from that text: a DataLoader, the same operators, an even split, one allreduce per
parameter, an update of three operators, a wait for every batch. MXNet keeps its default settings,
so nothing from ``mgpu_helpers`` may be imported before it; the training data are our arrays.
"""

import time

import mxnet as mx
from mxnet import autograd, gluon, nd

from .peer_data import Published
from .protocol import WARM_UP, arrays, wait_for_the_others

LR, NUM_WORKERS = 0.2, 4


def in_memory(images, labels):
    """Return a data set of arrays that yields the same examples as MXNet's own class."""
    return gluon.data.ArrayDataset(nd.array(images[..., None], dtype='uint8'), labels)


def loader(dataset, batch_size):
    """Build Gluon's pipeline as d2l does: a transform per example, worker processes."""
    to_tensor = gluon.data.vision.transforms.ToTensor()
    return gluon.data.DataLoader(
        dataset.transform_first(to_tensor), batch_size, shuffle=True, num_workers=NUM_WORKERS
    )


def start_params():
    def weight(*shape):
        return nd.random.normal(scale=0.01, shape=shape)

    weights = weight(20, 1, 3, 3), weight(50, 20, 5, 5), weight(800, 128), weight(128, 10)
    biases = [nd.zeros(n) for n in (20, 50, 128, 10)]
    return [array for pair in zip(weights, biases) for array in pair]


def network(X, p):
    h = nd.Convolution(data=X, weight=p[0], bias=p[1], kernel=(3, 3), num_filter=20)
    h = nd.Pooling(data=nd.relu(h), pool_type='avg', kernel=(2, 2), stride=(2, 2))
    h = nd.Convolution(data=h, weight=p[2], bias=p[3], kernel=(5, 5), num_filter=50)
    h = nd.Pooling(data=nd.relu(h), pool_type='avg', kernel=(2, 2), stride=(2, 2))
    h = nd.relu(nd.dot(nd.flatten(h), p[4]) + p[5])
    return nd.dot(h, p[6]) + p[7]


def shards(array, devices):
    m = array.shape[0] // len(devices)
    return [array[i * m : (i + 1) * m].as_in_context(d) for i, d in enumerate(devices)]


def summed(arrays):
    for other in arrays[1:]:
        arrays[0][:] += other.copyto(arrays[0].context)
    for other in arrays[1:]:
        arrays[0].copyto(other)


def step(X, y, replicas, devices, loss):
    with autograd.record():
        losses = [
            loss(network(X_d, p), y_d)
            for X_d, y_d, p in zip(shards(X, devices), shards(y, devices), replicas)
        ]
    for one in losses:
        one.backward()
    for i in range(len(replicas[0])):
        summed([p[i].grad for p in replicas])
    for params in replicas:
        for p in params:
            p[:] = p - LR * p.grad / X.shape[0]


def prepare(num_devices):
    """Create a replica on each stand-in; return the devices and the replicas."""
    devices = [mx.cpu(i) for i in range(num_devices)]
    start = start_params()
    replicas = [[p.copyto(d) for p in start] for d in devices]
    for params in replicas:
        for p in params:
            p.attach_grad()
    return devices, replicas


def train(num_devices, batch_size, num_examples):
    """Train for an epoch and return its seconds."""
    devices, replicas = prepare(num_devices)
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    images, labels = arrays(num_examples)

    def epoch(batches):
        begin = time.perf_counter()
        for X, y in batches:
            step(X, y, replicas, devices, loss)
            nd.waitall()
        return time.perf_counter() - begin

    epoch(loader(in_memory(images[:WARM_UP], labels[:WARM_UP]), batch_size))
    many = loader(in_memory(images, labels), batch_size)
    wait_for_the_others()
    return epoch(many)


def first_step(num_devices, batch_size, num_examples):
    """Train on one batch."""
    batches = loader(Published(), batch_size)
    devices, replicas = prepare(num_devices)
    X, y = next(iter(batches))
    step(X, y, replicas, devices, gluon.loss.SoftmaxCrossEntropyLoss())
    nd.waitall()
    return {}
