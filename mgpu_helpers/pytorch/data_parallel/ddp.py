"""One process for each device: ``OwnDDP``, and PyTorch's own ``DistributedDataParallel``.

The same functions run in processes that ``launch`` starts, and in those of ``torchrun``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import takewhile
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ... import checks
from ...history import History
from ..ranks import agree_on, check_group, launch, load_in_turn, this_device
from ..stand_ins import num_gpus as count_gpus
from .from_scratch import (
    Batches,
    Tensors,
    init_params,
    load_data_fashion_mnist,
    loss,
    train_epochs,
)


def build_lenet(params: Tensors) -> nn.Sequential:
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
        """Compute what the network does."""
        return self.module(*args, **kwargs)


class OwnDDP(Replica):
    """Data parallelism by hand, for any network: gradients become their mean over the ranks.

    The backward pass starts the all-reduce of each gradient; ``finish()``, called before the
    optimizer's step, waits and divides. A step has one backward pass, and it must give every
    parameter that is not frozen a gradient. Buffers are equal at the start only.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__(module)
        # From the last layer to the first, about as the backward pass reaches them.
        self.params = [p for p in module.parameters() if p.requires_grad][::-1]
        self.there, self.sums = set(), []  # type: ignore[var-annotated]  # as in the notebook
        for p in self.params if self.size > 1 else []:
            # Called when ``p.grad`` is complete, while the layers before are still computed.
            p.register_post_accumulate_grad_hook(self.arrived)

    def arrived(self, param: Tensor) -> None:
        """Start the all-reduces of the gradients that are there."""
        check_first_pass(self, param)
        self.there.add(param)
        # A collective pairs what comes first on each rank, so all ranks keep the order of
        # ``params``: a gradient waits until those before it in the list are there.
        for p in takewhile(lambda p: p in self.there, self.params[len(self.sums) :]):
            self.sums.append(dist.all_reduce(p.grad, async_op=True))

    def finish(self) -> None:
        """Wait for the all-reduces, and divide by the number of ranks."""
        check_all_there(self)
        for p, work in zip(self.params, self.sums):
            work.wait()
            p.grad /= self.size  # type: ignore[assignment,operator]  # it has one
        self.there, self.sums = set(), []


def check_network(module: Any) -> None:
    """Raise unless this is a network itself, of which no part is wrapped or lies in shares."""
    parts = list(module.modules()) if isinstance(module, nn.Module) else [module]
    for part in parts:
        plain = isinstance(part, nn.Module) and not hasattr(part, 'wrapped')
        if not plain or isinstance(part, DistributedDataParallel | Replica):
            shown = checks.shown(part)
            raise TypeError(
                f'module must be the network itself, not wrapped nor in shares: {shown}'
            )


def check_first_pass(net: OwnDDP, param: Tensor) -> None:
    """Raise if a gradient changes while its all-reduce may be under way."""
    if param in net.there:
        raise RuntimeError(
            'a second backward pass before finish(): call finish() after each one, or add the '
            'losses up and call backward() once'
        )


def check_all_there(net: OwnDDP) -> None:
    """Raise if a gradient was not summed; perhaps those after it were not, either."""
    named = net.module.named_parameters() if net.size > 1 else ()
    wanted = set(net.params)
    missing = [n for n, p in named if p not in net.there and (p.requires_grad or p in wanted)]
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
    if isinstance(net, OwnDDP):
        net.finish()
    optimizer.step()
    return l.detach()


def evaluate_ddp(net: DistributedDataParallel | OwnDDP, data_iter: Batches) -> float:
    """Compute the accuracy, 0 to 1, over all ranks, each classifying its shard of every batch.

    First each rank gets the mean of all running statistics (batch normalization's), in place: with
    its own, each would classify by another network. Counters stay as they are.
    """
    check_wrapped(net)
    checks.pairs(data_iter)
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


def check_wrapped(net: object) -> None:
    """Raise unless the ranks of this group sum a network's gradients: else each trains its own."""
    check_group()
    fits = isinstance(net, DistributedDataParallel | OwnDDP)
    checks.expect(fits, 'net', 'DistributedDataParallel(net) or OwnDDP(net)', net)


def check_step(X: Tensor, y: Tensor, net: object, optimizer: object) -> None:
    """Raise unless one training step can be taken with these."""
    check_wrapped(net)
    checks.same_length(X, y)
    for name, a in (('X', X), ('y', y)):
        checks.for_device(name, a, this_device())
    fits = isinstance(optimizer, torch.optim.Optimizer)
    such = 'one of torch.optim, such as SGD(net.parameters(), 0.1)'
    checks.expect(fits, 'optimizer', such, optimizer)


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
    checks.training(num_epochs, lr)
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

    With the same seed, losses are those of ``train`` up to rounding. Each process has a GPU if
    there are that many, else a core. If one fails, all are stopped: ``ProcessFailed`` names it.
    """
    checks.training(num_epochs, lr)
    checks.enough_examples(num_gpus, batch_size)
    # Checks the other arguments, and fetches the data before anybody waits for it.
    load_data_fashion_mnist(batch_size, num_examples, seed, dtype)
    kind = 'cuda' if count_gpus() >= num_gpus else 'cpu'
    print('running on:', *(f'{kind}:{i}' for i in range(num_gpus)))
    arguments = batch_size, lr, num_epochs, num_examples, seed, dtype
    return launch(train_rank, num_gpus, *arguments, labels=False)[0]
