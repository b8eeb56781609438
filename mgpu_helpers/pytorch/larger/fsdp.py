"""Chapter 7: fully sharded data parallelism (ZeRO 3) for any module.

What PyTorch's ``fully_shard`` does, without its prefetching: each layer's parameters lie in shares,
one a rank, and are whole only while the layer computes.
"""

from __future__ import annotations

import contextlib
import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.autograd.graph import register_multi_grad_hook
from torch.utils._pytree import tree_leaves, tree_map_only

from ... import checks
from ..data_parallel.ddp import check_network
from ..ranks import check_group
from .shares import all_gather, flatten, lots, reduce_scatter, spans, views

LISTS = nn.Sequential | nn.ModuleList | nn.ModuleDict


def cast(tree: Any, dtype: torch.dtype | None) -> Any:
    """Convert the floating-point tensors in arguments or results, unless ``dtype`` is ``None``."""

    def one(t: torch.Tensor) -> torch.Tensor:
        return t.to(dtype) if t.is_floating_point() else t

    return tree_map_only(torch.Tensor, one, tree) if dtype else tree


class ShardedLayer:
    """Parameters of one layer that travel as one vector: ``whole`` while the layer computes.

    At other times this rank has its ``share`` of them alone, of which ``shards`` are views.
    """

    def __init__(self, layer: nn.Module, places: Any, dtype: torch.dtype | None, root: Any) -> None:
        self.shards, self.places, self.root = list(places), list(places.values()), root
        self.dtype = dtype
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
        self.forget_backward()
        self.drop()
        layer.register_forward_pre_hook(self.before_forward, with_kwargs=True)
        layer.register_forward_hook(self.after_forward, with_kwargs=True, always_call=True)

    def forget_backward(self) -> None:
        """Forget a backward pass: done, or ended by an error."""
        self.open_calls: set[object] = set()  # whose backward pass has begun and not ended
        self.in_backward, self.complete = False, 0  # so many gradients are complete
        for p in self.full:
            p.grad = None

    def put(self, params: list[nn.Parameter]) -> None:
        """Let the layer have these parameters; a tied one stands in several places."""
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
        """Give their memory back; where autograd kept them, ``gather`` will fill it again."""
        self.put(self.shards)
        self.whole.untyped_storage().resize_(0)

    def before_forward(self, layer: nn.Module, args: Any, kwargs: Any) -> Any:
        """Gather, unless a checkpoint computes the layer again: then backward has gathered."""
        if not self.in_backward and not self.root.open:
            self.gather()
        return None if self.root.open else cast((args, kwargs), self.dtype)

    def after_forward(self, layer: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        """Drop, and hook the output and the inputs, where the layer's backward begins and ends."""
        if self.in_backward or self.root.open:
            return
        self.drop()
        inputs, outputs = (
            [t for t in tree_leaves(x) if isinstance(t, torch.Tensor) and t.requires_grad]
            for x in ((args, kwargs), output)
        )
        for value in tree_leaves(output) if torch.is_grad_enabled() and not outputs else ():
            if not isinstance(value, torch.Tensor | int | float | str | None):
                raise TypeError(
                    f'{type(layer).__name__} gave back {checks.shown(value)}; return tensors, or '
                    'tuples, lists or dictionaries of them'
                )
        call = object()  # the layer may be called several times before one backward pass
        for t in outputs:
            # The gradient of an output: backward is about to need the layer's parameters.
            t.register_hook(lambda _: self.begin({call} if inputs else set()))
        if inputs and outputs:
            # The gradients of all inputs: backward has left this call of the layer.
            register_multi_grad_hook(inputs, lambda _: self.end(call))

    def begin(self, calls: set[object]) -> None:
        """Gather before the backward pass of a call."""
        self.open_calls |= calls
        if not self.in_backward:
            self.in_backward = True
            self.gather()
            self.root.finish_after_backward()

    def on_gradient(self, p: torch.Tensor) -> None:
        """Count a parameter whose gradient is complete."""
        self.complete += 1
        self.end(None)

    def end(self, call: object) -> None:
        """Finish when all gradients are complete and no call still needs the parameters."""
        self.open_calls.discard(call)
        trained = sum(p.requires_grad for p in self.full)
        if self.complete == trained and not self.open_calls:
            self.finish()

    def finish(self) -> None:
        """Reduce-scatter the gradients, so that each rank has its share of their mean; drop."""
        if any(p.grad is not None for p in self.full):
            grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.full]
            mean = reduce_scatter(flatten(grads, dist.get_world_size()).to(self.share.dtype))
            for p, shard, at in zip(self.full, self.shards, self.spans):
                if p.grad is not None:
                    shard.grad = mean[at] if shard.grad is None else shard.grad + mean[at]
        self.forget_backward()
        self.drop()


def layers(module: nn.Module) -> Iterator[nn.Module]:
    """Yield the modules that are gathered one at a time: those in lists, and what has no list."""
    for child in module.children():
        never_called = type(child).forward is nn.Module.forward  # a ModuleList, for example
        has_lists = any(isinstance(part, LISTS) for part in child.modules())
        if never_called or has_lists and not isinstance(module, LISTS):
            yield from layers(child)
        else:
            yield child


