"""Chapter 2: the same training with Gluon - its networks, and what the ``Trainer`` takes over.

Every function marked ``#@save`` in ``notebooks/02-multiple-gpus-gluon.ipynb`` stands here, and a
test holds the two equal. Sources 002 and 003 are the originals; where ours differs, it says why.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import mxnet as mx
from mxnet import autograd, gluon, init, nd
from mxnet.gluon import nn
from mxnet.gluon.utils import split_and_load

from . import checks
from .devices import choose_devices
from .display import progress
from .history import History
from .replicas import check_last_batch, check_network, check_shards, check_step, devices_of
from .scratch import allreduce, load_data_fashion_mnist, loss, train_epoch

if TYPE_CHECKING:
    from mxnet.gluon import Block
    from mxnet.initializer import Initializer
    from mxnet.ndarray import NDArray

    from .scratch import NDArrayIter

    Loss = Callable[[NDArray, NDArray], NDArray]  # scores and labels to the loss of each example


def lenet() -> nn.HybridSequential:
    """Build source 003's LeNet: chapter 1's network with max pooling, in Gluon's layers.

    Returns
    -------
    mxnet.gluon.nn.HybridSequential
        Not initialized; maps images, shape (n, 1, 28, 28), to scores, shape (n, 10). Its names
        begin with ``cnn_``; 129,068 values in 8 arrays.

    Notes
    -----
    Source 003's, except that it can be hybridized.

    Examples
    --------
    >>> net = lenet()
    >>> net.initialize(ctx=mx.cpu(1))
    >>> net(nd.zeros((2, 1, 28, 28), ctx=mx.cpu(1))).shape
    (2, 10)
    """
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
    """Two 3×3 convolutions with batch normalization, and a shortcut around them.

    Parameters
    ----------
    channels : int
        Of the output.
    halve : bool
        If true, the first convolution has stride 2, and a 1×1 convolution with stride 2 brings
        the shortcut to the new shape. If false, the input has ``channels`` channels already.
    norm : callable
        Makes a normalization layer.

    Notes
    -----
    The block in source 002's ``resnet18_28``, which only names it.

    Examples
    --------
    >>> block = Residual(8, halve=True)
    >>> block.initialize()
    >>> block(nd.zeros((2, 4, 6, 6))).shape
    (2, 8, 3, 3)
    """

    def __init__(
        self, channels: int, halve: bool = False, norm: Callable[[], Block] = nn.BatchNorm
    ) -> None:
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


def resnet18_28(num_classes: int, norm: Callable[[], Block] = nn.BatchNorm) -> nn.HybridSequential:
    """Build the residual network for images of 28×28 pixels that source 002 trains.

    Parameters
    ----------
    num_classes : int
        Scores per image.
    norm : callable
        Makes a normalization layer: ``nn.BatchNorm``, or one with options, such as
        ``partial(nn.BatchNorm, use_global_stats=True)``. (Not ``SyncBatchNorm``; see ``prepare``.)

    Returns
    -------
    mxnet.gluon.nn.HybridSequential
        Not initialized; maps (n, 1, 28, 28) to (n, ``num_classes``). With ten classes, 2,777,868
        trainable values in 58 arrays and 3,586 running statistics in 26.

    Raises
    ------
    TypeError, ValueError
        If ``num_classes`` is not an integer of at least 1.

    Notes
    -----
    ResNet-18 (He et al. 2015) cut down to small images: a first convolution of 3×3, and three
    widths instead of four.

    Examples
    --------
    >>> net = resnet18_28(10)
    >>> net.initialize()
    >>> net(nd.zeros((2, 1, 28, 28))).shape
    (2, 10)
    """
    checks.positive_int('num_classes', num_classes)
    net = nn.HybridSequential(prefix='resnet_')
    with net.name_scope():
        net.add(norm(), nn.Conv2D(64, kernel_size=3), nn.MaxPool2D(pool_size=3, strides=2))
        for channels in (64, 128, 256):
            net.add(Residual(channels, halve=channels > 64, norm=norm))
            net.add(Residual(channels, norm=norm))
        net.add(nn.GlobalAvgPool2D(), nn.Dense(num_classes))
    return net


def forward_backward(
    net: Block, data: Sequence[NDArray], label: Sequence[NDArray], loss: Loss = loss
) -> list[NDArray]:
    """Compute the losses of all shards, then their gradients, each on the device of its shard.

    Parameters
    ----------
    net : mxnet.gluon.Block
        Initialized on the devices of the shards.
    data : list of NDArray
        Shards of the examples, one per device.
    label : list of NDArray
        Their labels.
    loss : callable
        ``loss(scores, labels)`` gives one number per example.

    Returns
    -------
    list of NDArray
        Per device, the loss of each example; nothing is waited for.

    Raises
    ------
    TypeError, ValueError
        If data, labels and network do not belong together; nothing is changed then.

    Notes
    -----
    Sources 002 and 003, which take the loss from outside and return nothing.

    Examples
    --------
    >>> devices = [mx.cpu(0), mx.cpu(1)]
    >>> net = lenet()
    >>> net.initialize(ctx=devices)
    >>> data = split_and_load(nd.zeros((5, 1, 28, 28)), devices, even_split=False)
    >>> label = split_and_load(nd.zeros(5), devices, even_split=False)
    >>> [l.shape for l in forward_backward(net, data, label)]
    [(3,), (2,)]
    """
    check_shards(net, data, label)
    with autograd.record():
        losses = [loss(net(X), y) for X, y in zip(data, label)]
    for l in losses:
        l.backward()
    return losses


def train_batch(
    X: NDArray,
    y: NDArray,
    net: Block,
    devices: Sequence[mx.Context],
    trainer: gluon.Trainer,
    loss: Loss = loss,
) -> list[NDArray]:
    """Train on one batch: split, forward and backward on each device; the trainer does the rest.

    Parameters
    ----------
    X : NDArray, shape (n, ...)
        Examples.
    y : NDArray, shape (n,)
        Their labels.
    net : mxnet.gluon.Block
        Initialized on ``devices``.
    devices : list of mxnet.Context
        At most n different devices; they need not divide n.
    trainer : mxnet.gluon.Trainer
        Of the parameters of ``net``.
    loss : callable
        See ``forward_backward``.

    Returns
    -------
    list of NDArray
        Per device, the loss of each example; nothing is waited for.

    Raises
    ------
    TypeError, ValueError
        If the batch has fewer examples than there are devices, lengths differ, a device appears
        twice, the network is not initialized on these devices, or the trainer is another
        network's or was made for other devices; nothing is changed then.

    Notes
    -----
    Source 003's function; there, k must divide n.

    Examples
    --------
    >>> devices = [mx.cpu(0), mx.cpu(1)]
    >>> net = lenet()
    >>> net.initialize(ctx=devices)
    >>> trainer = gluon.Trainer(net.collect_params(), 'sgd', {'learning_rate': 0.1})
    >>> losses = train_batch(nd.zeros((5, 1, 28, 28)), nd.zeros(5), net, devices, trainer)
    >>> [l.shape for l in losses]
    [(3,), (2,)]
    """
    check_step(net, X, y, devices, trainer)
    data = split_and_load(X, devices, even_split=False)
    label = split_and_load(y, devices, even_split=False)
    losses = forward_backward(net, data, label, loss)
    trainer.step(len(X))
    return losses


def evaluate_accuracy_gpus(net: Block, data_iter: Iterable[tuple[NDArray, NDArray]]) -> float:
    """Compute the share of examples that a network classifies right, on all its devices at once.

    Parameters
    ----------
    net : mxnet.gluon.Block
        Initialized on the devices that shall work. Each uses its own replica, with its own
        running statistics if there is batch normalization.
    data_iter : iterable
        Yields ``(X, y)``; each example counts once.

    Returns
    -------
    float
        0 to 1.

    Raises
    ------
    ValueError
        If the network is not initialized or the iterator yields nothing.

    Notes
    -----
    d2l's function of the same name; sources 002 and 003 use the first device only, and 003 counts
    the examples twice with which its iterator pads the last batch.

    Examples
    --------
    >>> net = lenet()
    >>> net.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    >>> 0 <= evaluate_accuracy_gpus(net, [(nd.zeros((3, 1, 28, 28)), nd.zeros(3))]) <= 1
    True
    """
    devices = devices_of(net)
    correct, seen = [nd.zeros(1, ctx=d) for d in devices], 0
    for X, y in data_iter:
        data = split_and_load(X, devices[: len(X)], even_split=False)
        label = split_and_load(y, devices[: len(X)], even_split=False)
        for total, X_d, y_d in zip(correct, data, label):
            total += (net(X_d).argmax(axis=1) == y_d).astype('float32').sum()
        seen += len(y)
    if not seen:
        raise ValueError('no examples to evaluate on: the iterator is empty or used up')
    return sum(total.asscalar() for total in correct) / seen


def average_running_stats(net: Block) -> None:
    """Give all replicas of a network the mean of their running statistics, in place.

    Parameters
    ----------
    net : mxnet.gluon.Block
        Initialized, with or without batch normalization.

    Raises
    ------
    ValueError
        If the network is not initialized.

    Notes
    -----
    Not in the sources. Running statistics have no gradient, so the ``Trainer`` leaves them as they
    are, different on every device. Gluon's ``save_parameters`` takes the same mean.

    Examples
    --------
    >>> net = resnet18_28(10)
    >>> net.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    >>> average_running_stats(net)
    """
    devices = devices_of(net)
    nd.waitall()  # a compiled backward pass may still be writing statistics, and MXNet not know it
    for param in net.collect_params('.*running_(mean|var)').values():
        if 0 not in param.shape:  # else deferred, and all replicas will start equal
            stats = param.list_data()
            allreduce(stats)
            for stat in stats:
                stat /= len(devices)


def prepare(
    net: Block,
    devices: Sequence[mx.Context],
    seed: int | None = None,
    initializer: Initializer | None = None,
) -> None:
    """Initialize a network on devices and compile it.

    Parameters
    ----------
    net : mxnet.gluon.Block
        Is initialized anew, and hybridized if it can be.
    devices : list of mxnet.Context
        Different devices; each gets a replica.
    seed : int, optional
        Of MXNet's own random numbers, on every device: the same seed, the same start.
    initializer : mxnet.init.Initializer, optional
        Draws the start parameters; Xavier's, as in source 002, unless given.

    Raises
    ------
    TypeError
        If ``net`` is no Gluon network or ``devices`` no list.
    ValueError
        If a device appears twice, or if the network contains a ``SyncBatchNorm`` and there are
        several devices; nothing is changed then.

    Notes
    -----
    The first lines of source 002's ``train`` and of 003's ``run``, and ``hybridize``. ResNet-18,
    128 examples on one stand-in, takes 221 ms a step like this, 266 without ``static_shape``.

    Networks with ``SyncBatchNorm`` on two stand-ins hung within a few steps in MXNet 1.9.1, also
    without ``hybridize``, and Ctrl-C did not help: each device blocks its only thread in its own
    next layer and waits for the other device, which waits in another layer.

    Examples
    --------
    >>> net = lenet()
    >>> prepare(net, [mx.cpu(0), mx.cpu(1)], seed=0)
    >>> devices_of(net)
    [cpu(0), cpu(1)]
    """
    checks.device_list(devices)
    check_network(net, devices)
    if seed is not None:
        mx.random.seed(seed)
    net.initialize(initializer or init.Xavier(), ctx=devices, force_reinit=True)
    net.hybridize(static_alloc=True, static_shape=True)


def make_trainer(net: Block, lr: float) -> gluon.Trainer:
    """Make a trainer, plain SGD, for the parameters of a network that have gradients.

    Parameters
    ----------
    net : mxnet.gluon.Block
        Initialized on one or several devices.
    lr : float
        Learning rate.

    Returns
    -------
    mxnet.gluon.Trainer
        Its ``step(n)`` sums the gradients over the devices and updates the replicas.

    Raises
    ------
    TypeError, ValueError
        If ``lr`` is not a number above 0, the network is not initialized, or none of its
        parameters has a gradient.

    Notes
    -----
    Sources 002 and 003 pass all parameters. In its first step a trainer copies all that it has
    from the first device to the others, running statistics included; and with ``static_shape``,
    MXNet 1.9.1 does not know that a backward pass is still going to write to these, so their
    first update is lost.

    The trainer keeps its default, by which its key-value store updates one copy of the weights as
    soon as a gradient is summed. With ``update_on_kvstore=False`` every device updates its own
    replica. On two stand-ins neither was faster: of what two independent processes reach, for
    ResNet-18, 0.94 and 0.93 in one measurement and 0.90 and 0.92 in another (0.955 if nothing is
    exchanged).

    Examples
    --------
    >>> net = lenet()
    >>> prepare(net, [mx.cpu(0), mx.cpu(1)])
    >>> make_trainer(net, lr=0.1).learning_rate
    0.1
    """
    checks.positive_number('lr', lr)
    devices_of(net)  # an error if the network is not initialized
    trained = [p for p in net.collect_params().values() if p.grad_req != 'null']
    if not trained:
        raise ValueError("no parameter has a gradient to train it by: all have grad_req 'null'")
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
    devices: Sequence[mx.Context] | None = None,
    initializer: Initializer | None = None,
    loss: Loss = loss,
) -> History:
    """Train a Gluon network with data parallelism, and say how it goes.

    Parameters
    ----------
    net : mxnet.gluon.Block
        Is initialized anew, on all devices, and hybridized if it can be.
    num_gpus : int
        How many devices; GPUs or stand-ins (see ``mgpu_helpers.devices``).
    batch_size : int
        Examples per batch, over all devices together.
    lr : float
        Learning rate.
    num_epochs : int
        Passes over the training set.
    load_data : callable
        ``load_data(batch_size, num_examples=..., seed=...)`` gives iterators over training and
        test batches, as ``load_data_fashion_mnist`` and ``load_data_mnist`` do.
    num_examples : int, optional
        Train on the first so many examples only.
    seed : int, optional
        Fixes start parameters and order: the same run again. MXNet's own random numbers start
        from it, too.
    devices : list of mxnet.Context, optional
        Your own choice of ``num_gpus`` devices.
    initializer : mxnet.init.Initializer, optional
        Draws the start parameters; Xavier's, as in source 002, unless given.
    loss : callable
        See ``forward_backward``.

    Returns
    -------
    History
        Seconds, training loss and test accuracy of each epoch.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, or if the last batch of an epoch would be smaller than the
        number of devices; nothing has been changed or printed then.

    Notes
    -----
    Sources 002's ``train`` and 003's ``run``; the time is that of training alone, as there. After
    each epoch the replicas' running statistics are averaged, so that the accuracy does not depend
    on the device.

    Examples
    --------
    >>> history = train(lenet(), 1, 64, 0.1, num_epochs=1, num_examples=512)
    ... # doctest: +ELLIPSIS
    running on: [...pu(0)]
    epoch 1, time: ... sec, test acc: 0...
    """
    devices = choose_devices(num_gpus, devices)
    checks.positive_int('num_epochs', num_epochs)
    checks.positive_number('lr', lr)
    train_iter, test_iter = load_data(batch_size, num_examples=num_examples, seed=seed)
    check_last_batch(train_iter, batch_size, devices)
    prepare(net, devices, seed, initializer)
    history = History(f'devices: {num_gpus}, batch: {batch_size}', train_iter.num_examples)
    step = partial(train_batch, net=net, devices=devices, trainer=make_trainer(net, lr), loss=loss)
    print('running on:', devices)
    for epoch in range(1, num_epochs + 1):
        start = time.time()
        with progress(train_iter, f'epoch {epoch}/{num_epochs}') as batches:
            train_loss = train_epoch(batches, step, ahead=min(16, 2 + len(train_iter) // 16))
        seconds = time.time() - start
        average_running_stats(net)
        test_acc = evaluate_accuracy_gpus(net, test_iter)
        history.add(seconds, train_loss, test_acc)
        print(f'epoch {epoch}, time: {seconds:.1f} sec, test acc: {test_acc:.4f}')
    return history
