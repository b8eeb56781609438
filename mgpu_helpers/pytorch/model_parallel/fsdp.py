"""Chapter 7: fully sharded data parallelism (ZeRO 3) for any module.

What PyTorch's ``fully_shard`` does, without its prefetching: each layer's parameters lie in shares,
one a rank, and are whole only while the layer computes.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map_only

from ... import arguments
from ..data_parallel.ddp import check_network
from ..ranks import check_group
from .shares import all_gather, flatten, reduce_scatter, spans, views

LISTS = nn.Sequential | nn.ModuleList | nn.ModuleDict


def cast(tree: Any, dtype: torch.dtype | None) -> Any:
    """Convert the floating-point tensors in arguments or results, unless ``dtype`` is ``None``."""

    def one(t: Tensor) -> Tensor:
        return t.to(dtype) if t.is_floating_point() else t

    return tree_map_only(Tensor, one, tree) if dtype else tree


class Gather(torch.autograd.Function):
    """All-gather in the forward pass, reduce-scatter in the backward pass: shards to parameters."""

    @staticmethod
    def forward(ctx: Any, lot: Lot, whole: Tensor, *shards: Tensor) -> Any:
        """Give the parameters, which are views of the gathered ``whole``."""
        ctx.lot = lot
        ctx.set_materialize_grads(False)  # what took no part in the loss has None
        # Not the views themselves: gathering anew would count as a change of what autograd kept.
        return tuple(view.data for view in views(whole, lot.like))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        """Give each shard its values of the mean over the ranks."""
        lot: Lot = ctx.lot
        if all(grad is None for grad in grads):
            return None, None, *grads
        full = [
            torch.zeros_like(t, device=lot.share.device) if grad is None else grad
            for grad, t in zip(grads, lot.like)
        ]
        mean = reduce_scatter(flatten(full, dist.get_world_size()).to(lot.share.dtype))
        shares = (mean[at] if grad is not None else None for grad, at in zip(grads, lot.spans))
        return None, None, *shares


class Lot:
    """Parameters of one layer that travel as one vector, whole only while the layer computes.

    This rank has its ``share`` of them, of which ``shards`` are views.
    """

    def __init__(self, layer: nn.Module, places: Any, dtype: torch.dtype | None, root: Any) -> None:
        self.shards, self.places = list(places), list(places.values())
        self.layer, self.root = layer, root
        self.like = [torch.empty_like(p, device='meta') for p in self.shards]  # shapes
        self.dtype = dtype
        self.call: Any = None  # the memory and the parameters of one that is under way
        k, rank = dist.get_world_size(), dist.get_rank()
        self.spans = list(spans(self.shards, rank, k))
        start = flatten(self.shards, k)
        dist.broadcast(start, 0)
        self.share = start.chunk(k)[rank].clone()
        for p, at in zip(self.shards, self.spans):
            p.data, p.grad = self.share[at], None  # the same objects: an optimizer may know them
        layer.register_forward_pre_hook(self.before_forward, with_kwargs=True)
        layer.register_forward_hook(self.after_forward, always_call=True)

    def put(self, params: Sequence[Tensor]) -> None:
        """Let the layer have these parameters; a tied one stands in several places."""
        for p, places in zip(params, self.places):
            for module, name in places:
                module._parameters[name] = p  # setattr() refuses what autograd computed
                if isinstance(module, nn.RNNBase):  # has a list of its own
                    module._flat_weights = [getattr(module, n) for n in module._flat_weights_names]

    def gather(self, whole: Tensor) -> None:
        """Fill the memory of the whole parameters, which may have been given back."""
        whole.untyped_storage().resize_(whole.nbytes)
        dist.all_gather_single(whole, self.share.to(whole.dtype))

    def before_forward(self, layer: nn.Module, args: Any, kwargs: Any) -> Any:
        """Let the layer have its whole parameters, and inputs of their type."""
        if self.root.open:
            return None
        if self not in self.root.in_backward:  # else a checkpoint computes the layer again
            size = len(self.share) * dist.get_world_size()
            whole = self.share.new_empty(size, dtype=self.dtype or self.share.dtype)
            self.gather(whole)
            self.call = whole, Gather.apply(self, whole, *self.shards)
            self.put(self.call[1])
        return cast((args, kwargs), self.dtype)

    def after_forward(self, layer: nn.Module, args: Any, output: Any) -> None:
        """Give the memory back until the layer's backward pass begins."""
        if self.root.open or self in self.root.in_backward:
            return
        self.put(self.shards)
        # The hooks below keep it: a layer may be called several times before the backward pass.
        begin, self.call = [self.call], None
        if torch._C._current_graph_task_id() == -1:  # not a checkpoint's that is about to be used
            begin[0][0].untyped_storage().resize_(0)
        leaves = tree_leaves(output)
        outputs = [t for t in leaves if isinstance(t, Tensor) and t.requires_grad]
        for value in leaves if torch.is_grad_enabled() and not outputs else ():
            if not isinstance(value, Tensor | int | float | str | None):
                raise TypeError(
                    f'{type(layer).__name__} gave back {arguments.shown(value)}; return '
                    'tensors, or tuples, lists or dictionaries of them'
                )

        def before_backward(grad: Tensor) -> None:
            if begin:
                self.begin_backward(*begin.pop())

        for t in outputs:
            t.register_hook(before_backward)

    def begin_backward(self, whole: Tensor, params: Sequence[Tensor]) -> None:
        """Gather, and let the layer have its parameters, which a checkpoint inside may need."""
        self.root.end_backward(self.layer, self.root.module)
        self.root.in_backward.append(self)
        torch.autograd.Variable._execution_engine.queue_callback(self.root.end_backward)
        self.gather(whole)
        self.put(params)


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
        self.open = False  # the whole parameters are there, see full_parameters
        self.in_backward: list[Lot] = []
        # What several layers have, or none, is gathered for the length of the whole module.
        owner: dict[Any, nn.Module] = {}  # of parts of the module, and of parameters
        for layer in layers(module):
            for part in layer.modules():
                owner[part] = layer if owner.get(part, layer) is layer else module
        places: Any = defaultdict(list)  # of each parameter; a tied one has several
        for part in module.modules():
            layer = owner.get(part, module)
            for name, p in part._parameters.items():
                if p is not None:
                    places[p].append((part, name))
                    owner[p] = layer if owner.get(p, layer) is layer else module
        # Batch normalizations' running statistics need full precision.
        norms = [m for m in module.modules() if getattr(m, 'running_mean', None) is not None]
        precise = {p for norm in norms for p in norm.parameters()}
        self.lots = []
        lots: Any = defaultdict(dict)
        for p in places:
            lots[owner[p], p in precise, p.dtype, p.device, p.requires_grad][p] = places[p]
        for (layer, exact, *_), own in lots.items():
            self.lots.append(Lot(layer, own, None if exact else compute_dtype, self))
        module.wrapped = True  # type: ignore[assignment]  # our own mark
        module.register_state_dict_pre_hook(self._check_open)
        module.register_load_state_dict_pre_hook(self._check_open)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the module, in ``compute_dtype``."""
        self.end_backward()  # one that an error has ended
        dtype = None if self.open else self.compute_dtype
        args, kwargs = cast((args, kwargs), dtype)
        try:
            result = self.module(*args, **kwargs)
        except RuntimeError as error:
            error.add_note('OwnFSDP: only a layer that is called, layer(x), has whole parameters')
            raise
        return cast(result, dtype and self.dtype)

    def end_backward(self, *but: nn.Module) -> None:
        """Take the whole parameters from all layers but these, so that autograd can free them.

        Autograd finishes a layer before the next begins; what several layers have stays to the end.
        """
        for lot in self.in_backward.copy():
            if lot.layer not in but:
                lot.put(lot.shards)
                self.in_backward.remove(lot)

    @contextlib.contextmanager
    def full_parameters(self) -> Iterator[dict[str, nn.Parameter]]:
        """Hold the whole parameters in a ``with`` block, by name; what is written there stays.

        All ranks must call it, and write the same. ``module`` can be used, saved or loaded.
        """
        if self.open:
            yield dict(self.module.named_parameters())
            return
        wholes = [all_gather(lot.share) for lot in self.lots]
        for lot, whole in zip(self.lots, wholes):
            lot.put([nn.Parameter(v, requires_grad=False) for v in views(whole, lot.like)])
        self.open = True
        try:
            yield dict(self.module.named_parameters())
        finally:
            self.open = False
            for lot, whole in zip(self.lots, wholes):
                lot.share.copy_(whole.chunk(dist.get_world_size())[dist.get_rank()])
                lot.put(lot.shards)

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
        raise ValueError(
            f'{arguments.shown(module)} has no parameters, so there is nothing to shard'
        )
    dtypes = None, torch.bfloat16, torch.float16, torch.float32
    such = f'one of {", ".join(map(str, dtypes))}'
    arguments.expect(compute_dtype in dtypes, 'compute_dtype', such, compute_dtype, ValueError)
