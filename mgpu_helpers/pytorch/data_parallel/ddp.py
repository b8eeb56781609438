"""Take a training step on several ranks, with shards of any length."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from ... import arguments
from ..ranks import check_group, this_device
from .lenet import loss


def ddp_step(
    X: Tensor, y: Tensor, net: DistributedDataParallel, optimizer: torch.optim.Optimizer
) -> Tensor:
    """Train on this rank's shard of a batch that all ranks pass whole; return the shard's losses.

    A rank without examples contributes a gradient of 0.
    """
    check_step(X, y, net, optimizer)
    rank, size = dist.get_rank(), dist.get_world_size()
    X_rank = torch.tensor_split(X, size)[rank].to(this_device())
    y_rank = torch.tensor_split(y, size)[rank].to(this_device())
    l = loss(net(X_rank), y_rank)
    optimizer.zero_grad()
    # DDP averages over the ranks. Times the number of ranks, divided by the batch's length, that
    # is the mean over the examples, however uneven the shards.
    (l.sum() * size / len(X)).backward()
    optimizer.step()
    return l.detach()


def check_step(X: Tensor, y: Tensor, net: object, optimizer: object) -> None:
    """Raise unless these arguments allow one training step."""
    check_group()
    fits = isinstance(net, DistributedDataParallel)  # otherwise each rank would train alone
    arguments.expect(fits, 'net', 'DistributedDataParallel(net)', net)
    arguments.same_length(X, y)
    for name, a in (('X', X), ('y', y)):
        arguments.for_device(name, a, this_device())
    fits = isinstance(optimizer, torch.optim.Optimizer)
    such = 'from torch.optim, such as SGD(net.parameters(), 0.1)'
    arguments.expect(fits, 'optimizer', such, optimizer)
