"""The concise version: ``DistributedDataParallel``, one process for each device.

The same functions run in processes that ``launch`` starts, and in those of ``torchrun``:
``torchrun --nproc-per-node=2 -m mgpu_helpers.pytorch``.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Sequence

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from .. import checks
from ..display import progress
from ..history import History
from .devices import num_gpus as count_gpus
from .group import agree_on, check_group, launch, load_in_turn, this_device
from .scratch import init_params, load_data_fashion_mnist, loss


def build_lenet(params: Sequence[torch.Tensor]) -> nn.Sequential:
    """Build ``scratch.lenet`` from PyTorch's layers, with the values of ``init_params``."""
    checks.lenet(params)
    net = nn.Sequential(
        nn.Conv2d(1, 20, kernel_size=3), nn.ReLU(), nn.AvgPool2d(kernel_size=2, stride=2),
        nn.Conv2d(20, 50, kernel_size=5), nn.ReLU(), nn.AvgPool2d(kernel_size=2, stride=2),
        nn.Flatten(), nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip
    net.to(params[0].dtype)
    with torch.no_grad():
        for p, start in zip(net.parameters(), params):
            p.copy_(start.T if start.dim() == 2 else start)  # Linear keeps its weight transposed
    return net


def ddp_step(
    X: torch.Tensor, y: torch.Tensor, net: DistributedDataParallel, optimizer: torch.optim.Optimizer
) -> torch.Tensor:
    """Train on this rank's shard of one batch, which is the same in every process; give its losses.

    ``DistributedDataParallel`` sums gradients over the ranks and divides by their number. So that
    the result is the mean over the *examples*, shards uneven or not, the loss of a rank is its sum
    times the number of ranks over the size of the batch. A rank without an example adds a gradient
    of 0.
    """
    check_group()
    checks.same_length(X, y)
    rank, size = dist.get_rank(), dist.get_world_size()
    X_rank = torch.tensor_split(X, size)[rank].to(this_device())
    y_rank = torch.tensor_split(y, size)[rank].to(this_device())
    l = loss(net(X_rank), y_rank)
    optimizer.zero_grad()
    (l.sum() * size / len(X)).backward()
    optimizer.step()
    return l.detach()


def evaluate_ddp(
    net: DistributedDataParallel, data_iter: Iterable[tuple[torch.Tensor, torch.Tensor]]
) -> float:
    """Compute the accuracy, 0 to 1, over all ranks, each classifying its shard of every batch.

    First each rank gets the mean of all running statistics (batch normalization's), in place, as in
    chapter 2: with its own, each would classify by another network. Counters stay as they are.
    """
    check_evaluation(net, data_iter)
    rank, size = dist.get_rank(), dist.get_world_size()
    for stat in net.buffers():
        if stat.is_floating_point():
            dist.all_reduce(stat)
            stat /= size
    counts = torch.zeros(2, dtype=torch.int64, device=this_device())  # right, seen
    net.eval()
    with torch.no_grad():
        for X, y in data_iter:
            X_rank, y_rank = (torch.tensor_split(a, size)[rank].to(this_device()) for a in (X, y))
            counts[0] += (net.module(X_rank).argmax(dim=1) == y_rank).sum()
            counts[1] += len(y_rank)
    net.train()
    dist.all_reduce(counts)
    right, seen = counts.tolist()
    checks.any_examples(seen)
    return right / seen


def check_evaluation(net: object, data_iter: object) -> None:
    """Raise unless a network can be evaluated in this group."""
    check_group()
    checks.pairs(data_iter)
    if not isinstance(net, DistributedDataParallel):
        raise TypeError(f'net must be DistributedDataParallel(net), not {checks.shown(net)}')


def train_rank(
    batch_size: int,
    lr: float,
    num_epochs: int = 4,
    num_examples: int | None = None,
    seed: int | None = None,
    dtype: str = 'float32',
) -> History:
    """Train LeNet in one of several processes; every rank calls this with the same arguments.

    They are those of ``train``; without a seed, the ranks agree on one. The losses and accuracies
    are the same in every process.
    """
    check_group()
    checks.positive_int('num_epochs', num_epochs)
    checks.positive_number('lr', lr)
    first, size = dist.get_rank() == 0, dist.get_world_size()
    seed = agree_on(seed)
    load = load_data_fashion_mnist
    train_iter, test_iter = load_in_turn(load, batch_size, num_examples, seed, dtype)
    net = build_lenet(init_params(seed=seed, dtype=dtype)).to(this_device())
    net = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr)
    history = History(f'DDP, devices: {size}, batch: {batch_size}', train_iter.num_examples)
    for epoch in range(1, num_epochs + 1):
        start, total = time.perf_counter(), 0
        bar = progress(train_iter, f'epoch {epoch}/{num_epochs}')
        with bar if first else contextlib.nullcontext(train_iter) as batches:
            for X, y in batches:
                total += ddp_step(X, y, net, optimizer).double().sum()
        dist.all_reduce(total)
        train_loss, seconds = total.item() / train_iter.num_examples, time.perf_counter() - start  # type: ignore[union-attr]
        history.add(seconds, train_loss, evaluate_ddp(net, test_iter))
        if first:
            print(f'epoch {epoch}, time: {seconds:.1f} sec, test acc: {history.test_acc[-1]:.2f}')
    return history


def train_ddp(
    num_gpus: int,
    batch_size: int,
    lr: float,
    num_epochs: int = 4,
    num_examples: int | None = None,
    seed: int | None = None,
    dtype: str = 'float32',
) -> History:
    """Train LeNet on Fashion-MNIST with ``DistributedDataParallel``, one process for each device.

    Arguments as of ``train``; with the same seed, the same start, the same batches and, up to
    rounding, the same losses. Each process has a GPU if there are that many, else a core. If one
    fails, all are stopped, and ``ProcessFailed`` names it.
    """
    checks.positive_int('num_gpus', num_gpus)
    checks.positive_int('num_epochs', num_epochs)
    checks.positive_number('lr', lr)
    # Checks the other arguments, and fetches the data before anybody waits for it.
    load_data_fashion_mnist(batch_size, num_examples, seed, dtype)
    kind = 'cuda' if count_gpus() >= num_gpus else 'cpu'
    print('running on:', *(f'{kind}:{i}' for i in range(num_gpus)))
    arguments = batch_size, lr, num_epochs, num_examples, seed, dtype
    return launch(train_rank, num_gpus, *arguments, labels=False)[0]
