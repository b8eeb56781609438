"""Whole trainings, a process for each device: ``train_rank`` in each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ... import arguments
from ...history import History
from ..ranks import agree_on, check_group, load_in_turn, this_device
from .ddp import OwnDDP, build_lenet, check_wrapped, ddp_step
from .from_scratch import Batches, init_params, load_data_fashion_mnist, train_epochs


def evaluate_ddp(net: DistributedDataParallel | OwnDDP, data_iter: Batches) -> float:
    """Compute the accuracy, 0 to 1, over all ranks, each classifying its shard of every batch.

    First rank 0's buffers (batch normalization's running statistics) replace the others', as DDP
    does before each forward pass: with its own, each rank would classify by another network.
    """
    check_wrapped(net)
    arguments.check(data_iter=data_iter)
    rank, size = dist.get_rank(), dist.get_world_size()
    for buffer in net.buffers():
        dist.broadcast(buffer, src=0)
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
    arguments.any_examples(seen)
    return right / seen


def train_rank(
    batch_size: int,
    lr: float,
    num_epochs: int = 4,
    num_examples: int | None = None,
    seed: int | None = None,
    dtype: str = 'float32',
    wrap: Callable[[nn.Module], Any] = DistributedDataParallel,
) -> History:
    """Train LeNet in one of several processes; every rank calls this with the same arguments.

    ``wrap`` may be ``OwnDDP``; without a seed, the ranks agree on one. All get the same history.
    """
    check_group()
    arguments.check(num_epochs=num_epochs, lr=lr)
    first, size = dist.get_rank() == 0, dist.get_world_size()
    seed = agree_on(seed)
    load = load_data_fashion_mnist
    train_iter, test_iter = load_in_turn(load, batch_size, num_examples, seed, dtype)
    net = wrap(build_lenet(init_params(seed=seed, dtype=dtype)).to(this_device()))
    optimizer = torch.optim.SGD(net.parameters(), lr)
    history = History(f'DDP, devices: {size}, batch: {batch_size}', train_iter.num_examples)

    def epoch(batches: Batches) -> float:
        total = sum(ddp_step(X, y, net, optimizer).double().sum() for X, y in batches)
        dist.all_reduce(total)
        return total.item() / train_iter.num_examples  # type: ignore[union-attr]

    evaluate = partial(evaluate_ddp, net, test_iter)
    return train_epochs(history, num_epochs, train_iter, epoch, evaluate, first)
