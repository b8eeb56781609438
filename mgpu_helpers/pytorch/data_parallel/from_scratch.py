"""Data parallelism from scratch in PyTorch: chapter 1's functions, name by name.

The original is *Dive into Deep Learning*'s chapter on multiple GPUs from scratch, in an old PyTorch
edition; where ours differs, it says why.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ... import arguments, data
from ...display import progress
from ...history import History
from ..stand_ins import Device, choose_devices, on_each, place, synchronize

Tensors: TypeAlias = Sequence[Tensor]
Batches: TypeAlias = Iterable[tuple[Tensor, Tensor]]
Sync: TypeAlias = Callable[[list[list[Tensor]]], None]  # leaves the same sum on every device

loss = nn.CrossEntropyLoss(reduction='none')


def init_params(
    scale: float = 0.01, seed: int | None = None, dtype: str = 'float32'
) -> list[Tensor]:
    """Draw LeNet's start parameters ``[W1, b1, ..., W4, b4]``, 129,068 values, on the CPU.

    ``scale`` is the standard deviation of the weights; biases start at 0. With the original's 0.01
    the first epoch on Fashion-MNIST hardly leaves chance level. The same seed gives the numbers of
    chapter 1's function: they are drawn with NumPy.
    """
    arguments.check(scale=scale, seed=seed, dtype=dtype)
    rng = np.random.default_rng(seed)
    shapes = [(20, 1, 3, 3), (20,), (50, 20, 5, 5), (50,), (800, 128), (128,), (128, 10), (10,)]
    values = [rng.normal(0, scale, s) if len(s) > 1 else np.zeros(s) for s in shapes]
    return [torch.from_numpy(v.astype(dtype)) for v in values]


def lenet(X: Tensor, params: Tensors) -> Tensor:
    """Compute LeNet's scores (n, 10) for images ``X`` (n, 1, 28, 28), values in [0, 1]."""
    arguments.inputs(X, params)
    W1, b1, W2, b2, W3, b3, W4, b4 = params
    h1 = F.avg_pool2d(F.relu(F.conv2d(X, W1, b1)), kernel_size=2, stride=2)  # (n, 20, 13, 13)
    h2 = F.avg_pool2d(F.relu(F.conv2d(h1, W2, b2)), kernel_size=2, stride=2)
    h3 = F.relu(h2.flatten(1) @ W3 + b3)  # (n, 50, 4, 4) becomes (n, 800), then (n, 128)
    return h3 @ W4 + b4


def get_params(params: Tensors, device: Device) -> list[Tensor]:
    """Copy parameters to a device and let each copy have a gradient.

    Each ``.grad`` is ``None`` until the first backward pass (the original says 0).
    """
    arguments.list_of_arrays('params', params, 'as init_params gives')
    arguments.device('device', device)
    return [p.detach().to(place(device), copy=True).requires_grad_() for p in params]


def allreduce(data: Tensors) -> None:
    """Sum tensors on different devices, in place: afterwards each holds the sum.

    The original ends with ``data[i] = data[0].to(...)``: that puts another tensor into the list,
    not the sum into the tensor, and replicas drift apart.
    """
    arguments.one_per_device(data)
    total = data[0]
    for x in data[1:]:
        total += x.to(total.device)
    for x in data[1:]:
        x.copy_(total)


def scatter(data: Tensor, devices: Sequence[Device]) -> list[Tensor]:
    """Cut a batch (n, ...) into k shards, in order, and copy each to its device.

    The first n mod k have one example more than the rest; on stand-ins they share the memory of
    ``data``. The original's ``nn.parallel.scatter`` refuses CPUs and cuts as ``torch.chunk`` does:
    9 examples for 4 devices become 3, 3 and 3; ours become 3, 2, 2 and 2.
    """
    arguments.batch(data, None, devices, each=True)
    shards = torch.tensor_split(data, len(devices))
    return [shard.to(place(d)) for shard, d in zip(shards, devices)]


def split_batch(
    X: Tensor, y: Tensor, devices: Sequence[Device]
) -> tuple[list[Tensor], list[Tensor]]:
    """Cut examples (n, ...) and labels (n,) in the same places, one shard per device."""
    arguments.batch(X, y, devices)
    return scatter(X, devices), scatter(y, devices)


def forward_backward(X: Tensor, y: Tensor, params: Tensors) -> Tensor:
    """Compute the losses (n,) of one shard; each ``.grad`` becomes the gradient of their sum."""
    for p in params:
        p.grad = None  # PyTorch would add to what is there
    l = loss(lenet(X, params), y)
    l.sum().backward()
    return l.detach()


def sgd(params: Tensors, lr: float, batch_size: int) -> None:
    """Take one step of stochastic gradient descent, in place; gradients are sums over the batch."""
    arguments.positive_number('lr', lr)
    arguments.positive_int('batch_size', batch_size)
    arguments.with_gradients(params)
    with torch.no_grad():
        for p in params:
            p -= lr / batch_size * p.grad  # type: ignore[operator]  # it has one


def sync_gradients(grads: Sequence[Tensors]) -> None:
    """Sum each parameter's gradients ``grads[c][i]`` over the devices c, in place."""
    arguments.lists_of_gradients(grads)
    for grads_of_one_param in zip(*grads):
        allreduce(list(grads_of_one_param))


