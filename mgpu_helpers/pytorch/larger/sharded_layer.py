"""What ``OwnFSDP`` is made of: layers that lie in shares, and are whole only while they compute."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.autograd.graph import register_multi_grad_hook
from torch.utils._pytree import tree_leaves, tree_map_only

from ... import checks
from .shares import flatten, reduce_scatter, spans, views


def cast(tree: Any, dtype: torch.dtype | None) -> Any:
    """Bring what is a floating-point tensor in arguments or results to a type, unless ``None``."""

    def one(t: torch.Tensor) -> torch.Tensor:
        return t.to(dtype) if t.is_floating_point() else t

    return tree_map_only(torch.Tensor, one, tree) if dtype else tree


class Unit:
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
        self.reset()
        self.drop()
        layer.register_forward_pre_hook(self.before_forward, with_kwargs=True)
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

    def before_forward(self, layer: nn.Module, args: Any, kwargs: Any) -> Any:
        """Gather, unless they are there, as when a checkpoint computes the layer once more."""
        if not self.backward and not self.root.open:
            self.gather()
        return None if self.root.open else cast((args, kwargs), self.dtype)

    def after_forward(self, layer: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        """Drop, and ask autograd to tell when it comes to this call of the layer, and leaves it."""
        if self.backward or self.root.open:
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
