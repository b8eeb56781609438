"""Chapter 7: fully sharded data parallelism for any module, on one page.

What PyTorch's ``fully_shard`` does, without its prefetching: each layer's parameters lie in shares,
one a rank, and are whole only while the layer computes.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.autograd.graph import register_multi_grad_hook
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import tree_leaves, tree_map_only

from .. import checks
from .flat import all_gather, flatten, lots, reduce_scatter, spans, views
from .group import check_group

LISTS = nn.Sequential | nn.ModuleList | nn.ModuleDict


def layers(module: nn.Module) -> Iterator[nn.Module]:
    """Yield the modules that are gathered one at a time: those in lists, and what has no list."""
    for child in module.children():
        never_called = type(child).forward is nn.Module.forward  # a ModuleList, for example
        has_lists = any(isinstance(part, LISTS) for part in child.modules())
        if never_called or has_lists and not isinstance(module, LISTS):
            yield from layers(child)
        else:
            yield child


class Unit:
    """Parameters of one layer that travel as one vector: ``whole`` while the layer computes.

    At other times this rank has its ``share`` of them alone, of which ``shards`` are views.
    """

    def __init__(self, layer: nn.Module, places: Any, dtype: torch.dtype | None, root: Any) -> None:
        self.shards, self.places, self.root = list(places), list(places.values()), root
        k, rank = dist.get_world_size(), dist.get_rank()
        self.spans = [at for at, _ in spans(self.shards, rank, k)]
        start = flatten(self.shards, k)
        dist.broadcast(start, 0)
        self.share, self.whole = start.chunk(k)[rank].clone(), start.to(dtype or start.dtype)
        self.full = [nn.Parameter(torch.empty_like(v)) for v in views(self.whole, self.shards)]
        for p, view in zip(self.full, views(self.whole, self.shards)):
            p.data = view  # not Parameter(view): gathering would count as a change of what was kept
            p.register_post_accumulate_grad_hook(self.on_gradient)
        for p, at in zip(self.shards, self.spans):
            p.data, p.grad = self.share[at], None  # the same objects: an optimizer may know them
        self.reset()
        self.drop()
        layer.register_forward_pre_hook(self.before_forward)
        layer.register_forward_hook(self.after_forward, with_kwargs=True, always_call=True)

    def reset(self) -> None:
        """Forget a backward pass: done, or ended by an error."""
        self.calls: set[object] = set()  # of the layer: those backward has reached and not left
        self.backward, self.summed = False, 0
        for p in self.full:
            p.grad = None

    def put(self, params: list[nn.Parameter]) -> None:
        """Let the layer have these; what is tied stands in several places."""
        for p, places in zip(params, self.places):
            for module, name in places:
                setattr(module, name, p)

    def gather(self) -> None:
        """Let the layer have its whole parameters."""
        self.whole.untyped_storage().resize_(self.whole.nbytes)
        dist.all_gather_single(self.whole, self.share.to(self.whole.dtype))
        for p, shard in zip(self.full, self.shards):
            p.requires_grad_(shard.requires_grad)
        self.put(self.full)

    def drop(self) -> None:
        """Give their memory back: what autograd has kept of them is filled again by ``gather``."""
        self.put(self.shards)
        self.whole.untyped_storage().resize_(0)

    def before_forward(self, *_: object) -> None:
        """Gather, unless they are there, as when a checkpoint computes the layer once more."""
        if not self.backward and not self.root.open:
            self.gather()

    def after_forward(self, layer: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        """Drop, and ask autograd to tell when it comes to this call of the layer, and leaves it."""
        if self.backward or self.root.open:
            return
        self.drop()
        inputs, outputs = (
            [t for t in tree_leaves(x) if isinstance(t, torch.Tensor) and t.requires_grad]
            for x in ((args, kwargs), output)
        )
        if torch.is_grad_enabled() and not outputs:
            check_output(layer, output)
        call = object()
        for t in outputs:
            t.register_hook(lambda _: self.begin({call} if inputs else set()))
        if inputs and outputs:
            register_multi_grad_hook(inputs, lambda _: self.end(call))

    def begin(self, calls: set[object]) -> None:
        """Gather before the backward pass of a call."""
        self.calls |= calls
        if not self.backward:
            self.backward = True
            self.gather()
            self.root.call_at_the_end()

    def on_gradient(self, p: torch.Tensor) -> None:
        """Count a parameter whose gradient is complete."""
        self.summed += 1
        self.end(None)

    def end(self, call: object) -> None:
        """Finish when all gradients are there, and none is still computed with the parameters."""
        self.calls.discard(call)
        if self.summed == sum(p.requires_grad for p in self.full) and not self.calls:
            self.finish()

    def finish(self) -> None:
        """Scatter the mean of the gradients over the ranks, and drop."""
        if any(p.grad is not None for p in self.full):
            grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.full]
            grads = [flatten(grads, dist.get_world_size()).to(self.share.dtype)]
            mean = reduce_scatter(grads.pop())
            for p, shard, at in zip(self.full, self.shards, self.spans):
                if p.grad is not None:
                    shard.grad = mean[at] if shard.grad is None else shard.grad + mean[at]
        self.reset()
        self.drop()


class OwnFSDP(nn.Module):
    """Any module; its parameters, gradients and optimizer state sharded over the ranks (ZeRO 3).

    ``parameters()`` are this rank's shards, flat and perhaps empty, for an optimizer that treats
    each value by itself. Layers compute in ``compute_dtype``; shards and results stay as they were.
    Gradients are means over the ranks, and add up until they are cleared. All ranks must call the
    same layers, as modules; they begin with rank 0's values.
    """

    def __init__(self, module: nn.Module, compute_dtype: torch.dtype | None = None) -> None:
        check_group()
        check_module(module, compute_dtype)
        super().__init__()
        self.module, self.compute_dtype = module, compute_dtype
        self.dtype = next(module.parameters()).dtype
        self.open = self.waiting = False
        own = list(dict.fromkeys(layers(module)))
        layers_of: dict[nn.Module, set[nn.Module]] = {}
        for layer in own:
            for part in layer.modules():
                layers_of.setdefault(part, set()).add(layer)
        places: dict[Any, list[tuple[nn.Module, str]]] = {}
        owners: dict[Any, set[nn.Module]] = {}
        for part in module.modules():
            for name, p in part._parameters.items():
                if p is not None:
                    places.setdefault(p, []).append((part, name))
                    owners.setdefault(p, set()).update(layers_of.get(part, {module}))
        # What several layers have, or none, is gathered for the length of the whole module.
        for p, found in owners.items():
            owners[p] = found if len(found) == 1 else {module}
        self.units = [
            Unit(layer, {p: places[p] for p in lot}, compute_dtype, self)
            for layer in (*own, module)
            for lot in lots([p for p in owners if owners[p] == {layer}], most=math.inf)
        ]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the module, in ``compute_dtype``."""
        if torch._C._current_graph_task_id() == -1:  # not computed again inside of a backward pass
            self.waiting = False
            for unit in self.units:
                unit.reset()
        args, kwargs = self._cast((args, kwargs), self.compute_dtype)
        return self._cast(self.module(*args, **kwargs), self.compute_dtype and self.dtype)

    @staticmethod
    def _cast(tree: Any, dtype: torch.dtype | None) -> Any:
        def cast(t: torch.Tensor) -> torch.Tensor:
            return t.to(dtype) if t.is_floating_point() else t

        return tree_map_only(torch.Tensor, cast, tree) if dtype else tree

    @contextlib.contextmanager
    def full_parameters(self) -> Iterator[dict[str, nn.Parameter]]:
        """Hold the whole parameters in a ``with`` block, by name; what is written there stays.

        All ranks must call it, and write the same. ``module`` can be used, saved or loaded.
        """
        wholes = [all_gather(unit.share) for unit in self.units]
        for unit, whole in zip(self.units, wholes):
            unit.put([nn.Parameter(v, requires_grad=False) for v in views(whole, unit.full)])
        self.open = True
        try:
            yield dict(self.module.named_parameters())
        finally:
            self.open = False
            for unit, whole in zip(self.units, wholes):
                unit.share.copy_(whole.chunk(dist.get_world_size())[dist.get_rank()])
                unit.put(unit.shards)

    def call_at_the_end(self) -> None:
        """Finish, at the end of this backward pass, layers of which something had no gradient."""
        if not self.waiting:
            self.waiting = True
            torch.autograd.Variable._execution_engine.queue_callback(self._finish)

    def _finish(self) -> None:
        self.waiting = False
        for unit in self.units:
            if unit.backward:
                unit.finish()

    def _apply(self, fn: Any, recurse: bool = True) -> OwnFSDP:
        raise RuntimeError('this module lies in shares: move or convert it before OwnFSDP(module)')


def check_module(module: Any, compute_dtype: Any) -> None:
    """Raise unless a module can be sharded, and compute in this type."""
    if not isinstance(module, nn.Module) or isinstance(module, DistributedDataParallel | OwnFSDP):
        raise TypeError(f'module must be the network itself, not {checks.shown(module)}')
    if next(module.parameters(), None) is None:
        raise ValueError(f'{checks.shown(module)} has no parameters, so there is nothing to shard')
    dtypes = None, torch.bfloat16, torch.float16, torch.float32
    if compute_dtype not in dtypes:
        one = ', '.join(map(str, dtypes))
        raise ValueError(f'compute_dtype must be one of {one}, not {checks.shown(compute_dtype)}')


def check_output(layer: nn.Module, output: Any) -> None:
    """Raise if a layer gave back something in which no tensor can be found to wait for."""
    for value in tree_leaves(output):
        if not isinstance(value, torch.Tensor | int | float | str | None):
            raise TypeError(
                f'{type(layer).__name__} gave back {checks.shown(value)}; return tensors, or '
                'tuples, lists or dictionaries of them'
            )
