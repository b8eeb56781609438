"""Chapter 7: data parallelism without redundant copies, by hand.

Each rank holds a shard of the optimizer state (ZeRO 1), gradients (ZeRO 2) and parameters (ZeRO 3,
fully sharded data parallelism): Rajbhandari and others, *ZeRO*, 2020. PyTorch's ``fully_shard`` and
``ZeroRedundancyOptimizer`` do this for any network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F


def flatten(tensors: Sequence[torch.Tensor], k: int) -> torch.Tensor:
    """Copy tensors into one vector, zero-padded so that ``k`` divides its length."""
    whole = torch.cat([t.detach().reshape(-1) for t in tensors])
    return F.pad(whole, (0, -len(whole) % k))


def views(whole: torch.Tensor, like: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return views of ``flatten``'s vector in the tensors' shapes, sharing its memory."""
    sizes = [t.numel() for t in like]
    return [v.view(t.shape) for v, t in zip(whole[: sum(sizes)].split(sizes), like)]


def whole_of(shard: torch.Tensor) -> torch.Tensor:
    """Join the shards (n/k,) of all k ranks; return the whole (n,) on every rank."""
    whole = shard.new_empty(len(shard) * dist.get_world_size())
    dist.all_gather_single(whole, shard.contiguous())
    return whole


def reduce_scatter(whole: torch.Tensor) -> torch.Tensor:
    """Average vectors (n,) over k ranks; return only this rank's shard (n/k,) of the mean."""
    k = dist.get_world_size()
    shard = whole.new_empty(len(whole) // k)
    dist.reduce_scatter_single(shard, whole)
    return shard / k


def own_shard(params: Sequence[torch.Tensor]) -> tuple[torch.Tensor, nn.Parameter]:
    """Move parameters into one vector; return it, and this rank's shard of it for an optimizer.

    The parameters and the shard become views of the vector, so nothing is stored twice.
    """
    k, rank = dist.get_world_size(), dist.get_rank()
    whole = flatten(params, k)
    for p, view in zip(params, views(whole, params)):
        p.data = view
    return whole, nn.Parameter(whole.chunk(k)[rank])


def shard_gradients(
    params: Sequence[torch.Tensor],
    shard: nn.Parameter,
    then: Callable[[], object] = lambda: None,
) -> nn.Parameter:
    """From now on, keep only this rank's shard of a layer's gradients (ZeRO 2); return it.

    When a backward pass has computed the last of them, they are reduced and scattered, each
    ``.grad`` becomes ``None``, and ``then`` is called.
    """

    def on_gradient(_: object) -> None:
        if any(p.grad is None for p in params):
            return
        mean = reduce_scatter(flatten([p.grad for p in params], dist.get_world_size()))  # type: ignore[misc]
        shard.grad = mean if shard.grad is None else shard.grad + mean
        for p in params:
            p.grad = None
        then()

    for p in params:
        p.register_post_accumulate_grad_hook(on_gradient)  # p.grad is complete
    return shard


def shard_parameters(layer: nn.Module) -> nn.Parameter:
    """From now on, keep only this rank's shard of a layer's parameters (ZeRO 3); return it.

    All are gathered just before the layer's forward and backward passes, and dropped after them; a
    forward pass under ``no_grad`` is not supported.
    """
    whole, shard = own_shard(list(layer.parameters()))
    shard.data = shard.data.clone()  # its own memory, so that the whole can be freed
    drop = partial(whole.untyped_storage().resize_, 0)

    def gather(*_: object) -> None:
        whole.untyped_storage().resize_(whole.nbytes)
        dist.all_gather_single(whole, shard.detach())

    def after_forward(layer: nn.Module, inputs: object, output: torch.Tensor) -> None:
        drop()
        output.register_hook(gather)  # its backward pass begins here

    layer.register_forward_pre_hook(gather), layer.register_forward_hook(after_forward)
    drop()
    return shard_gradients(list(layer.parameters()), shard, then=drop)
