"""Chapter 1: data parallelism from scratch - copy, split, sum, update.

These are the chapter's functions marked ``#@save``, with argument checks added. "The original
texts" are *The Straight Dope*'s and *Dive into Deep Learning*'s chapters on multiple GPUs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd

from . import arguments, data
from .devices import choose_devices
from .display import progress
from .history import History

if TYPE_CHECKING:
    from mxnet.ndarray import NDArray

    from .data import Batches

    Arrays = Sequence[NDArray]
    Replica = list[NDArray]  # the parameters on one device
    Devices = Sequence[mx.Context]
    Pairs = Iterable[tuple[NDArray, NDArray]]  # (X, y) of each batch
    Net = Callable[[NDArray], NDArray]  # images to scores
    Sync = Callable[[list[list[NDArray]]], None]  # sums gradients over the devices, in place

loss = gluon.loss.SoftmaxCrossEntropyLoss()


def init_params(scale: float = 0.01, seed: int | None = None, dtype: str = 'float32') -> Replica:
    """Draw LeNet's initial parameters on the CPU: 129,068 values in 8 arrays, W1, b1, ..., W4, b4.

    ``scale`` is the standard deviation of the weights; biases start at 0. With the original texts'
    0.01, accuracy stays near chance for an epoch. A seed draws the same numbers in every framework.
    """
    arguments.check(scale=scale, seed=seed, dtype=dtype)
    rng = np.random.default_rng(seed)
    shapes = [(20, 1, 3, 3), (20,), (50, 20, 5, 5), (50,), (800, 128), (128,), (128, 10), (10,)]
    values = [rng.normal(0, scale, s) if len(s) > 1 else np.zeros(s) for s in shapes]
    return [nd.array(v, ctx=mx.cpu(), dtype=dtype) for v in values]


def lenet(X: NDArray, params: Arrays) -> NDArray:
    """Compute LeNet's scores (n, 10) for images X (n, 1, 28, 28), on the device of the arrays.

    ``nd.Activation`` keeps oneDNN's layout: it takes 27.3 ms, the originals' ``nd.relu`` 29.4.
    """
    arguments.inputs(X, params)
    W1, b1, W2, b2, W3, b3, W4, b4 = params
    h1_conv = nd.Convolution(X, W1, b1, kernel=(3, 3), num_filter=20)
    h1 = nd.Pooling(nd.Activation(h1_conv, 'relu'), pool_type='avg', kernel=(2, 2), stride=(2, 2))
    h2_conv = nd.Convolution(h1, W2, b2, kernel=(5, 5), num_filter=50)
    h2 = nd.Pooling(nd.Activation(h2_conv, 'relu'), pool_type='avg', kernel=(2, 2), stride=(2, 2))
    h3 = nd.relu(nd.dot(nd.flatten(h2), W3) + b3)
    return nd.dot(h3, W4) + b4


def get_params(params: Arrays, device: mx.Context) -> Replica:
    """Copy parameters to a device; each copy gets its own gradient, initially 0."""
    arguments.list_of_arrays('params', params, 'such as one from init_params')
    arguments.check(device=device)
    new_params = [p.copyto(device) for p in params]
    for p in new_params:
        p.attach_grad()
    return new_params


def allreduce(data: Arrays) -> None:
    """Sum arrays from different devices in place: add on the first, then copy to the others."""
    arguments.one_per_device(data)
    total = data[0]
    for x in data[1:]:
        total += x.copyto(total.context)
    for x in data[1:]:
        total.copyto(x)


def split_and_load(data: NDArray, devices: Devices) -> list[NDArray]:
    """Split a batch (n, ...) into k shards, in order, and copy each to its device.

    The first n mod k shards get one extra example each; the original texts drop those. A shard
    that stays on the device of ``data`` shares its memory.
    """
    arguments.batch(data, None, devices, each=True)
    n, k = data.shape[0], len(devices)
    cuts = [i * (n // k) + min(i, n % k) for i in range(k + 1)]
    return [data[a:b].as_in_context(d) for a, b, d in zip(cuts, cuts[1:], devices)]


def split_batch(X: NDArray, y: NDArray, devices: Devices) -> tuple[list[NDArray], list[NDArray]]:
    """Split X (n, ...) and y (n,) alike; return the shards, one per device that gets examples."""
    arguments.batch(X, y, devices)
    busy = devices[: len(X)]
    return split_and_load(X, busy), split_and_load(y, busy)


def sgd(params: Arrays, lr: float, batch_size: int) -> None:
    """Take one step of stochastic gradient descent, in place; gradients are sums over the batch."""
    arguments.check(lr=lr, batch_size=batch_size)
    arguments.list_of_arrays('params', params, 'one replica, as get_params returns')
    for p in params:
        p -= lr / batch_size * p.grad  # MXNet's sgd_update rounds lr to float32: 2e-7 a step


def gradients(device_params: Sequence[Arrays], losses: Arrays) -> list[list[NDArray]]:
    """Return ``grads[c][i]``, device c's gradient of parameter i, or 0 if it has no loss."""
    for params in device_params[len(losses) :]:
        for p in params:
            p.grad[:] = 0
    return [[p.grad for p in params] for params in device_params]


