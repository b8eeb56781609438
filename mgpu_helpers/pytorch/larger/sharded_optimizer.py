"""ZeRO 1 for any network: an optimizer whose state lies in shares, one a rank."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from ... import checks
from ..ranks import check_group
from .shares import flatten, join, lots, reduce_scatter, spans, views

# They look at whole tensors, or at several steps at once: on shares they would compute another
# thing than on one device, without a word.
NOT_BY_VALUE = ('LBFGS', 'SparseAdam', 'Adafactor', 'Muon')
# State that has one number a tensor, in optimizers of PyTorch, also where that is a number itself.
COUNTS = ('step', 'mu_product', 'eta', 'mu')


def check_by_value(optimizer_class: Any) -> None:
    """Raise unless this is a class of optimizers that can work on shares."""
    is_class = isinstance(optimizer_class, type)
    fits = is_class and issubclass(optimizer_class, torch.optim.Optimizer)
    such = 'a class of optimizers that treat each value by itself, such as torch.optim.AdamW'
    fits = fits and optimizer_class.__name__ not in NOT_BY_VALUE
    checks.expect(fits, 'optimizer_class', such, optimizer_class)


def _by_value(state: object, like: torch.Tensor) -> bool:
    """Tell whether a piece of an optimizer's state has a number for each value of a tensor."""
    return isinstance(state, torch.Tensor) and state.shape == like.shape


class ShardedOptimizer(torch.optim.Optimizer):
    """Any optimizer that treats each value by itself, its state sharded over the ranks (ZeRO 1).

    ``ShardedOptimizer(net.parameters(), torch.optim.AdamW, lr=1e-3)``, with the network as it is or
    in DDP: ``step`` takes the mean of the gradients over the ranks. (So clip them, or unscale, in
    DDP only.) ``state_dict`` is the whole, as of ``optimizer_class``, and fits any number of ranks.
    All ranks must call each method, and begin with rank 0's values.
    """

    inner: Any = None  # the optimizer of this rank's shards

    def __init__(
        self, params: Any, optimizer_class: type[torch.optim.Optimizer], **options: Any
    ) -> None:
        check_group()
        check_by_value(optimizer_class)
        plain = optimizer_class(params, **options)  # checks all, and fills in the options
        self.make: Any = partial(optimizer_class, **options)
        # What travels together: of each parameter itself, its shard here, where the shard's values
        # are in the share of the lot, and where in the parameter.
        self.lots: list[list[tuple[torch.Tensor, nn.Parameter, slice, slice]]] = []
        super().__init__(plain.param_groups, plain.defaults)
        self.state = self.inner.state

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with options of their own, now or between two steps."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        group['params'] = list(dict.fromkeys(group['params']))  # what is tied, once
        shard_of = {}
        for params in lots(group['params']):
            start = flatten(params, 1)
            dist.broadcast(start, 0)
            for p, value in zip(params, views(start, params)):
                p.data.copy_(value)
            places = list(spans(params, dist.get_rank(), dist.get_world_size()))
            for p, (_, mine) in zip(params, places):
                shard_of[p] = nn.Parameter(p.detach().reshape(-1)[mine])
            self.lots.append([(p, shard_of[p], *place) for p, place in zip(params, places)])
        cut = {**group, 'params': [shard_of[p] for p in group['params']]}
        if self.inner:
            self.inner.add_param_group(cut)
        else:
            self.inner = self.make([cut])

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """Move this rank's shards by the mean of all ranks' gradients, and gather the others'."""
        loss = closure and torch.enable_grad()(closure)()
        for group, cut in zip(self.param_groups, self.inner.param_groups):
            cut.update({**group, 'params': cut['params']})  # a schedule changes ours
        used = self._used()
        moved = [lot for lot in self.lots if any(p in used for p, *_ in lot)]
        for lot in moved:
            grads = [torch.zeros_like(p) if p.grad is None else p.grad for p, *_ in lot]
            mean = reduce_scatter(flatten(grads, dist.get_world_size()))
            for p, shard, at, mine in lot:
                shard.data = p.detach().reshape(-1)[mine]  # no copy: there is nothing twice
                shard.grad = mean[at] if p in used else None
        self.inner.step()
        for lot in moved:
            params, shards, *_ = zip(*lot)
            for p, shard, value in zip(params, shards, join(shards, params)):
                p.copy_(value)
                shard.grad = None
        return loss

    def _used(self) -> set[torch.Tensor]:
        """Give the parameters for which any rank has a gradient; the others are left alone."""
        params = [p for lot in self.lots for p, *_ in lot]
        used = torch.tensor([p.grad is not None for p in params], dtype=torch.uint8)
        used = used.to(params[0].device)
        dist.all_reduce(used, dist.ReduceOp.MAX)
        return {p for p, here in zip(params, used.tolist()) if here}

    def _numbers(self) -> dict[nn.Parameter, int]:
        """Number the shards as a state dict does."""
        shards = (shard for group in self.inner.param_groups for shard in group['params'])
        return {shard: i for i, shard in enumerate(shards)}

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a share cannot be copied: copy or save the optimizer's state_dict()")

    def state_dict(self) -> dict[str, Any]:
        """Give the whole state, gathered on every rank, as ``optimizer_class`` itself would."""
        saved, number = self.inner.state_dict(), self._numbers()
        saved['state'] = {i: dict(entry) for i, entry in saved['state'].items()}
        for lot in self.lots:
            params, shards, *_ = zip(*lot)
            entries = [saved['state'].get(number[shard], {}) for shard in shards]
            names = {n for e, shard in zip(entries, shards) for n in e if _by_value(e[n], shard)}
            for name in sorted(names):  # in one order on all ranks
                values = [e.get(name, torch.zeros_like(s)) for e, s in zip(entries, shards)]
                for entry, value in zip(entries, join(values, params)):
                    if entry:
                        entry[name] = value.clone()
        return saved

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take this rank's part of a whole state, saved by any number of ranks, or by one."""
        state, number = dict(state_dict['state']), self._numbers()
        for p, shard, _, mine in (entry for lot in self.lots for entry in lot):
            entry = state[number[shard]] = dict(state.get(number[shard], {}))
            for name, value in entry.items():
                if name not in COUNTS and _by_value(value, p):
                    entry[name] = value.reshape(-1)[mine].clone()
        self.inner.load_state_dict({**state_dict, 'state': state})
        for group, cut in zip(self.param_groups, self.inner.param_groups):
            group.update({**cut, 'params': group['params']})
        self.state = self.inner.state
