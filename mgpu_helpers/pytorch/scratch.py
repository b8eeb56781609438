"""Data parallelism from scratch in PyTorch: chapter 1's functions, name by name.

Source 004 is the original; where ours differs, it says why. Functions marked ``#@save`` in
``notebooks/05-multiple-gpus-pytorch.ipynb`` stand here, and a test holds the two equal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from .. import checks, data
from ..display import progress
from ..history import History
from .devices import choose_devices, on_each, place, synchronize

if TYPE_CHECKING:
    from ..data import Batches
    from .devices import Device

    Sync = Callable[[list[list[torch.Tensor]]], None]  # leaves the same sum on every device

loss = nn.CrossEntropyLoss(reduction='none')


def init_params(
    scale: float = 0.01, seed: int | None = None, dtype: str = 'float32'
) -> list[torch.Tensor]:
    """Draw LeNet's start parameters.

    Parameters
    ----------
    scale : float
        Standard deviation of the weights; biases start at 0. The sources' 0.01 is small: the
        first epoch on Fashion-MNIST hardly leaves chance level.
    seed : int, optional
        The same seed gives the numbers of chapter 1's function: they are drawn with NumPy.
    dtype : str
        ``'float32'``, ``'float64'`` or ``'float16'``.

    Returns
    -------
    list of torch.Tensor
        ``[W1, b1, W2, b2, W3, b3, W4, b4]`` on the CPU: (20, 1, 3, 3), (20,), (50, 20, 5, 5),
        (50,), (800, 128), (128,), (128, 10), (10,); 129,068 values.

    Raises
    ------
    TypeError, ValueError
        If ``scale`` is not a number above 0.

    Examples
    --------
    >>> sum(p.numel() for p in init_params(seed=0))
    129068
    """
    checks.positive_number('scale', scale)
    rng = np.random.default_rng(seed)
    shapes = [(20, 1, 3, 3), (20,), (50, 20, 5, 5), (50,), (800, 128), (128,), (128, 10), (10,)]
    values = [rng.normal(0, scale, s) if len(s) > 1 else np.zeros(s) for s in shapes]
    return [torch.from_numpy(v.astype(dtype)) for v in values]


def lenet(X: torch.Tensor, params: Sequence[torch.Tensor]) -> torch.Tensor:
    """Compute LeNet's scores for a batch, on the device on which the tensors are.

    Parameters
    ----------
    X : torch.Tensor, shape (n, 1, 28, 28)
        Images, values in [0, 1].
    params : list of torch.Tensor
        As ``init_params`` gives them, on the device of ``X``.

    Returns
    -------
    torch.Tensor, shape (n, 10)
        A score for each class.

    Raises
    ------
    RuntimeError
        If the tensors are on different devices or of different types.

    Notes
    -----
    Source 004's network, which is chapter 1's.

    Examples
    --------
    >>> lenet(torch.zeros(2, 1, 28, 28), init_params(seed=0)).shape
    torch.Size([2, 10])
    """
    W1, b1, W2, b2, W3, b3, W4, b4 = params
    h1 = F.avg_pool2d(F.relu(F.conv2d(X, W1, b1)), kernel_size=2, stride=2)
    h2 = F.avg_pool2d(F.relu(F.conv2d(h1, W2, b2)), kernel_size=2, stride=2)
    h3 = F.relu(h2.flatten(1) @ W3 + b3)
    return h3 @ W4 + b4


def get_params(params: Sequence[torch.Tensor], device: Device) -> list[torch.Tensor]:
    """Copy parameters to a device and let each copy have a gradient.

    Parameters
    ----------
    params : list of torch.Tensor
        On any device; not changed.
    device : torch.device or StandIn
        Where the copies live.

    Returns
    -------
    list of torch.Tensor
        The replica: same values, in memory of its own, with ``requires_grad``. Each ``.grad`` is
        ``None`` until the first backward pass.

    Raises
    ------
    TypeError
        If ``device`` is not a device.

    Notes
    -----
    Source 004, whose text says that the gradients are 0 now.

    Examples
    --------
    >>> from mgpu_helpers.pytorch import StandIn
    >>> replica = get_params(init_params(seed=0), StandIn(1))
    >>> replica[1].requires_grad, replica[1].grad
    (True, None)
    """
    new_params = [p.detach().to(place(device), copy=True) for p in params]
    for p in new_params:
        p.requires_grad_()
    return new_params


def allreduce(data: Sequence[torch.Tensor]) -> None:
    """Sum tensors that live on different devices, in place: afterwards each holds the sum.

    Parameters
    ----------
    data : list of torch.Tensor
        One tensor per device, all of one shape and type. Changed in place.

    Raises
    ------
    ValueError
        If the list is empty or the shapes differ; nothing is changed then.
    TypeError
        If it is not a list of tensors, or the types differ; nothing is changed then.

    Notes
    -----
    Source 004 ends with ``data[i] = data[0].to(...)``, which puts another tensor into the list
    instead of the sum into the tensor: its replicas drift apart.

    Examples
    --------
    >>> data = [torch.ones(1, 2) * (i + 1) for i in range(2)]
    >>> allreduce(data)
    >>> data[1].tolist()
    [[3.0, 3.0]]
    """
    checks.alike(data)
    total = data[0]
    for x in data[1:]:
        total += x.to(total.device)
    for x in data[1:]:
        x.copy_(total)


def scatter(data: torch.Tensor, devices: Sequence[Device]) -> list[torch.Tensor]:
    """Cut a batch into one shard per device and copy each shard to its device.

    Parameters
    ----------
    data : torch.Tensor, shape (n, ...)
        The batch.
    devices : list of torch.device or StandIn
        k different devices, at most n.

    Returns
    -------
    list of torch.Tensor
        k shards, in order; the first n mod k have one example more than the rest. On stand-ins
        they share the memory of ``data``.

    Raises
    ------
    ValueError
        If ``data`` is empty or has fewer examples than there are devices, or if a device appears
        twice.

    Notes
    -----
    Source 004 uses ``nn.parallel.scatter``, which refuses CPUs and cuts like ``torch.chunk``: 9
    examples for 4 devices become 3, 3 and 3, and the fourth device gets nothing. Ours cuts as
    chapter 1's ``split_and_load`` does: 3, 2, 2, 2.

    Examples
    --------
    >>> from mgpu_helpers.pytorch import StandIn
    >>> [s.tolist() for s in scatter(torch.arange(5), [StandIn(0), StandIn(1)])]
    [[0, 1, 2], [3, 4]]
    """
    checks.can_split(data, devices, even_split=False)
    shards = torch.tensor_split(data, len(devices))
    return [shard.to(place(d)) for shard, d in zip(shards, devices)]


def split_batch(
    X: torch.Tensor, y: torch.Tensor, devices: Sequence[Device]
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Cut examples and labels in the same places, one shard per device, even or not.

    Parameters
    ----------
    X : torch.Tensor, shape (n, ...)
        Examples.
    y : torch.Tensor, shape (n,)
        Their labels.
    devices : list of torch.device or StandIn
        At most n different devices.

    Returns
    -------
    tuple of two lists of torch.Tensor
        Shards of ``X`` and shards of ``y``.

    Raises
    ------
    ValueError
        If the lengths differ; else as ``scatter``.

    Notes
    -----
    Source 004's function.

    Examples
    --------
    >>> from mgpu_helpers.pytorch import StandIn
    >>> Xs, ys = split_batch(torch.zeros(6, 4), torch.arange(6), [StandIn(0), StandIn(1)])
    >>> ys[1].tolist()
    [3, 4, 5]
    """
    checks.same_length(X, y)
    return scatter(X, devices), scatter(y, devices)