def train_batch(
    X: Tensor,
    y: Tensor,
    device_params: Sequence[Tensors],
    devices: Sequence[Device],
    lr: float,
    sync: Sync = sync_gradients,
) -> list[Tensor]:
    """Train on one batch: split, forward and backward on each device, sum, update in place.

    Gives the losses of each device that had examples. ``sync(grads)`` leaves the same sum on every
    device. The original loops over the devices where this calls ``on_each``.
    """
    arguments.training_step(X, y, device_params, devices, lr, sync)
    Xs, ys = split_batch(X, y, devices[: len(X)])
    ls = on_each(devices, forward_backward, Xs, ys, device_params)
    for params in device_params[len(ls) :]:  # devices without an example add a gradient of 0
        for p in params:
            p.grad = torch.zeros_like(p)
    sync([[p.grad for p in params] for params in device_params])  # type: ignore[misc]  # all have one
    on_each(devices, partial(sgd, lr=lr, batch_size=len(X)), device_params)
    return ls


class TensorIter:
    """``data.Batches`` as tensors on the CPU: ``X`` (n, 1, 28, 28), ``y`` (n,) int64."""

    def __init__(self, batches: data.Batches) -> None:
        self.batches, self.num_examples = batches, batches.num_examples

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for X, y in self.batches:
            yield torch.from_numpy(X), torch.from_numpy(y).long()


def load_data_fashion_mnist(
    batch_size: int,
    num_examples: int | None = None,
    seed: int | None = None,
    dtype: str = 'float32',
) -> tuple[TensorIter, TensorIter]:
    """Load Fashion-MNIST: iterators over training and test batches, values in [0, 1].

    ``num_examples``: train on the first so many of 60,000. The same seed gives the orders of
    chapter 1. The last batch may be smaller.
    """
    train, test = data.load_arrays('fashion-mnist', batch_size, num_examples, seed, dtype)
    return TensorIter(train), TensorIter(test)


def evaluate_accuracy(net: Callable[[Tensor], Tensor], data_iter: Batches, device: Device) -> float:
    """Compute the share of examples, 0 to 1, that a network on ``device`` classifies correctly."""
    arguments.check(net=net, data_iter=data_iter, device=device)
    correct, seen = 0, 0
    with torch.no_grad():
        for X, y in data_iter:
            arguments.same_length(X, y, flat=True)
            right = net(X.to(place(device))).argmax(dim=1) == y.to(place(device))
            correct += right.sum()
            seen += len(y)
    arguments.any_examples(seen)
    return int(correct) / seen


def total_loss(losses: Sequence[Tensors]) -> float:
    """Add up what ``train_batch`` gave back for one or several batches; this waits for it."""
    if not losses:
        raise ValueError('no losses to add up: the iterator gave no batch')
    arguments.check(losses=losses)
    return torch.cat([l.cpu() for ls in losses for l in ls]).double().sum().item()


def train_epoch(
    train_iter: Batches, step: Callable[[Tensor, Tensor], Tensors], devices: Sequence[Device] = ()
) -> float:
    """Train on every batch once by ``step(X, y)``; give the mean loss, taken as parameters moved.

    At the end it waits for ``devices``, so that a clock stopped afterwards has measured all the
    work. The original waits after every batch.
    """
    arguments.check(step=step)
    arguments.batches('train_iter', train_iter)
    losses = [step(X, y) for X, y in train_iter]
    total = total_loss(losses)
    synchronize(devices)
    return total / sum(len(l) for ls in losses for l in ls)


def train_epochs(
    history: History,
    num_epochs: int,
    train_iter: Batches,
    epoch: Callable[[Batches], float],
    evaluate: Callable[[], float],
    first: bool = True,
) -> History:
    """Train and evaluate epoch by epoch; record each epoch, which the ``first`` rank prints.

    ``epoch(batches)`` gives the mean loss. The seconds are those of training alone.
    """
    for number in range(1, num_epochs + 1):
        start = time.perf_counter()
        bar = progress(train_iter, f'epoch {number}/{num_epochs}')
        with bar if first else contextlib.nullcontext(train_iter) as batches:
            train_loss = epoch(batches)
        seconds, test_acc = time.perf_counter() - start, evaluate()
        history.add(seconds, train_loss, test_acc)
        if first:
            print(f'epoch {number}, time: {seconds:.1f} sec, test acc: {test_acc:.2f}')
    return history


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
    """Train LeNet on Fashion-MNIST with data parallelism, printing a line per epoch.

    ``batch_size`` is that over all devices together; the seed fixes start and order. The original
    trains for 10 epochs.
    """
    arguments.training(num_gpus, batch_size, num_epochs=num_epochs, lr=lr, sync=sync)
    devices = choose_devices(num_gpus, devices)
    train_iter, test_iter = load_data_fashion_mnist(batch_size, num_examples, seed, dtype)
    params = init_params(seed=seed, dtype=dtype)
    device_params = [get_params(params, d) for d in devices]
    step = partial(train_batch, device_params=device_params, devices=devices, lr=lr, sync=sync)
    net = partial(lenet, params=device_params[0])
    history = History(f'devices: {num_gpus}, batch: {batch_size}', train_iter.num_examples)
    print('running on:', *devices)
    epoch = partial(train_epoch, step=step, devices=devices)
    evaluate = partial(evaluate_accuracy, net, test_iter, devices[0])
    return train_epochs(history, num_epochs, train_iter, epoch, evaluate)
