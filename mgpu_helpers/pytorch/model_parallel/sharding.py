"""Chapter 7: data parallelism that keeps nothing twice.

Optimizer state (ZeRO 1), gradients (ZeRO 2) and parameters (ZeRO 3, fully sharded data parallelism)
lie in shares, one a rank: Rajbhandari and others, *ZeRO*, 2020. Here by hand, for a layer;
``ShardedOptimizer`` does the first, ``fsdp.OwnFSDP`` all three for any network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.distributed as dist
from torch import nn

from .shares import all_gather, flatten, reduce_scatter, views


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
    """Take one step (ZeRO 1): the optimizer updates this rank's share; all shares are gathered.

    ``whole`` and ``share`` are those of ``own_share(params)``; gradients become ``None``.
    """
    share.grad = reduce_scatter(flatten([p.grad for p in params], dist.get_world_size()))  # type: ignore[misc]
    for p in params:
        p.grad = None
    optimizer.step()
    whole.copy_(all_gather(share.detach()))


def shard_gradients(
    params: Sequence[torch.Tensor],
    share: nn.Parameter,
    then: Callable[[], object] = lambda: None,
) -> nn.Parameter:
    """Keep of a layer's gradients this rank's share alone (ZeRO 2), from now on; give the share.

    As soon as a backward pass has the last of them, they are reduced and scattered, each ``.grad``
    becomes ``None``, and ``then`` is called.
    """
    ready = []  # type: list[torch.Tensor]

    def on_gradient(p: torch.Tensor) -> None:
        ready.append(p)
        if len(ready) == len(params):
            mean = reduce_scatter(flatten([p.grad for p in params], dist.get_world_size()))  # type: ignore[misc]
            share.grad = mean if share.grad is None else share.grad + mean
            for p in params:
                p.grad = None
            ready.clear()
            then()

    for p in params:
        p.register_post_accumulate_grad_hook(on_gradient)  # p.grad is complete
    return share


def shard_parameters(layer: nn.Module) -> nn.Parameter:
    """Keep of a layer's parameters this rank's share alone (ZeRO 3); give it, for an optimizer.

    All are gathered just before the layer's forward and backward passes, and dropped after them.
    """
    whole, share = own_share(list(layer.parameters()))
    share.data = share.data.clone()  # memory of its own: that of the whole goes

    drop = partial(whole.untyped_storage().resize_, 0)

    def gather(*_: object) -> None:
        whole.untyped_storage().resize_(whole.nbytes)
        dist.all_gather_single(whole, share.detach())

    def after_forward(layer: nn.Module, inputs: object, output: torch.Tensor) -> None:
        drop()
        if output.requires_grad:
            output.register_hook(gather)  # its backward pass begins here

    layer.register_forward_pre_hook(gather), layer.register_forward_hook(after_forward)
    drop()
    return shard_gradients(list(layer.parameters()), share, then=drop)