def forward_backward(
    X: torch.Tensor, y: torch.Tensor, params: Sequence[torch.Tensor]
) -> torch.Tensor:
    """Compute losses and gradients of one shard, on its device.

    Parameters
    ----------
    X : torch.Tensor, shape (n, 1, 28, 28)
        Images.
    y : torch.Tensor of int64, shape (n,)
        Labels, 0 to 9.
    params : list of torch.Tensor
        The replica on that device; each ``.grad`` becomes the gradient of the summed loss.

    Returns
    -------
    torch.Tensor, shape (n,)
        The loss of each example.

    Notes
    -----
    In source 004 a part of ``train_batch``. Here it is a function because a stand-in's thread must
    have something to call.

    Examples
    --------
    >>> replica = [p.requires_grad_() for p in init_params(seed=0)]
    >>> forward_backward(torch.zeros(3, 1, 28, 28), torch.zeros(3).long(), replica).shape
    torch.Size([3])
    """
    for p in params:
        p.grad = None  # PyTorch would add to what is there
    l = loss(lenet(X, params), y)
    l.sum().backward()
    return l.detach()


def sgd(params: Sequence[torch.Tensor], lr: float, batch_size: int) -> None:
    """Take one step of stochastic gradient descent, in place.

    Parameters
    ----------
    params : list of torch.Tensor
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
    d2l's ``sgd``, which source 004 calls, also sets the gradients to 0; ours leaves them to be
    looked at, and ``forward_backward`` begins without them.

    Examples
    --------
    >>> p = torch.ones(2, requires_grad=True)
    >>> p.grad = torch.full((2,), 8.0)
    >>> sgd([p], lr=0.5, batch_size=4)
    >>> p.tolist()
    [0.0, 0.0]
    """
    checks.positive_number('lr', lr)
    checks.positive_int('batch_size', batch_size)
    with torch.no_grad():
        for p in params:
            p -= lr / batch_size * p.grad  # type: ignore[operator]  # it has one


