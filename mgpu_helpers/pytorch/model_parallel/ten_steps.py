"""Test chapter 7's ways to split a network: ten steps of Adam, compared with one device.

All use float64, and batches of 51 images, which neither 2 nor 4 divides.
"""

from __future__ import annotations

import functools
import itertools
import logging
import os
import warnings
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from ... import arguments, data
from ..data_parallel.lenet import load_data_fashion_mnist, loss
from ..ranks import load_in_turn, this_device
from .bytes_sent import Traffic
from .vit import vit

_meetings = itertools.count()  # all ranks count in step


class Trained(NamedTuple):
    """The result of ten steps on one of several ranks, or on a single device."""

    losses: np.ndarray  # (10,), each the mean over a batch
    params: dict[str, np.ndarray]  # by name
    held: list[int]  # bytes in the last step: parameters, gradients, optimizer state
    sent: int  # bytes that this rank sent in the last step

    def differs(self, one: Trained) -> float:
        """Return the largest relative difference from one device in losses and parameters."""
        a, b = (np.concatenate([t.params[n].ravel() for n in one.params]) for t in (self, one))
        far = np.linalg.norm(a - b) / np.linalg.norm(b)
        return float(max(far, *abs(self.losses / one.losses - 1)))

    def row(self, one: Trained) -> list[str]:
        """Return the difference, the bytes held and the bytes sent, as a row of a table."""
        return [f'{self.differs(one):.0e}', *(f'{n:,}' for n in (*self.held, self.sent))]


def nbytes(tensors: Iterable[Any]) -> int:
    """Count the bytes of memory that tensors use; memory that they share counts once."""
    here = [getattr(t, 'to_local', t.detach)().untyped_storage() for t in tensors]
    return sum({memory.data_ptr(): memory.nbytes() for memory in here}.values())


def shard_of(a: Tensor) -> Tensor:
    """Return this rank's rows of a batch, on its device."""
    return a.tensor_split(dist.get_world_size())[dist.get_rank()].to(this_device())


def ten_steps(
    net: nn.Module,
    gradients: Callable[[Tensor, Tensor], Tensor],
    optimizer: Any = None,
    step: Callable[[], object] | None = None,
    state: Callable[[], Any] | None = None,
    over: Any = None,
) -> Trained:
    """Take ten steps; ``gradients(X, y)`` computes the gradients and returns the loss.

    With a group ``over``, that loss is one rank's term, and the terms are summed. ``step`` replaces
    the optimizer's; ``state()`` returns the parameters by name, by default ``net``'s.
    """
    optimizer, losses = optimizer or torch.optim.Adam(net.parameters(), lr=1e-3), []
    warnings.filterwarnings('ignore', category=data.OfflineDataWarning)  # the notebook warned
    for X, y in load_in_turn(load_data_fashion_mnist, 51, 510, 0, 'float64')[0]:
        with Traffic() as traffic:
            losses.append(gradients(X, y).detach())
            params = [*net.parameters(), *(p for g in optimizer.param_groups for p in g['params'])]
            held = [nbytes(params), nbytes(p.grad for p in params if p.grad is not None)]
            (step or optimizer.step)()
        optimizer.zero_grad()
    means = torch.stack(losses)
    if over:
        dist.all_reduce(means, group=over)
    # On a two-axis mesh, gathering parameters warns about two sends; this is not part of a step.
    logging.getLogger('torch.distributed.tensor._redistribute').setLevel(logging.ERROR)
    found = state() if state else dict(net.named_parameters())
    values = {
        name.removeprefix('module.'): getattr(p, 'full_tensor', p.clone)().detach().cpu().numpy()
        for name, p in found.items()
    }
    own = getattr(optimizer, 'optim', optimizer)  # ZeroRedundancyOptimizer wraps another
    held.append(nbytes(t for kept in own.state.values() for t in kept.values() if t.dim()))
    return Trained(means.cpu().numpy(), values, held, traffic.total)


def train_by(prepare: Callable[[nn.Module], Any]) -> Trained:
    """Take ten steps on this rank's shard of every batch; gradients are means over the ranks.

    ``prepare(net)`` returns the network and, if they differ from the defaults, ``ten_steps``'s
    optimizer, step and state.
    """
    net, *more = prepare(vit().to(this_device()))

    def gradients(X: Tensor, y: Tensor) -> Tensor:
        term = loss(net(shard_of(X)), shard_of(y)).sum() / len(X)
        (term * dist.get_world_size()).backward()
        return term

    return ten_steps(net, gradients, *more, over=dist.group.WORLD)  # type: ignore[misc]


class _Watch(TorchDispatchMode):
    """Record matrix products so far, and bytes of parameters and gradients, at each operation."""

    products = {torch.ops.aten.mm, torch.ops.aten.addmm, torch.ops.aten.bmm}

    def __init__(self, params: list[Tensor]) -> None:
        super().__init__()
        self.params, self.done = params, 0
        self.held: list[tuple[int, int]] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        out = function(*args, **kwargs or {})
        self.done += function.overloadpacket in self.products
        now = nbytes(t for p in self.params for t in (p, p.grad) if t is not None)
        self.held.append((self.done, now))
        return out


def held_over_time(prepare: Callable[[nn.Module], Any]) -> list[tuple[int, int]]:
    """Return the bytes of parameters and gradients on this rank after each operation.

    ``prepare`` is as for ``train_by``. Each number of bytes follows a time, counted in matrix
    products: negative in the forward pass, 0 where the backward pass begins.
    """
    net, optimizer, *_ = prepare(vit().to(this_device()))
    batch = next(iter(load_in_turn(load_data_fashion_mnist, 51, 51, 0, 'float64')[0]))
    X, y = map(shard_of, batch)
    watch = _Watch([*net.parameters(), *(p for g in optimizer.param_groups for p in g['params'])])
    with watch:
        mean = loss(net(X), y).mean()
        forward = watch.done
        mean.backward()
    return [(done - forward, held) for done, held in watch.held]


def group_of(k: int) -> bool:
    """Put the first ``k`` ranks into a group; return whether this one is in it. All call it."""
    arguments.whole_number('k', k, least=1, most=int(os.environ['WORLD_SIZE']))
    rank, store = int(os.environ['RANK']), dist.PrefixStore(f'{next(_meetings)}', _meeting_place())
    if dist.is_initialized():
        dist.destroy_process_group()
    if rank < k:
        dist.init_process_group(store=store, rank=rank, world_size=k, timeout=timedelta(seconds=20))
    return rank < k


@functools.cache
def _meeting_place() -> dist.Store:
    """Return a store whose server, on the first rank, outlives the groups that meet there."""
    place = os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT'])
    return dist.TCPStore(*place, is_master=os.environ['RANK'] == '0', multi_tenant=True)
