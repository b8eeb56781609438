"""Tensor parallelism: each layer is split; two allreduces per block forward, two backward.

Of two consecutive linear layers, each rank has some columns of the first and the matching rows of
the second. The features between them (attention heads, or an MLP's hidden features) never leave the
rank. The source is Shoeybi and others, *Megatron-LM*, 2019.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import parallel
from torch.nn import functional as F

from ... import arguments
from ..ranks import check_group, this_device


def total(x: Tensor, group: dist.ProcessGroup | None) -> Tensor:
    """Return the sum of a tensor over the ranks, leaving the tensor unchanged."""
    summed = x.clone(memory_format=torch.contiguous_format)  # all_reduce writes in place
    dist.all_reduce(summed, group=group)
    return summed


class SumBackward(torch.autograd.Function):
    """Identity in the forward pass, allreduce in the backward pass: before a column-cut layer.

    Every rank has ``x``; its gradient through this rank's columns is one term of a sum.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup | None) -> Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        return total(grad, ctx.group), None


class SumForward(torch.autograd.Function):
    """Allreduce in the forward pass, identity in the backward pass: after a row-cut layer.

    Each rank's ``x`` is one term of the output, so each term's gradient is that of the output.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup | None) -> Tensor:
        return total(x, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        """Return ``grad``, which every rank has; another sum would make it k times too large."""
        return grad, None


def shard_along(param: Tensor | None, axis: int, group: dist.ProcessGroup | None) -> Any:
    """Return a copy of this rank's shard of a parameter that is cut along an axis."""
    if param is None:
        return None
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    return nn.Parameter(param.detach().chunk(size, axis)[rank].clone(), param.requires_grad)


def column_linear(layer: nn.Linear, group: dist.ProcessGroup | None = None) -> nn.Linear:
    """Return this rank's shard of a linear layer cut by columns: (n, in) becomes (n, out / k).

    Its input must come from ``SumBackward``, called once for all the layers that share it.
    """
    check_layer(layer, 'out_features', group)
    wide = layer.out_features // dist.get_world_size(group)
    shard = nn.Linear(layer.in_features, wide, device='meta')  # without memory; filled below
    # A weight is (out, in), so columns of the matrix in Y = XW are rows of it.
    shard.weight, shard.bias = (shard_along(p, 0, group) for p in (layer.weight, layer.bias))
    shard.cut = {'weight': 0, 'bias': 0}  # type: ignore[assignment]  # our own attribute
    return shard


class RowLinear(nn.Linear):
    """A linear layer split by inputs: this rank has a shard of them and of their weights."""

    group, cut = None, {'weight': 1}  # the axis of the cut

    def forward(self, x: Tensor) -> Tensor:
        """Allreduce the partial sums from each shard of ``x`` (n, in / k); add the bias once."""
        y = SumForward.apply(F.linear(x, self.weight), self.group)
        return y if self.bias is None else y + self.bias


def row_linear(layer: nn.Linear, group: dist.ProcessGroup | None = None) -> RowLinear:
    """Return this rank's shard of a linear layer cut by rows: (n, in / k) becomes (n, out).

    Its output is the whole layer's, on every rank; the bias, shared with ``layer``, is not cut.
    """
    check_layer(layer, 'in_features', group)
    long = layer.in_features // dist.get_world_size(group)
    shard = RowLinear(long, layer.out_features, device='meta')
    shard.weight, shard.bias, shard.group = shard_along(layer.weight, 1, group), layer.bias, group  # type: ignore[assignment]
    return shard


def blocks_of(net: nn.Module) -> list[Any]:
    """List a network's blocks: modules with ``attention`` and ``mlp``, as in ``vit()``."""
    return [b for b in net.modules() if hasattr(b, 'attention') and hasattr(b, 'mlp')]