def sync_gradients(grads: Sequence[Sequence[torch.Tensor]]) -> None:
    """Sum the gradients over the devices, one ``allreduce`` for each parameter, in place.

    Parameters
    ----------
    grads : list of list of torch.Tensor
        ``grads[c][i]`` is device c's gradient of parameter i.

    Raises
    ------
    TypeError, ValueError
        As ``allreduce``.

    Examples
    --------
    >>> grads = [[torch.ones(2)] for c in range(3)]
    >>> sync_gradients(grads)
    >>> grads[2][0].tolist()
    [3.0, 3.0]
    """
    for grads_of_one_param in zip(*grads):
        allreduce(list(grads_of_one_param))


def train_batch(
    X: torch.Tensor,
    y: torch.Tensor,
    device_params: Sequence[Sequence[torch.Tensor]],
    devices: Sequence[Device],
    lr: float,
    sync: Sync = sync_gradients,
) -> list[torch.Tensor]:
    """Train on one batch: split, forward and backward on each device, sum, update.

    Parameters
    ----------
    X : torch.Tensor, shape (n, 1, 28, 28)
        Images.
    y : torch.Tensor of int64, shape (n,)
        Labels, 0 to 9.
    device_params : list of list of torch.Tensor
        One replica per device, updated in place.
    devices : list of torch.device or StandIn
        k different devices. If k > n, the last k - n see no example and add a gradient of 0.
    lr : float
        Learning rate.
    sync : callable
        Called with ``grads[c][i]``; leaves the same sum on every device.

    Returns
    -------
    list of torch.Tensor
        Per device with examples, the loss of each example.

    Raises
    ------
    TypeError, ValueError
        If the batch is empty, lengths differ, a device appears twice, or replicas do not match
        the devices; nothing is changed then.

    Notes
    -----
    Source 004's function, with ``on_each`` in the place of its two loops over devices.

    Examples
    --------
    >>> from mgpu_helpers.pytorch import StandIn
    >>> devices = [StandIn(0), StandIn(1)]
    >>> replicas = [get_params(init_params(seed=0), d) for d in devices]
    >>> X, y = torch.zeros(5, 1, 28, 28), torch.zeros(5).long()
    >>> [l.shape for l in train_batch(X, y, replicas, devices, lr=0.1)]
    [torch.Size([3]), torch.Size([2])]
    """
    checks.step(X, y, device_params, devices, lr)
    Xs, ys = split_batch(X, y, devices[: len(X)])
    ls = on_each(devices, forward_backward, Xs, ys, device_params)
    for params in device_params[len(ls) :]:
        for p in params:
            p.grad = torch.zeros_like(p)
    sync([[p.grad for p in params] for params in device_params])  # type: ignore[misc]  # all have one
    on_each(devices, partial(sgd, lr=lr, batch_size=len(X)), device_params)
    return ls