class OwnFSDP(nn.Module):
    """Any module; its parameters, gradients and optimizer state sharded over the ranks (ZeRO 3).

    ``parameters()`` are this rank's shards, flat and perhaps empty, for an optimizer that treats
    each value by itself. Layers compute in ``compute_dtype``, batch normalization as it was; shards
    and results stay as they were. Gradients are means over the ranks, and add up until they are
    cleared. All ranks must call the same layers, as modules; they begin with rank 0's values.
    """

    def __init__(self, module: nn.Module, compute_dtype: torch.dtype | None = None) -> None:
        check_group()
        check_module(module, compute_dtype)
        super().__init__()
        self.module, self.compute_dtype = module, compute_dtype
        self.dtype = next(module.parameters()).dtype
        self.open = self.will_finish = False
        layers_of: Any = defaultdict(set)  # of each part of the module
        places: Any = defaultdict(list)  # of each parameter; a tied one has several
        owners: Any = defaultdict(set)  # the layers with those places
        for layer in layers(module):
            for part in layer.modules():
                layers_of[part].add(layer)
        for part in module.modules():
            for name, p in part._parameters.items():
                if p is not None:
                    places[p].append((part, name))
                    owners[p] |= layers_of[part] or {module}
        # What several layers have, or none, is gathered for the length of the whole module.
        owner: dict[Any, nn.Module] = {
            p: one.pop() if len(one) == 1 else module for p, one in owners.items()
        }
        # Batch normalizations' running statistics need full precision.
        norms = [m for m in module.modules() if getattr(m, 'running_mean', None) is not None]
        precise = {p for norm in norms for p in norm.parameters()}
        self.layers = []
        for lot in lots(list(owner), math.inf, lambda p: (owner[p], p in precise)):
            dtype = None if lot[0] in precise else compute_dtype
            own = {p: places[p] for p in lot}
            self.layers.append(ShardedLayer(owner[lot[0]], own, dtype, self))
        module.wrapped = True  # type: ignore[assignment]  # our own mark
        module.register_state_dict_pre_hook(self._check_open)
        module.register_load_state_dict_pre_hook(self._check_open)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the module, in ``compute_dtype``."""
        if torch._C._current_graph_task_id() == -1:  # not computed again inside of a backward pass
            self.will_finish = False
            for layer in self.layers:
                layer.forget_backward()
        dtype = None if self.open else self.compute_dtype
        args, kwargs = cast((args, kwargs), dtype)
        try:
            result = self.module(*args, **kwargs)
        except RuntimeError as error:
            error.add_note('OwnFSDP: only a layer that is called, layer(x), has whole parameters')
            raise
        return cast(result, dtype and self.dtype)

    @contextlib.contextmanager
    def full_parameters(self) -> Iterator[dict[str, nn.Parameter]]:
        """Hold the whole parameters in a ``with`` block, by name; what is written there stays.

        All ranks must call it, and write the same. ``module`` can be used, saved or loaded.
        """
        if self.open:
            yield dict(self.module.named_parameters())
            return
        wholes = [all_gather(layer.share) for layer in self.layers]
        for layer, whole in zip(self.layers, wholes):
            layer.put([nn.Parameter(v, requires_grad=False) for v in views(whole, layer.full)])
        self.open = True
        try:
            yield dict(self.module.named_parameters())
        finally:
            self.open = False
            for layer, whole in zip(self.layers, wholes):
                layer.share.copy_(whole.chunk(dist.get_world_size())[dist.get_rank()])
                layer.put(layer.shards)

    def finish_after_backward(self) -> None:
        """Finish at the end of the backward pass the layers that still wait for a gradient.

        A parameter that took no part in the loss never gets one.
        """
        if not self.will_finish:
            self.will_finish = True
            torch.autograd.Variable._execution_engine.queue_callback(self._finish)

    def _finish(self) -> None:
        self.will_finish = False
        for layer in self.layers:
            if layer.in_backward:
                layer.finish()

    def _check_open(self, *_: object) -> None:
        if not self.open:
            raise RuntimeError(
                'these parameters lie in shares: save and load net.module.state_dict() in '
                '`with net.full_parameters():`, on all ranks'
            )

    def _apply(self, fn: Any, recurse: bool = True) -> OwnFSDP:
        raise RuntimeError('this module lies in shares: move or convert it before OwnFSDP(module)')

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError('a share cannot be copied: build another network and load the state_dict()')


def check_module(module: Any, compute_dtype: Any) -> None:
    """Raise unless a module can be sharded, and compute in this type."""
    check_network(module)
    if next(module.parameters(), None) is None:
        raise ValueError(f'{checks.shown(module)} has no parameters, so there is nothing to shard')
    dtypes = None, torch.bfloat16, torch.float16, torch.float32
    such = f'one of {", ".join(map(str, dtypes))}'
    checks.expect(compute_dtype in dtypes, 'compute_dtype', such, compute_dtype, ValueError)