def tensor_parallel(net: nn.Module, group: dist.ProcessGroup | None = None) -> nn.Module:
    """Cut every block of ``vit()`` over the ranks of a group, in place; return the network.

    The values come from the group's first rank; call ``load_state_dict`` before this, and make the
    optimizer after it. All ranks of the group get the same batch and compute the same loss. Uncut
    parameters (norms, biases of row-cut layers, all outside of blocks) stay equal on them, bit for
    bit.
    """
    check_blocks(net, group)
    for value in net.state_dict().values():
        dist.broadcast(value, group=group, group_src=0)
    for block in blocks_of(net):
        a, m = block.attention, block.mlp
        # A rank's columns of q, k and v are whole heads: (n, t, width) to (n, heads / k, t, d).
        a.q, a.k, a.v = (column_linear(f, group) for f in (a.q, a.k, a.v))
        m[0] = column_linear(m[0], group)
        a.out, m[2] = row_linear(a.out, group), row_linear(m[2], group)
        for first in (a, m):
            # One allreduce for q, k and v together, on their common input.
            first.register_forward_pre_hook(lambda _, args: SumBackward.apply(args[0], group))
    return net


def by_plan(net: nn.Module, mesh: dist.DeviceMesh | None = None) -> nn.Module:
    """Cut ``vit()`` with PyTorch's ``parallelize_module``, over all ranks or a mesh."""
    mesh = mesh or dist.init_device_mesh(this_device().type, (dist.get_world_size(),))
    columns = 'attention.q', 'attention.k', 'attention.v', 'mlp.0'
    plan: dict[str, Any] = {name: parallel.ColwiseParallel() for name in columns}
    plan |= {name: parallel.RowwiseParallel() for name in ('attention.out', 'mlp.2')}
    for block in blocks_of(net):
        parallel.parallelize_module(block, mesh, plan)
    return net


def full_state(net: nn.Module, group: dist.ProcessGroup | None = None) -> dict[str, Tensor]:
    """Gather the whole network's state dict on every rank of the group; all ranks must call this.

    An uncut network has the same state dict, and can load it.
    """
    check_group()
    state = net.state_dict()
    for prefix, layer in net.named_modules():
        for name, axis in getattr(layer, 'cut', {}).items():
            key = f'{prefix}.{name}'.removeprefix('.')
            if key in state:
                shards = [torch.empty_like(state[key]) for _ in range(dist.get_world_size(group))]
                dist.all_gather(shards, state[key].contiguous(), group=group)
                state[key] = torch.cat(shards, axis)
    return state


def check_layer(layer: object, features: str, group: dist.ProcessGroup | None) -> None:
    """Raise unless these features of a linear layer can be divided among the ranks."""
    check_group()
    whole = isinstance(layer, nn.Linear) and not hasattr(layer, 'cut')
    arguments.expect(whole, 'layer', 'a whole nn.Linear', layer)
    ranks = dist.get_world_size(group)
    arguments.divisible(features, getattr(layer, features), ranks, 'the number of ranks')


def check_blocks(net: nn.Module, group: dist.ProcessGroup | None) -> None:
    """Raise unless a network has blocks and all of them can be cut."""
    check_group()
    blocks = blocks_of(net) if isinstance(net, nn.Module) else []
    needed = 'q', 'k', 'v', 'out', 'head_width'
    if not blocks or not all(hasattr(b.attention, name) for b in blocks for name in needed):
        raise ValueError(
            'this network has no blocks with .attention and .mlp, as vit() has: split its layers '
            'with column_linear and row_linear'
        )
    ranks = dist.get_world_size(group)
    for block in blocks:
        a, m = block.attention, block.mlp
        if isinstance(a.out, RowLinear):
            raise ValueError('this network has already been cut: build a new one')
        heads = a.q.out_features // a.head_width
        arguments.divisible('the number of heads', heads, ranks, 'the number of ranks')
        arguments.divisible("the MLP's width", m[0].out_features, ranks, 'the number of ranks')