class TensorIter:
    """Batches of ``data.Batches`` as tensors on the CPU; labels are whole numbers.

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

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for X, y in self.batches:
            yield torch.from_numpy(X), torch.from_numpy(y).long()


def load_data_fashion_mnist(
    batch_size: int,
    num_examples: int | None = None,
    seed: int | None = None,
    dtype: str = 'float32',
) -> tuple[TensorIter, TensorIter]:
    """Load Fashion-MNIST: iterators over training and test batches.

    Parameters
    ----------
    batch_size : int
        Examples per batch.
    num_examples : int, optional
        Train on the first so many examples; by default on all 60,000.
    seed : int, optional
        Fixes the order, which is that of chapter 1 under the same seed; every epoch has an order
        of its own.
    dtype : str
        Type of the images.

    Returns
    -------
    tuple of two TensorIter
        They yield ``X``, shape (batch, 1, 28, 28), values in [0, 1], and ``y``, int64, shape
        (batch,).

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    Notes
    -----
    d2l's function of the same name needs torchvision; ours reads the course's own files.

    Examples
    --------
    >>> train_iter, test_iter = load_data_fashion_mnist(256, num_examples=1000, seed=0)
    >>> [len(X) for X, y in train_iter]
    [256, 256, 256, 232]
    """
    train_batches, test_batches = data.load_arrays(
        'fashion-mnist', batch_size, num_examples, seed, dtype
    )
    return TensorIter(train_batches), TensorIter(test_batches)


def evaluate_accuracy(
    net: Callable[[torch.Tensor], torch.Tensor],
    data_iter: Iterable[tuple[torch.Tensor, torch.Tensor]],
    device: Device,
) -> float:
    """Compute the share of examples that a network classifies right, on one device.

    Parameters
    ----------
    net : callable
        Maps images on ``device`` to scores, shape (n, classes).
    data_iter : iterable
        Yields ``(X, y)``; each example counts once.
    device : torch.device or StandIn
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
    d2l's ``evaluate_accuracy_gpu``, which source 004 calls.

    Examples
    --------
    >>> from mgpu_helpers.pytorch import StandIn
    >>> batch = torch.tensor([[0.1, 0.9], [0.8, 0.2]]), torch.tensor([1, 1])
    >>> evaluate_accuracy(lambda X: X, [batch], StandIn(0))
    0.5
    """
    correct, seen = 0, 0
    with torch.no_grad():
        for X, y in data_iter:
            right = net(X.to(place(device))).argmax(dim=1) == y.to(place(device))
            correct += right.sum()
            seen += len(y)
    if not seen:
        raise ValueError('no examples to evaluate on: the iterator is empty or used up')
    return int(correct) / seen


def total_loss(losses: Sequence[Sequence[torch.Tensor]]) -> float:
    """Add up losses from any devices; this waits for them.

    Parameters
    ----------
    losses : list of list of torch.Tensor
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
    >>> total_loss([[torch.ones(3), torch.ones(2)]])
    5.0
    """
    if not losses:
        raise ValueError('no losses to add up: the iterator gave no batch')
    return torch.cat([l.cpu() for ls in losses for l in ls]).double().sum().item()


def train_epoch(
    train_iter: Iterable[tuple[torch.Tensor, torch.Tensor]],
    step: Callable[[torch.Tensor, torch.Tensor], Sequence[torch.Tensor]],
    devices: Sequence[Device] = (),
) -> float:
    """Train on every batch once.

    Parameters
    ----------
    train_iter : iterable
        Yields ``(X, y)``.
    step : callable
        ``step(X, y)`` trains on one batch and gives its losses back, as ``train_batch`` does.
    devices : list of torch.device or StandIn
        Waited for at the end, so that a clock stopped afterwards has measured all the work.

    Returns
    -------
    float
        Mean loss per example, taken while the parameters moved.

    Raises
    ------
    ValueError
        If there is no batch; else as ``step``.

    Notes
    -----
    The inner loop of source 004's ``train``, which waits for its GPUs after every batch. Here the
    losses stay where they are until the end; what waits is the copy in ``scatter``.

    Examples
    --------
    >>> from mgpu_helpers.pytorch import StandIn
    >>> replica = get_params(init_params(seed=0), StandIn(0))
    >>> batch = torch.zeros(5, 1, 28, 28), torch.zeros(5).long()
    >>> step = lambda X, y: train_batch(X, y, [replica], [StandIn(0)], lr=0.1)
    >>> round(train_epoch([batch], step), 4)
    2.3026
    """
    losses = [step(X, y) for X, y in train_iter]
    total = total_loss(losses)
    synchronize(devices)
    return total / sum(len(l) for ls in losses for l in ls)


def train(
    num_gpus: int,
    batch_size: int,
    lr: float,
    num_epochs: int = 4,
    num_examples: int | None = None,
    seed: int | None = None,
    devices: Sequence[Device] | None = None,
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
        Passes over the training set (source 004: 10).
    num_examples : int, optional
        Train on the first so many examples only.
    seed : int, optional
        Fixes start parameters and order: the same run again.
    devices : list of torch.device or StandIn, optional
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
    Source 004's function with chapter 1's arguments. In a notebook it draws the accuracy as it
    goes. The time is that of training alone, as there.

    Examples
    --------
    >>> history = train(1, 256, 0.2, num_epochs=1, num_examples=512)  # doctest: +ELLIPSIS
    running on: ...:0
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
    step = partial(train_batch, device_params=device_params, devices=devices, lr=lr, sync=sync)
    history = History(f'devices: {num_gpus}, batch: {batch_size}', train_iter.num_examples)
    print('running on:', *devices)
    history.live(num_epochs)
    for epoch in range(1, num_epochs + 1):
        start = time.time()
        with progress(train_iter, f'epoch {epoch}/{num_epochs}') as batches:
            train_loss = train_epoch(batches, step, devices)
        seconds = time.time() - start
        test_acc = evaluate_accuracy(lambda X: lenet(X, device_params[0]), test_iter, devices[0])
        history.add(seconds, train_loss, test_acc)
        print(f'epoch {epoch}, time: {seconds:.1f} sec, test acc: {test_acc:.2f}')
    return history
