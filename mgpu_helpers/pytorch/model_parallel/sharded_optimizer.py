"""ZeRO 1 for any network: an optimizer whose state lies in shares, one a rank."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from ... import arguments
from ..ranks import check_group
from .shares import gather_parts, part, reduce_scatter_parts

# Those that treat each number by itself. Others (LBFGS, Adafactor, Muon) look at whole tensors, or
# at several steps at once: on shares they would compute another thing, without a word.
ELEMENTWISE = 'SGD Adam AdamW NAdam RAdam Adamax Adadelta Adagrad ASGD RMSprop Rprop'
KNOWN = {getattr(torch.optim, name) for name in ELEMENTWISE.split()}
# State that has one number a tensor, in optimizers of PyTorch, also where that is a number itself.
COUNTS = ('step', 'mu_product', 'eta', 'mu')


def check_by_value(optimizer_class: Any, elementwise: bool) -> None:
    """Raise unless this is a class of optimizers that can work on shares; a subclass may not."""
    is_class = isinstance(optimizer_class, type)
    fits = is_class and issubclass(optimizer_class, torch.optim.Optimizer)
    such = (
        'a class of optimizers that treat each value by itself, such as torch.optim.AdamW; of one '
        'of your own that does, say elementwise=True'
    )
    fits = fits and (elementwise or optimizer_class in KNOWN)
    arguments.expect(fits, 'optimizer_class', such, optimizer_class)


def _by_value(name: str, state: object, like: torch.Tensor) -> bool:
    """Tell whether a piece of an optimizer's state has a number for each value of a tensor."""
    of_each = isinstance(state, torch.Tensor) and state.shape == like.shape
    return of_each and name not in COUNTS


class ShardedOptimizer(torch.optim.Optimizer):
    """Any optimizer that treats each value by itself, its state sharded over the ranks (ZeRO 1).

    ``ShardedOptimizer(net.parameters(), torch.optim.AdamW, lr=1e-3)``, with a network or with DDP:
    ``step`` takes the mean of the gradients over the ranks. (So clip and unscale in DDP only.)
    ``state_dict`` is the whole, as of ``optimizer_class``, and fits any number of ranks.
    All ranks call each method, and begin with rank 0's values. Of a class that is not PyTorch's,
    say ``elementwise=True``.
    """

    inner: Any = None  # the optimizer of this rank's shards

    def __init__(
        self,
        params: Any,
        optimizer_class: type[torch.optim.Optimizer],
        elementwise: bool = False,
        **options: Any,
    ) -> None:
        check_group()
        check_by_value(optimizer_class, elementwise)
        plain = optimizer_class(params, **options)  # checks all, and fills in the options
        self.make: Any = partial(optimizer_class, **options)
        self.shards: dict[torch.Tensor, nn.Parameter] = {}  # of each parameter, in order
        self.lots: list[list[torch.Tensor]] = []  # parameters that travel together
        super().__init__(plain.param_groups, plain.defaults)
        self.state = self.inner.state

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with options of their own, now or between two steps."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        group['params'] = list(dict.fromkeys(group['params']))  # what is tied, once
        for p in group['params']:
            dist.broadcast(p.detach(), 0)
            self.shards[p] = nn.Parameter(part(p))
        # DDP's buckets, of one type and device each: with the ViT's parameters one by one, a step
        # took 1.4 to 2.1 times as long.
        lots, _ = dist._compute_bucket_assignment_by_size(group['params'], [2**25])
        self.lots += [[group['params'][i] for i in lot] for lot in lots]
        cut = {**group, 'params': [self.shards[p] for p in group['params']]}
        if self.inner:
            self.inner.add_param_group(cut)
        else:
            self.inner = self.make([cut])

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """Update this rank's shards by the mean of all ranks' gradients, and gather the others'."""
        loss = closure and torch.enable_grad()(closure)()
        for group, cut in zip(self.param_groups, self.inner.param_groups):
            cut.update({**group, 'params': cut['params']})  # a schedule changes ours
        used = self._used()
        moved = [[p for p in lot if p in used] for lot in self.lots if not used.isdisjoint(lot)]
        for lot in moved:
            grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in lot]
            for p, mean in zip(lot, reduce_scatter_parts(grads)):
                self.shards[p].data = part(p)  # no copy: there is nothing twice
                self.shards[p].grad = mean
        self.inner.step()
        for lot in moved:
            for p, value in zip(lot, gather_parts([self.shards[p] for p in lot], lot)):
                p.copy_(value)
                self.shards[p].grad = None
        return loss

    def _used(self) -> set[torch.Tensor]:
        """Give the parameters for which any rank has a gradient; the others are left alone."""
        params = list(self.shards)
        used = torch.tensor([p.grad is not None for p in params], dtype=torch.uint8)
        used = used.to(params[0].device)
        dist.all_reduce(used, dist.ReduceOp.MAX)
        return {p for p, here in zip(params, used.tolist()) if here}

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a share cannot be copied: copy or save the optimizer's state_dict()")

    def state_dict(self) -> dict[str, Any]:
        """Give the whole state, gathered on every rank, as ``optimizer_class`` itself would."""
        saved = self.inner.state_dict()
        saved['state'] = {i: dict(entry) for i, entry in saved['state'].items()}
        for i, (p, shard) in enumerate(self.shards.items()):
            entry = saved['state'].get(i, {})
            for name, value in entry.items():
                if _by_value(name, value, shard):
                    [entry[name]] = gather_parts([value], [p])
        return saved

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take this rank's part of a whole state, saved by any number of ranks, or by one."""
        state = {i: dict(entry) for i, entry in state_dict['state'].items()}
        for i, p in enumerate(self.shards):
            entry = state.get(i, {})
            for name, value in entry.items():
                if _by_value(name, value, p):
                    entry[name] = part(value).clone()
        self.inner.load_state_dict({**state_dict, 'state': state})
        for group, cut in zip(self.param_groups, self.inner.param_groups):
            group.update({**cut, 'params': group['params']})
        self.state = self.inner.state
