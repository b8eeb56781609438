"""Chapter 2: the same training with Gluon, its networks and its ``Trainer``.

These are the chapter's functions marked ``#@save``, with argument checks added. LeNet follows *The
Straight Dope*, ResNet-18 *Dive into Deep Learning*.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import mxnet as mx
from mxnet import autograd, gluon, init, nd
from mxnet.gluon import nn
from mxnet.gluon.utils import split_and_load

from . import arguments
from .devices import choose_devices
from .history import History
from .scratch import allreduce, load_data_fashion_mnist, loss, total_loss

if TYPE_CHECKING:
    from mxnet.gluon import Block, Parameter, Trainer
    from mxnet.initializer import Initializer
    from mxnet.ndarray import NDArray

    from .scratch import Arrays, Devices, NDArrayIter, Pairs

    Norm = Callable[[], Block]  # makes a normalization layer
    Loss = Callable[[NDArray, NDArray], NDArray]  # from scores and labels to each example's loss


def lenet() -> nn.HybridSequential:
    """Build *The Straight Dope*'s LeNet, uninitialized: images (n, 1, 28, 28) to scores (n, 10)."""
    net = nn.HybridSequential(prefix='cnn_')
    with net.name_scope():
        net.add(nn.Conv2D(channels=20, kernel_size=3, activation='relu'))
        net.add(nn.MaxPool2D(pool_size=2, strides=2))
        net.add(nn.Conv2D(channels=50, kernel_size=5, activation='relu'))
        net.add(nn.MaxPool2D(pool_size=2, strides=2))
        net.add(nn.Flatten())
        net.add(nn.Dense(128, activation='relu'))
        net.add(nn.Dense(10))
    return net


class Residual(nn.HybridBlock):
    """Two 3×3 convolutions and a shortcut, a 1×1 convolution if they ``halve`` the image."""

    def __init__(self, channels: int, halve: bool = False, norm: Norm = nn.BatchNorm) -> None:
        super().__init__()
        strides = 2 if halve else 1
        with self.name_scope():
            self.body = nn.HybridSequential(prefix='')
            self.body.add(nn.Conv2D(channels, kernel_size=3, strides=strides, padding=1))
            self.body.add(norm(), nn.Activation('relu'))
            self.body.add(nn.Conv2D(channels, kernel_size=3, padding=1), norm())
            self.shortcut = nn.Conv2D(channels, kernel_size=1, strides=strides) if halve else None

    def hybrid_forward(self, F: Any, X: NDArray) -> NDArray:
        """Compute relu(body(X) + shortcut(X)); Gluon calls this with ``F`` = ``nd`` or ``sym``."""
        Y = self.body(X)
        return F.relu(Y + (self.shortcut(X) if self.shortcut else X))


def resnet18_28(num_classes: int, norm: Norm = nn.BatchNorm) -> nn.HybridSequential:
    """Build *Dive into Deep Learning*'s ResNet-18 for images of 28×28 pixels, uninitialized.

    It maps (n, 1, 28, 28) to (n, ``num_classes``). Unlike the original (He and others 2015), it
    starts with a 3×3 convolution and has three widths instead of four. With ten classes it has
    2,777,868 trainable values in 58 arrays and 3,586 running statistics in 26.
    """
    arguments.check(num_classes=num_classes)
    arguments.function('norm', norm, 'that makes a layer, such as nn.BatchNorm')
    net = nn.HybridSequential(prefix='resnet_')
    with net.name_scope():
        net.add(norm(), nn.Conv2D(64, kernel_size=3), nn.MaxPool2D(pool_size=3, strides=2))
        for channels in (64, 128, 256):
            net.add(Residual(channels, halve=channels > 64, norm=norm))
            net.add(Residual(channels, norm=norm))
        net.add(nn.GlobalAvgPool2D(), nn.Dense(num_classes))
    return net


def forward_backward(net: Block, data: Arrays, label: Arrays, loss: Loss = loss) -> list[NDArray]:
    """Compute the losses of all shards, then their gradients, without waiting."""
    arguments.check(loss=loss)
    arguments.network_shards(data, label)
    with autograd.record():
        losses = [loss(net(X), y) for X, y in zip(data, label)]
    for l in losses:
        l.backward()
    return losses


def train_batch(
    X: NDArray, y: NDArray, net: Block, devices: Devices, trainer: Trainer, loss: Loss = loss
) -> list[NDArray]:
    """Train on one batch: split it, run forward and backward on each device, step the trainer.

    X (n, ...), y (n,). Returns the losses of the examples, one array per device, without waiting.
    """
    arguments.network_step(X, y, devices, trainer, loss, devices_of(net), parameters_of(net))
    data = split_and_load(X, devices, even_split=False)
    label = split_and_load(y, devices, even_split=False)
    losses = forward_backward(net, data, label, loss)
    trainer.step(len(X))
    return losses


