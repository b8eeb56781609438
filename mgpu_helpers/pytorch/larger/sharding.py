"""Chapter 7: data parallelism that keeps nothing twice.

Optimizer state (ZeRO 1), gradients (ZeRO 2) and parameters (ZeRO 3, fully sharded data parallelism)
lie in shares, one a rank: Rajbhandari and others, *ZeRO*, 2020. ``ShardedOptimizer`` shards the
state of any network; ``fsdp.OwnFSDP`` shards everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from ... import checks
from ..ranks import check_group
from .shares import all_gather, flatten, join, lots, reduce_scatter, spans, views


def own_share(params: Sequence[torch.Tensor]) -> tuple[torch.Tensor, nn.Parameter]:
    """Move parameters into one vector; give it, and this rank's share of it for an optimizer.

    The parameters become views of the vector, and so is the share: nothing lies there twice.
    """
    k, rank = dist.get_world_size(), dist.get_rank()
    whole = flatten(params, k)
    for p, view in zip(params, views(whole, params)):
        p.data = view
    return whole, nn.Parameter(whole.chunk(k)[rank])


def zero_step(
    whole: torch.Tensor,
    share: nn.Parameter,
    params: Sequence[torch.Tensor],
    optimizer: torch.optim.Optimizer,
) -> None:
    """Take one step (ZeRO 1): the optimizer moves this rank's share; all shares are gathered.

    ``whole`` and ``share`` are those of ``own_share(params)``, whose gradients are there, one mean
    per rank; they become ``None``.
    """
    grads = flatten([p.grad for p in params], dist.get_world_size())  # type: ignore[misc]
    share.grad = reduce_scatter(grads)
    for p in params:
        p.grad = None
    optimizer.step()
    whole.copy_(all_gather(share.detach()))


def shard_gradients(
    params: Sequence[torch.Tensor], share: nn.Parameter, then: Callable[[], object] = bool
) -> None:
    """Keep of a layer's gradients this rank's share alone (ZeRO 2), from now on.

    As soon as a backward pass has the last of them, their means are scattered over the ranks, and
    each ``.grad`` becomes ``None``; ``then`` is called.
    """
    ready = []  # type: list[torch.Tensor]

    def on_gradient(p: torch.Tensor) -> None:
        ready.append(p)
        if len(ready) == len(params):
            share.grad = reduce_scatter(flatten([p.grad for p in params], dist.get_world_size()))  # type: ignore[misc]
            for p in params:
                p.grad = None
            ready.clear()
            then()

    for p in params:
        p.register_post_accumulate_grad_hook(on_gradient)


def shard_parameters(layer: nn.Module) -> nn.Parameter:
    """Keep of a layer's parameters this rank's share alone (ZeRO 3); give it, for an optimizer.

    All are gathered just before the layer's forward and backward passes, and dropped after them.
    """
    params = list(layer.parameters())
    whole, share = own_share(params)
    share.data, drop = share.data.clone(), partial(whole.untyped_storage().resize_, 0)

    def gather(*_: object) -> None:
        whole.untyped_storage().resize_(whole.nbytes)
        dist.all_gather_single(whole, share.detach())

    def after_forward(layer: nn.Module, inputs: object, output: torch.Tensor) -> None:
        drop()
        if output.requires_grad:
            output.register_hook(gather)  # the layer's backward pass begins here

    layer.register_forward_pre_hook(gather)
    layer.register_forward_hook(after_forward)
    shard_gradients(params, share, then=drop)
    drop()
    return share


# They look at whole tensors, or at several steps at once: on shares they would compute another
# thing than on one device, without a word.
NOT_BY_VALUE = ('LBFGS', 'SparseAdam', 'Adafactor', 'Muon')


# State that has one number a tensor, in optimizers of PyTorch, also where that is a number itself.
COUNTS = ('step', 'mu_product', 'eta', 'mu')


def check_by_value(optimizer_class: Any) -> None:
    """Raise unless this is a class of optimizers that can work on shares."""
    kind = isinstance(optimizer_class, type) and issubclass(optimizer_class, torch.optim.Optimizer)
    if not kind or optimizer_class.__name__ in NOT_BY_VALUE:
        raise TypeError(
            'optimizer_class must be a class of optimizers that treat each value by itself, such '
            f'as torch.optim.AdamW, not {checks.shown(optimizer_class)}'
        )


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
        self.lots: list[tuple[list[torch.Tensor], list[nn.Parameter]]] = []  # sent together
        super().__init__(plain.param_groups, plain.defaults)
        self.state = self.inner.state

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with options of their own, now or between two steps."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        group['params'] = list(dict.fromkeys(group['params']))  # what is tied, once
        k, rank = dist.get_world_size(), dist.get_rank()
        shard_of = {}
        for params in lots(group['params']):
            start = flatten(params, 1)
            dist.broadcast(start, 0)
            for p, value, (_, mine) in zip(params, views(start, params), spans(params, rank, k)):
                p.data.copy_(value)
                shard_of[p] = nn.Parameter(p.detach().reshape(-1)[mine])
            self.lots.append((params, [shard_of[p] for p in params]))
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
        moved = [lot for lot in self.lots if not used.isdisjoint(lot[0])]
        for params, shards in moved:
            grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in params]
            mean = reduce_scatter(flatten(grads, dist.get_world_size()))
            for p, shard, (at, mine) in self._parts(params, shards):
                shard.data = p.detach().reshape(-1)[mine]  # no copy: there is nothing twice
                shard.grad = mean[at] if p in used else None
        self.inner.step()
        for params, shards in moved:
            for p, shard, value in zip(params, shards, join(shards, params)):
                p.copy_(value)
                shard.grad = None
        return loss

    def _used(self) -> set[torch.Tensor]:
        """Give the parameters for which any rank has a gradient; the others are left alone."""
        params = [p for lot, _ in self.lots for p in lot]
        used = torch.tensor([p.grad is not None for p in params], dtype=torch.uint8)
        used = used.to(params[0].device)
        dist.all_reduce(used, dist.ReduceOp.MAX)
        return {p for p, here in zip(params, used.tolist()) if here}

    def _parts(self, params: list[torch.Tensor], shards: list[nn.Parameter]) -> Iterator[Any]:
        return zip(params, shards, spans(params, dist.get_rank(), dist.get_world_size()))

    def _numbers(self) -> dict[nn.Parameter, int]:
        shards = (shard for group in self.inner.param_groups for shard in group['params'])
        return {shard: i for i, shard in enumerate(shards)}

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a share cannot be copied: copy or save the optimizer's state_dict()")

    def state_dict(self) -> dict[str, Any]:
        """Give the whole state, gathered on every rank, as ``optimizer_class`` itself would."""
        saved, number = self.inner.state_dict(), self._numbers()
        saved['state'] = {i: dict(entry) for i, entry in saved['state'].items()}
        for params, shards in self.lots:
            entries = [saved['state'].get(number[shard], {}) for shard in shards]
            names = {n for e, shard in zip(entries, shards) for n in e if _by_value(e[n], shard)}
            for name in sorted(names):
                values = [e.get(name, torch.zeros_like(s)) for e, s in zip(entries, shards)]
                for entry, value in zip(entries, join(values, params)):
                    if entry:
                        entry[name] = value.clone()
        return saved

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take this rank's part of a whole state, saved by any number of ranks, or by one."""
        state, number = dict(state_dict['state']), self._numbers()
        for params, shards in self.lots:
            for p, shard, (_, mine) in self._parts(params, shards):
                entry = state[number[shard]] = dict(state.get(number[shard], {}))
                for name, value in entry.items():
                    if name not in COUNTS and _by_value(value, p):
                        entry[name] = value.reshape(-1)[mine].clone()
        self.inner.load_state_dict({**state_dict, 'state': state})
        for group, cut in zip(self.param_groups, self.inner.param_groups):
            group.update({**cut, 'params': group['params']})
        self.state = self.inner.state