def sync_gradients(grads: Sequence[Arrays]) -> None:
    """Sum the gradients ``grads[c][i]`` over the devices c, one ``allreduce`` per parameter i."""
    arguments.lists_of_gradients(grads)
    for grads_of_one_param in zip(*grads):
        allreduce(list(grads_of_one_param))


def train_batch(
    X: NDArray,
    y: NDArray,
    device_params: Sequence[Arrays],
    devices: Devices,
    lr: float,
    sync: Sync = sync_gradients,
) -> list[NDArray]:
    """Train on one batch: split it, run forward and backward on each device, sum, update.

    X (n, 1, 28, 28), y (n,). ``device_params`` holds one replica per device, updated in place.
    Returns the examples' losses, one array per device with examples, without waiting for them.
    """
    arguments.training_step(X, y, device_params, devices, lr, sync)
    Xs, ys = split_batch(X, y, devices)
    with autograd.record():
        ls = [loss(lenet(X_d, params), y_d) for X_d, y_d, params in zip(Xs, ys, device_params)]
    for l in ls:
        l.backward()
    sync(gradients(device_params, ls))
    for params in device_params:
        sgd(params, lr, len(X))
    return ls


class NDArrayIter:
    """Batches of ``data.Batches`` as NDArrays on the CPU; each pass over them is one epoch.

    MXNet's operators return at once, so a plain loop would queue every batch: memory would fill up,
    and the stop button would work only after the last one. This iterator waits for the devices
    after half a second of work or 16 batches. With a ``label`` it shows a progress bar.
    """

    def __init__(self, batches: Batches, label: str | None = None) -> None:
        self.batches, self.num_examples, self.label = batches, batches.num_examples, label
        self.skip = batches.skip  # to skip completed epochs when a run resumes

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[tuple[NDArray, NDArray]]:
        with progress(self._in_step(), self.label, total=len(self)) as pairs:
            yield from pairs

    def _in_step(self) -> Iterator[tuple[NDArray, NDArray]]:
        ahead, handed_out, start = 1, 0, time.perf_counter()
        size = self.batches.batch_size
        # Convert 4,096 examples at a time and yield views: nd.array waits for device 0's queue, and
        # converting each batch separately took one of two stand-ins' 46 ms per batch.
        for X, y in self.batches.groups(max(1, 4096 // size)):
            X, y = nd.array(X, mx.cpu(), X.dtype), nd.array(y, mx.cpu(), y.dtype)
            for i in range(0, len(X), size):
                yield X[i : i + size], y[i : i + size]
                handed_out += 1
                if handed_out == ahead:
                    nd.waitall()
                    ahead = int(ahead * 0.5 / (time.perf_counter() - start))
                    ahead, handed_out, start = max(1, min(16, ahead)), 0, time.perf_counter()


def load_data_fashion_mnist(
    batch_size: int,
    num_examples: int | None = None,
    seed: int | None = None,
    dtype: str = 'float32',
) -> tuple[NDArrayIter, NDArrayIter]:
    """Load Fashion-MNIST: iterators over training batches and over test batches.

    They yield X (batch, 1, 28, 28), in [0, 1], and y (batch,). ``num_examples`` limits the training
    set to its first examples, of 60,000. Each epoch shuffles them again.
    """
    train, test = data.load_arrays('fashion-mnist', batch_size, num_examples, seed, dtype)
    return NDArrayIter(train, 'training'), NDArrayIter(test)


def load_data_mnist(batch_size: int, *args: Any, **options: Any) -> tuple[NDArrayIter, NDArrayIter]:
    """Load MNIST, in the same way as ``load_data_fashion_mnist``."""
    train, test = data.load_arrays('mnist', batch_size, *args, **options)
    return NDArrayIter(train, 'training'), NDArrayIter(test)


def evaluate_accuracy(net: Net, data_iter: Pairs, device: mx.Context) -> float:
    """Compute a network's accuracy, 0 to 1, on one device; ``net`` maps images to scores."""
    arguments.check(net=net, data_iter=data_iter, device=device)
    right, seen = [], 0
    for X, y in data_iter:
        arguments.same_length(X, y, flat=True)
        guesses = net(X.as_in_context(device)).argmax(axis=1)
        right.append((guesses == y.as_in_context(device)).sum())
        seen += len(y)
    arguments.any_examples(seen)
    return sum(count.asscalar() for count in right) / seen


def total_loss(losses: Sequence[Arrays]) -> float:
    """Sum the losses that ``train_batch`` returned for one or several batches; waits for them."""
    arguments.check(losses=losses)
    return float(sum(l.asnumpy().sum(dtype='float64') for ls in losses for l in ls))


def train_epoch(
    train_iter: NDArrayIter,
    replicas: Sequence[Arrays],
    devices: Devices,
    lr: float,
    sync: Sync = sync_gradients,
) -> tuple[float, float]:
    """Train on every batch; return the seconds and the mean loss per example."""
    arguments.check(train_iter=train_iter)
    start = time.perf_counter()
    losses = [train_batch(X, y, replicas, devices, lr, sync) for X, y in train_iter]
    nd.waitall()
    return time.perf_counter() - start, total_loss(losses) / train_iter.num_examples


def train(
    num_gpus: int,
    batch_size: int,
    lr: float,
    num_epochs: int = 4,
    num_examples: int | None = None,
    seed: int | None = None,
    devices: Devices | None = None,
    sync: Sync = sync_gradients,
    scale: float = 0.01,
) -> History:
    """Train LeNet on Fashion-MNIST with data parallelism, printing a line per epoch.

    ``batch_size`` counts all devices' examples; ``scale`` is for ``init_params``. With a seed, runs
    repeat bit for bit. Times exclude the evaluation; the history keeps the final replicas.
    """
    arguments.training(num_gpus, batch_size, num_epochs=num_epochs, lr=lr, sync=sync)
    devices = choose_devices(num_gpus, devices)
    train_iter, test_iter = load_data_fashion_mnist(batch_size, num_examples, seed)
    params = init_params(scale, seed)
    replicas = [get_params(params, d) for d in devices]
    history = History(f'devices: {num_gpus}, batch: {batch_size}', train_iter.num_examples)
    history.params = replicas
    print('running on:', devices)
    for _ in range(num_epochs):
        seconds, mean_loss = train_epoch(train_iter, replicas, devices, lr, sync)
        accuracy = evaluate_accuracy(partial(lenet, params=replicas[0]), test_iter, devices[0])
        print(history.add(seconds, mean_loss, accuracy))
    return history