def train_epoch(
    train_iter: NDArrayIter, net: Block, devices: Devices, trainer: Trainer, loss: Loss = loss
) -> tuple[float, float]:
    """Train on every batch; return the seconds and the mean loss per example."""
    arguments.check(train_iter=train_iter)
    start = time.perf_counter()
    losses = [train_batch(X, y, net, devices, trainer, loss) for X, y in train_iter]
    nd.waitall()
    return time.perf_counter() - start, total_loss(losses) / train_iter.num_examples


def evaluate_accuracy_gpus(net: Block, data_iter: Pairs) -> float:
    """Compute a network's accuracy, 0 to 1, on all its devices.

    The original texts use one device, and *The Straight Dope* also counts the last batch's padding.
    """
    arguments.check(data_iter=data_iter)
    devices, counts, seen = devices_of(net), [], 0
    for X, y in data_iter:
        arguments.same_length(X, y, flat=True)
        data = split_and_load(X, devices[: len(X)], even_split=False)
        label = split_and_load(y, devices[: len(X)], even_split=False)
        counts += [(net(X_d).argmax(axis=1) == y_d).sum() for X_d, y_d in zip(data, label)]
        seen += len(y)
    arguments.any_examples(seen)
    return sum(count.asscalar() for count in counts) / seen


def average_running_stats(net: Block) -> None:
    """Average the running statistics of a network's replicas, in place.

    The ``Trainer`` does not synchronize them. ``save_parameters`` saves the same mean.
    """
    devices = devices_of(net)
    nd.waitall()  # a compiled backward pass may still write statistics without telling the engine
    for param in net.collect_params('.*running_(mean|var)').values():
        if 0 not in param.shape:  # 0: not initialized yet, so all replicas will start equal
            stats = param.list_data()
            allreduce(stats)
            for stat in stats:
                stat /= len(devices)


def prepare(
    net: Block, devices: Devices, seed: int | None = None, initializer: Initializer | None = None
) -> None:
    """Reinitialize a network on devices, by default with Xavier, and compile it."""
    arguments.check(devices=devices)
    arguments.network(net, devices)
    if seed is not None:
        mx.random.seed(seed)
    net.initialize(initializer or init.Xavier(), ctx=devices, force_reinit=True)
    # A step of ResNet-18 with 128 examples takes 221 ms on a stand-in; 266 without static_shape.
    net.hybridize(static_alloc=True, static_shape=True)


def make_trainer(net: Block, lr: float) -> Trainer:
    """Make a plain SGD trainer for a network's parameters that have gradients."""
    arguments.check(lr=lr)
    arguments.network(net, devices_of(net))
    # The original texts pass all. But a trainer's first step copies the parameters that it has from
    # the first device to the others, and running statistics would lose their first update.
    trained = [p for p in net.collect_params().values() if p.grad_req != 'null']
    arguments.positive_int('the number of parameters with a gradient', len(trained))
    return gluon.Trainer(trained, 'sgd', {'learning_rate': lr})


def train(
    net: Block,
    num_gpus: int,
    batch_size: int,
    lr: float,
    num_epochs: int = 5,
    load_data: Callable[..., tuple[NDArrayIter, NDArrayIter]] = load_data_fashion_mnist,
    num_examples: int | None = None,
    seed: int | None = None,
    devices: Devices | None = None,
    initializer: Initializer | None = None,
    loss: Loss = loss,
) -> History:
    """Reinitialize a Gluon network and train it with data parallelism, printing a line per epoch.

    ``net`` then holds the trained parameters. ``load_data(batch_size, num_examples=..., seed=...)``
    returns a training and a test iterator. Running statistics are averaged after each epoch.
    """
    arguments.training(num_gpus, batch_size, num_epochs=num_epochs, lr=lr, load_data=load_data)
    devices = choose_devices(num_gpus, devices)
    train_iter, test_iter = load_data(batch_size, num_examples=num_examples, seed=seed)
    arguments.check(train_iter=train_iter)
    arguments.last_batch(train_iter.num_examples % batch_size or batch_size, least=num_gpus)
    prepare(net, devices, seed, initializer)
    trainer = make_trainer(net, lr)
    history = History(f'devices: {num_gpus}, batch: {batch_size}', train_iter.num_examples)
    print('running on:', devices)
    for _ in range(num_epochs):
        seconds, mean_loss = train_epoch(train_iter, net, devices, trainer, loss)
        average_running_stats(net)
        accuracy = evaluate_accuracy_gpus(net, test_iter)
        print(history.add(seconds, mean_loss, accuracy))
    return history


def parameters_of(net: Block) -> list[Parameter]:
    """List a network's parameters; ``collect_params()`` would take 1 ms a step for ResNet-18."""
    params = []
    net.apply(lambda block: params.extend(block.params.values()))
    return params


def devices_of(net: Block) -> list[mx.Context]:
    """List a network's devices, even before its shapes are known."""
    arguments.network(net)
    places = [param.list_ctx() for param in parameters_of(net)]  # raises if uninitialized
    arguments.positive_int('the number of parameters of net', len(places))
    other = [here for here in places if here != places[0]]
    wanted = f'on {places[0]}, like the first (initialize the whole network at once)'
    arguments.expect(not other, 'every parameter', wanted, other[:1], ValueError)
    return places[0]
