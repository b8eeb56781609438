"""One process for each device: ``OwnDDP``, and PyTorch's own ``DistributedDataParallel``.

The same functions run in processes that ``launch`` starts, and in those of ``torchrun``.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ... import arguments
from ..ranks import check_group, this_device
from .from_scratch import Tensors, loss


def build_lenet(params: Tensors) -> nn.Sequential:
    """Build ``scratch.lenet`` from PyTorch's layers, with the values of ``init_params``."""
    arguments.check(params=params)
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


class Replica(nn.Module):
    """A network, ``.module``, that begins with rank 0's parameters and buffers.

    In a process that belongs to no group, or is alone in it, it stays as it is.
    """

    def __init__(self, module: nn.Module) -> None:
        check_network(module)
        super().__init__()
        self.module = module
        self.size = dist.get_world_size() if dist.is_initialized() else 1
        if self.size > 1:
            for tensor in [*module.parameters(), *module.buffers()]:
                dist.broadcast(tensor.detach(), src=0)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)


class OwnDDP(Replica):
    """Data parallelism by hand, for any network: gradients become their mean over the ranks.

    The backward pass divides each gradient by their number and starts its all-reduce; ``finish()``,
    called before the optimizer's step, waits. A step has one backward pass, and it must give every
    parameter that is not frozen a gradient. Buffers are equal at the start only.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__(module)
        # From the last layer to the first, about as the backward pass reaches them; none if alone.
        self.params = [p for p in module.parameters() if p.requires_grad and self.size > 1][::-1]
        self.ready, self.works = set(), []  # type: ignore[var-annotated]  # as in the notebook
        # Called when ``p.grad`` is complete, while the layers before are still computed.
        self.hooks = [p.register_post_accumulate_grad_hook(self.arrived) for p in self.params]

    def arrived(self, param: Tensor) -> None:
        """Start the all-reduces of the gradients that are there."""
        check_first_pass(self, param)
        self.ready.add(param)
        # A collective pairs what comes first on each rank, so all ranks keep the order of
        # ``params``: a gradient waits until those before it in the list are there.
        for p in takewhile(lambda p: p in self.ready, self.params[len(self.works) :]):
            self.works.append(dist.all_reduce(p.grad.div_(self.size), async_op=True))  # type: ignore[union-attr]

    def finish(self) -> None:
        """Wait for the all-reduces."""
        check_all_there(self)
        for work in self.works:
            work.wait()
        self.ready, self.works = set(), []


def check_network(module: Any) -> None:
    """Raise unless this is a network itself, of which no part is wrapped."""
    parts = list(module.modules()) if isinstance(module, nn.Module) else [module]
    for part in parts:
        if not isinstance(part, nn.Module) or isinstance(part, DistributedDataParallel | Replica):
            shown = arguments.shown(part)
            raise TypeError(f'module must be the network itself, not wrapped: {shown}')


def check_first_pass(net: OwnDDP, param: Tensor) -> None:
    """Raise if a gradient changes while its all-reduce may be under way."""
    if param in net.ready:
        raise RuntimeError(
            'a second backward pass before finish(): call finish() after each one, or add the '
            'losses up and call backward() once'
        )


def check_all_there(net: OwnDDP) -> None:
    """Raise if a gradient was not summed; perhaps those after it were not, either."""
    named = net.module.named_parameters() if net.size > 1 else ()
    wanted = set(net.params)
    missing = [n for n, p in named if p not in net.ready and (p.requires_grad or p in wanted)]
    if missing:
        raise RuntimeError(
            f'no gradient was summed for {", ".join(missing)}: each parameter must take part in '
            'each backward pass, on every rank; freeze it, requires_grad_(False), before wrapping, '
            "or take PyTorch's DistributedDataParallel(net, find_unused_parameters=True)"
        )


def ddp_step(
    X: Tensor, y: Tensor, net: DistributedDataParallel | OwnDDP, optimizer: torch.optim.Optimizer
) -> Tensor:
    """Train on this rank's shard of one batch, which is the same in every process; give its losses.

    A rank without an example adds a gradient of 0.
    """
    check_step(X, y, net, optimizer)
    rank, size = dist.get_rank(), dist.get_world_size()
    X_rank = torch.tensor_split(X, size)[rank].to(this_device())
    y_rank = torch.tensor_split(y, size)[rank].to(this_device())
    l = loss(net(X_rank), y_rank)
    optimizer.zero_grad()
    # All-reduce gives the mean over the ranks; times size, over the batch's length, it is the mean
    # over the examples, however uneven the shards.
    (l.sum() * size / len(X)).backward()
    if hasattr(net, 'finish'):
        net.finish()  # type: ignore[operator]
    optimizer.step()
    return l.detach()


def check_wrapped(net: object) -> None:
    """Raise unless the ranks of this group sum a network's gradients: else each trains its own."""
    check_group()
    fits = isinstance(net, DistributedDataParallel | OwnDDP)
    arguments.expect(fits, 'net', 'DistributedDataParallel(net) or OwnDDP(net)', net)


def check_step(X: Tensor, y: Tensor, net: object, optimizer: object) -> None:
    """Raise unless one training step can be taken with these."""
    check_wrapped(net)
    arguments.same_length(X, y)
    for name, a in (('X', X), ('y', y)):
        arguments.for_device(name, a, this_device())
    fits = isinstance(optimizer, torch.optim.Optimizer)
    such = 'one of torch.optim, such as SGD(net.parameters(), 0.1)'
    arguments.expect(fits, 'optimizer', such, optimizer)
