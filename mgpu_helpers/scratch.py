"""Chapter 1: data parallelism from scratch - copy, split, sum, update.

Every function marked ``#@save`` in ``notebooks/01-multiple-gpus-scratch.ipynb`` stands here, and a
test holds the two equal. Sources 000 and 001 are the originals; where ours differs, it says why.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd

from . import checks, data
from .devices import choose_devices
from .display import progress
from .history import History

if TYPE_CHECKING:
    from mxnet.ndarray import NDArray

    from .data import Batches

    Sync = Callable[[list[list[NDArray]]], None]  # leaves the same sum on every device

loss = gluon.loss.SoftmaxCrossEntropyLoss()


def init_params(
    scale: float = 0.01, seed: int | None = None, dtype: str = 'float32'
) -> list[NDArray]:
    """Draw LeNet's start parameters.

    Parameters
    ----------
    scale : float
        Standard deviation of the weights; biases start at 0. The sources' 0.01 is small: the
        first epoch on Fashion-MNIST hardly leaves chance level (0.10 to 0.15).
    seed : int, optional
        The same seed gives the same numbers, in every framework: they are drawn with NumPy.
    dtype : str
        ``'float32'``, ``'float64'`` or ``'float16'``.

    Returns
    -------
    list of NDArray
        ``[W1, b1, W2, b2, W3, b3, W4, b4]`` on the CPU: (20, 1, 3, 3), (20,), (50, 20, 5, 5),
        (50,), (800, 128), (128,), (128, 10), (10,); 129,068 values.

    Raises
    ------
    TypeError, ValueError
        If ``scale`` is not a number above 0.

    Examples
    --------
    >>> sum(p.size for p in init_params(seed=0))
    129068
    """
    checks.positive_number('scale', scale)
    rng = np.random.default_rng(seed)
    shapes = [(20, 1, 3, 3), (20,), (50, 20, 5, 5), (50,), (800, 128), (128,), (128, 10), (10,)]
    values = [rng.normal(0, scale, s) if len(s) > 1 else np.zeros(s) for s in shapes]
    return [nd.array(v, ctx=mx.cpu(), dtype=dtype) for v in values]


def lenet(X: NDArray, params: Sequence[NDArray]) -> NDArray:
    """Compute LeNet's scores for a batch, on the device on which the arrays are.

    Parameters
    ----------
    X : NDArray, shape (n, 1, 28, 28)
        Images, values in [0, 1].
    params : list of NDArray
        As ``init_params`` gives them, on the device of ``X``.

    Returns
    -------
    NDArray, shape (n, 10)
        A score for each class.

    Raises
    ------
    MXNetError
        If the arrays are on different devices or of different types.

    Notes
    -----
    Source 000's and 001's network. Their ``nd.relu`` is ``nd.Activation`` here, the same function,
    which leaves images in the order in which oneDNN's convolution writes them: 27.3 instead of 29.4
    ms a batch of 256 on two stand-ins.

    Examples
    --------
    >>> lenet(nd.zeros((2, 1, 28, 28)), init_params(seed=0)).shape
    (2, 10)
    """
    W1, b1, W2, b2, W3, b3, W4, b4 = params
    h1_conv = nd.Convolution(X, W1, b1, kernel=(3, 3), num_filter=20)
    h1 = nd.Pooling(nd.Activation(h1_conv, 'relu'), pool_type='avg', kernel=(2, 2), stride=(2, 2))
    h2_conv = nd.Convolution(h1, W2, b2, kernel=(5, 5), num_filter=50)
    h2 = nd.Pooling(nd.Activation(h2_conv, 'relu'), pool_type='avg', kernel=(2, 2), stride=(2, 2))
    h3 = nd.relu(nd.dot(nd.flatten(h2), W3) + b3)
    return nd.dot(h3, W4) + b4


def get_params(params: Sequence[NDArray], device: mx.Context) -> list[NDArray]:
    """Copy parameters to a device and give each copy room for its gradient.

    Parameters
    ----------
    params : list of NDArray
        On any device; not changed.
    device : mxnet.Context
        Where the copies live.

    Returns
    -------
    list of NDArray
        The replica: same values, with gradients attached (all 0).

    Raises
    ------
    TypeError
        If ``device`` is not a device.

    Notes
    -----
    Sources 000 and 001.

    Examples
    --------
    >>> replica = get_params(init_params(seed=0), mx.cpu(1))
    >>> replica[1].context
    cpu(1)
    """
    new_params = [p.copyto(device) for p in params]
    for p in new_params:
        p.attach_grad()
    return new_params


def allreduce(data: Sequence[NDArray]) -> None:
    """Sum arrays that live on different devices, in place: afterwards each holds the sum.

    Parameters
    ----------
    data : list of NDArray
        One array per device, all of one shape and type. Changed in place.

    Raises
    ------
    ValueError
        If the list is empty or the shapes differ; nothing is changed then.
    TypeError
        If it is not a list of arrays, or the types differ; nothing is changed then.

    Notes
    -----
    Sources 000 and 001: sum on the first device, then copy the sum to the others. (Source 004
    assigns to the list's entries instead of into the arrays, so its sum never arrives.)

    Examples
    --------
    >>> data = [nd.ones((1, 2), ctx=mx.cpu(i)) * (i + 1) for i in range(2)]
    >>> allreduce(data)
    >>> data[1].asnumpy().tolist()
    [[3.0, 3.0]]
    """
    checks.alike(data)
    total = data[0]
    for x in data[1:]:
        total += x.copyto(total.context)
    for x in data[1:]:
        total.copyto(x)


def split_and_load(
    data: NDArray, devices: Sequence[mx.Context], even_split: bool = True
) -> list[NDArray]:
    """Cut a batch into one shard per device and copy each shard to its device.

    Parameters
    ----------
    data : NDArray, shape (n, ...)
        The batch.
    devices : list of mxnet.Context
        k devices.
    even_split : bool
        If true (as in the sources), k must divide n. If false, the first n mod k shards get one
        example more than the rest.

    Returns
    -------
    list of NDArray
        k shards, in order; a shard for the device of ``data`` shares its memory.

    Raises
    ------
    ValueError
        If ``data`` is empty or has fewer examples than there are devices, if a device appears
        twice, or if the split cannot be even and should be.

    Notes
    -----
    Sources 000 and 001, with ``even_split`` as Gluon's function of the same name has it.

    Examples
    --------
    >>> shards = split_and_load(nd.arange(7), [mx.cpu(0), mx.cpu(1)], even_split=False)
    >>> [s.size for s in shards]
    [4, 3]
    """
    checks.can_split(data, devices, even_split)
    n, k = data.shape[0], len(devices)
    cuts = [i * (n // k) + min(i, n % k) for i in range(k + 1)]
    return [data[a:b].as_in_context(d) for a, b, d in zip(cuts, cuts[1:], devices)]


def split_batch(
    X: NDArray, y: NDArray, devices: Sequence[mx.Context]
) -> tuple[list[NDArray], list[NDArray]]:
    """Cut examples and labels in the same places, one shard per device, even or not.

    Parameters
    ----------
    X : NDArray, shape (n, ...)
        Examples.
    y : NDArray, shape (n,)
        Their labels.
    devices : list of mxnet.Context
        At most n different devices.

    Returns
    -------
    tuple of two lists of NDArray
        Shards of ``X`` and shards of ``y``.

    Raises
    ------
    ValueError
        If the lengths differ; else as ``split_and_load``.

    Notes
    -----
    The counterpart of source 004's function.

    Examples
    --------
    >>> Xs, ys = split_batch(nd.zeros((6, 4)), nd.arange(6), [mx.cpu(0), mx.cpu(1)])
    >>> ys[1].asnumpy().tolist()
    [3.0, 4.0, 5.0]
    """
    checks.same_length(X, y)
    return split_and_load(X, devices, False), split_and_load(y, devices, False)


def sgd(params: Sequence[NDArray], lr: float, batch_size: int) -> None:
    """Take one step of stochastic gradient descent, in place.

    Parameters
    ----------
    params : list of NDArray
        With gradients, which are sums over the batch.
    lr : float
        Learning rate.
    batch_size : int
        Examples in the whole batch, over which the gradient is averaged.

    Raises
    ------
    TypeError, ValueError
        If ``lr`` is not a number above 0 or ``batch_size`` not an integer of at least 1.

    Notes
    -----
    The sources' ``sgd``. (MXNet's own ``sgd_update`` is one operator instead of two, but rounds
    ``lr`` and the batch size to float32 whatever the type of the array: an error of 2e-7 a step
    in float64.)

    Examples
    --------
    >>> p = nd.ones(2)
    >>> p.attach_grad()
    >>> p.grad[:] = 8
    >>> sgd([p], lr=0.5, batch_size=4)
    >>> p.asnumpy().tolist()
    [0.0, 0.0]
    """
    checks.positive_number('lr', lr)
    checks.positive_int('batch_size', batch_size)
    for p in params:
        p -= lr / batch_size * p.grad


def sync_gradients(grads: Sequence[Sequence[NDArray]]) -> None:
    """Sum the gradients over the devices, one ``allreduce`` for each parameter, in place.

    Parameters
    ----------
    grads : list of list of NDArray
        ``grads[c][i]`` is device c's gradient of parameter i.

    Raises
    ------
    TypeError, ValueError
        As ``allreduce``.

    Notes
    -----
    The loop in the middle of the sources' ``train_batch``; later chapters put better ones in its
    place.

    Examples
    --------
    >>> grads = [[nd.ones(2, ctx=mx.cpu(c))] for c in range(3)]
    >>> sync_gradients(grads)
    >>> grads[2][0].asnumpy().tolist()
    [3.0, 3.0]
    """
    for grads_of_one_param in zip(*grads):
        allreduce(list(grads_of_one_param))


def train_batch(
    X: NDArray,
    y: NDArray,
    device_params: Sequence[Sequence[NDArray]],
    devices: Sequence[mx.Context],
    lr: float,
    sync: Sync = sync_gradients,
) -> list[NDArray]:
    """Train on one batch: split, forward and backward on each device, sum, update.

    Parameters
    ----------
    X : NDArray, shape (n, 1, 28, 28)
        Images.
    y : NDArray, shape (n,)
        Labels, 0 to 9.
    device_params : list of list of NDArray
        One replica per device, updated in place.
    devices : list of mxnet.Context
        k different devices. If k > n, the last k - n see no example and add a gradient of 0.
    lr : float
        Learning rate.
    sync : callable
        Called with ``grads[c][i]``; leaves the same sum on every device.

    Returns
    -------
    list of NDArray
        Per device with examples, the loss of each example. Nothing is waited for: the arrays
        fill while Python goes on.

    Raises
    ------
    TypeError, ValueError
        If the batch is empty, lengths differ, a device appears twice, or replicas do not match
        the devices; nothing is changed then.

    Notes
    -----
    Sources 000 and 001, which accept only batches that k divides.

    Examples
    --------
    >>> devices = [mx.cpu(0), mx.cpu(1)]
    >>> replicas = [get_params(init_params(seed=0), d) for d in devices]
    >>> losses = train_batch(nd.zeros((5, 1, 28, 28)), nd.zeros(5), replicas, devices, lr=0.1)
    >>> [l.shape for l in losses]
    [(3,), (2,)]
    """
    checks.step(X, y, device_params, devices, lr)
    Xs, ys = split_batch(X, y, devices[: len(X)])
    with autograd.record():
        ls = [loss(lenet(X_d, params), y_d) for X_d, y_d, params in zip(Xs, ys, device_params)]
    for l in ls:
        l.backward()
    for params in device_params[len(ls) :]:
        for p in params:
            p.grad[:] = 0
    sync([[p.grad for p in params] for params in device_params])
    for params in device_params:
        sgd(params, lr, len(X))
    return ls


class NDArrayIter:
    """Batches of ``data.Batches`` as NDArrays on the CPU, where the sources' iterators put them.

    Parameters
    ----------
    batches : mgpu_helpers.data.Batches
        Has a length; each pass over it is one epoch.
    """

    def __init__(self, batches: Batches) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    @property
    def num_examples(self) -> int:
        """int: examples per epoch."""
        return self.batches.num_examples

    def skip(self, epochs: int) -> None:
        """Count epochs as done, as when a run resumes; see ``data.Batches.skip``."""
        self.batches.skip(epochs)

    def __iter__(self) -> Iterator[tuple[NDArray, NDArray]]:
        # nd.array waits for device 0's queue, twice an array, and wakes Python on device 0's core:
        # with two arrays a batch, two stand-ins took a millisecond of 46 longer than as here, where
        # several batches, 4,096 examples, become one array, and a batch is a view of it.
        size = self.batches.batch_size
        for X, y in self.batches.groups(max(1, 4096 // size)):
            X, y = nd.array(X, mx.cpu(), X.dtype), nd.array(y, mx.cpu(), y.dtype)
            for i in range(0, len(X), size):
                yield X[i : i + size], y[i : i + size]


def load_data_fashion_mnist(
    batch_size: int,
    num_examples: int | None = None,
    seed: int | None = None,
    dtype: str = 'float32',
) -> tuple[NDArrayIter, NDArrayIter]:
    """Load Fashion-MNIST: iterators over training and test batches.

    Parameters
    ----------
    batch_size : int
        Examples per batch.
    num_examples : int, optional
        Train on the first so many examples; by default on all 60,000.
    seed : int, optional
        Fixes the order; every epoch has an order of its own.
    dtype : str
        Type of both arrays of a batch.

    Returns
    -------
    tuple of two NDArrayIter
        They yield ``X``, shape (batch, 1, 28, 28), values in [0, 1], and ``y``, shape (batch,).

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    Notes
    -----
    The sources' function of the same name. Where the data cannot be had, a warning says so and
    scikit-learn's digits take its place (see ``mgpu_helpers.data``).

    Examples
    --------
    >>> train_iter, test_iter = load_data_fashion_mnist(256, num_examples=1000, seed=0)
    >>> [X.shape for X, y in train_iter]
    [(256, 1, 28, 28), (256, 1, 28, 28), (256, 1, 28, 28), (232, 1, 28, 28)]
    """
    return _load('fashion-mnist', batch_size, num_examples, seed, dtype)


def load_data_mnist(
    batch_size: int,
    num_examples: int | None = None,
    seed: int | None = None,
    dtype: str = 'float32',
) -> tuple[NDArrayIter, NDArrayIter]:
    """Load MNIST; everything else is as in ``load_data_fashion_mnist``.

    Examples
    --------
    >>> train_iter, test_iter = load_data_mnist(64)
    >>> len(train_iter), len(test_iter)
    (938, 157)
    """
    return _load('mnist', batch_size, num_examples, seed, dtype)


def _load(*args: Any) -> tuple[NDArrayIter, NDArrayIter]:
    train_batches, test_batches = data.load_arrays(*args)
    return NDArrayIter(train_batches), NDArrayIter(test_batches)


def evaluate_accuracy(
    net: Callable[[NDArray], NDArray],
    data_iter: Iterable[tuple[NDArray, NDArray]],
    device: mx.Context,
) -> float:
    """Compute the share of examples that a network classifies right, on one device.

    Parameters
    ----------
    net : callable
        Maps images on ``device`` to scores, shape (n, classes).
    data_iter : iterable
        Yields ``(X, y)``; each example counts once.
    device : mxnet.Context
        Where ``net`` computes.

    Returns
    -------
    float
        0 to 1.

    Raises
    ------
    ValueError
        If the iterator yields nothing.

    Notes
    -----
    Sources 000 and 001; the count stays on the device until the end, so nothing waits in between.

    Examples
    --------
    >>> batch = nd.array([[0.1, 0.9], [0.8, 0.2]]), nd.array([1, 1])
    >>> evaluate_accuracy(lambda X: X, [batch], mx.cpu(0))
    0.5
    """
    correct, seen = nd.zeros(1, ctx=device), 0
    for X, y in data_iter:
        right = net(X.as_in_context(device)).argmax(axis=1) == y.as_in_context(device)
        correct += right.astype('float32').sum()
        seen += len(y)
    if not seen:
        raise ValueError('no examples to evaluate on: the iterator is empty or used up')
    return correct.asscalar() / seen


def total_loss(losses: Sequence[Sequence[NDArray]]) -> float:
    """Add up losses from any devices; this waits for them.

    Parameters
    ----------
    losses : list of list of NDArray
        What ``train_batch`` returned, for one or several batches.

    Returns
    -------
    float
        The sum over all examples.

    Raises
    ------
    ValueError
        If there are none.

    Examples
    --------
    >>> float(total_loss([[nd.ones(3, ctx=mx.cpu(0)), nd.ones(2, ctx=mx.cpu(1))]]))
    5.0
    """
    if not losses:
        raise ValueError('no losses to add up: the iterator gave no batch')
    here = [l.as_in_context(mx.cpu()) for ls in losses for l in ls]
    return nd.concat(*here, dim=0).astype('float64').sum().asscalar()


def train_epoch(
    train_iter: Iterable[tuple[NDArray, NDArray]],
    step: Callable[[NDArray, NDArray], Sequence[NDArray]],
    ahead: int = 16,
) -> float:
    """Train on every batch once.

    Parameters
    ----------
    train_iter : iterable
        Yields ``(X, y)``.
    step : callable
        ``step(X, y)`` trains on one batch and gives its losses back, as ``train_batch`` does.
    ahead : int
        Python runs this many to twice as many batches ahead of the devices.

    Returns
    -------
    float
        Mean loss per example, taken while the parameters moved.

    Raises
    ------
    TypeError, ValueError
        If there is no batch, or ``ahead`` is not an integer of at least 1; else as ``step``.

    Notes
    -----
    The inner loop of the sources' ``train``, which wait for every batch (``ahead=1`` comes close).
    With stand-ins, Python takes its 3 ms a batch from one core, that device is late, and the other
    waits for it. Handing out many batches at once leaves most of that to the gaps: on two cores,
    two devices, batch 256, 46 ms a batch with ``ahead=2``, 45.3 with 8, 44.3 with 16, 44.5 with 40.

    Examples
    --------
    >>> replica = get_params(init_params(seed=0), mx.cpu(0))
    >>> batch = nd.zeros((5, 1, 28, 28)), nd.zeros(5)
    >>> step = lambda X, y: train_batch(X, y, [replica], [mx.cpu(0)], lr=0.1)
    >>> round(train_epoch([batch], step), 4)
    2.3026
    """
    checks.positive_int('ahead', ahead)
    total, seen, pending = 0, 0, []
    for X, y in train_iter:
        pending.append(step(X, y))
        seen += len(X)
        if len(pending) == 2 * ahead:
            total += total_loss(pending[:ahead])
            del pending[:ahead]
    total += total_loss(pending)
    nd.waitall()
    return total / seen


def train(
    num_gpus: int,
    batch_size: int,
    lr: float,
    num_epochs: int = 4,
    num_examples: int | None = None,
    seed: int | None = None,
    devices: Sequence[mx.Context] | None = None,
    sync: Sync = sync_gradients,
    dtype: str = 'float32',
) -> History:
    """Train LeNet on Fashion-MNIST with data parallelism, and say how it goes.

    Parameters
    ----------
    num_gpus : int
        How many devices; GPUs or stand-ins (see ``devices``).
    batch_size : int
        Examples per batch, over all devices together.
    lr : float
        Learning rate.
    num_epochs : int
        Passes over the training set.
    num_examples : int, optional
        Train on the first so many examples only.
    seed : int, optional
        Fixes start parameters and order: the same run again, bit for bit.
    devices : list of mxnet.Context, optional
        Your own choice of ``num_gpus`` devices.
    sync : callable
        How gradients are summed; see ``train_batch``.
    dtype : str
        Of images, parameters and gradients.

    Returns
    -------
    History
        Seconds, training loss and test accuracy of each epoch.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; nothing has been loaded or printed then.

    Notes
    -----
    Source 000's and 001's function; the time is that of training alone, as there.

    Examples
    --------
    >>> history = train(1, 256, 0.2, num_epochs=1, num_examples=512)  # doctest: +ELLIPSIS
    running on: [...pu(0)]
    epoch 1, time: ... sec, test acc: 0...
    >>> len(history.test_acc)
    1
    """
    devices = choose_devices(num_gpus, devices)
    checks.positive_int('num_epochs', num_epochs)
    checks.positive_number('lr', lr)
    train_iter, test_iter = load_data_fashion_mnist(batch_size, num_examples, seed, dtype)
    params = init_params(seed=seed, dtype=dtype)
    device_params = [get_params(params, d) for d in devices]
    history = History(f'devices: {num_gpus}, batch: {batch_size}', train_iter.num_examples)
    step = partial(train_batch, device_params=device_params, devices=devices, lr=lr, sync=sync)
    print('running on:', devices)
    for epoch in range(1, num_epochs + 1):
        start = time.time()
        with progress(train_iter, f'epoch {epoch}/{num_epochs}') as batches:
            train_loss = train_epoch(batches, step)
        seconds = time.time() - start
        test_acc = evaluate_accuracy(lambda X: lenet(X, device_params[0]), test_iter, devices[0])
        history.add(seconds, train_loss, test_acc)
        print(f'epoch {epoch}, time: {seconds:.1f} sec, test acc: {test_acc:.2f}')
    return history
