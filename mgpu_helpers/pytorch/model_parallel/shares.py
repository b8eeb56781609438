"""Several tensors in one vector that is cut into as many equal shares as there are ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
import torch.distributed as dist
from torch.nn import functional as F


def flatten(tensors: Sequence[torch.Tensor], k: int) -> torch.Tensor:
    """Copy tensors into one vector, with zeros at its end so that ``k`` divides its length."""
    check_dense(tensors)
    whole = torch.cat([t.detach().reshape(-1) for t in tensors])
    return F.pad(whole, (0, -len(whole) % k))


def views(whole: torch.Tensor, like: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Give each tensor's place in the vector of ``flatten``, in its shape; memory is shared."""
    sizes = [t.numel() for t in like]
    return [v.view(t.shape) for v, t in zip(whole[: sum(sizes)].split(sizes), like)]


def all_gather(share: torch.Tensor) -> torch.Tensor:
    """Put together the shares (n/k,) of all k ranks; every rank gets the whole (n,)."""
    whole = share.new_empty(len(share) * dist.get_world_size())
    dist.all_gather_single(whole, share.contiguous())
    return whole


def reduce_scatter(whole: torch.Tensor) -> torch.Tensor:
    """Take the mean over the ranks of vectors (n,); each rank gets its share (n/k,) of it alone."""
    k = dist.get_world_size()
    share = whole.new_empty(len(whole) // k)
    dist.reduce_scatter_single(share, whole)
    return share / k


def spans(tensors: Sequence[torch.Tensor], rank: int, k: int) -> Iterator[slice]:
    """Yield where in a rank's share of ``flatten(tensors, k)`` each tensor is; some are empty."""
    size = -(-sum(t.numel() for t in tensors) // k)  # of a share, rounded up
    at = -rank * size  # where the tensor begins, seen from the share
    for t in tensors:
        start, stop = (min(max(i, 0), size) for i in (at, at + t.numel()))
        yield slice(start, stop)
        at += t.numel()


def part(tensor: torch.Tensor) -> torch.Tensor:
    """Give this rank's values of a tensor, flat and perhaps none; memory is shared."""
    size = -(-tensor.numel() // dist.get_world_size())  # rounded up
    return tensor.detach().reshape(-1)[dist.get_rank() * size :][:size]


def reduce_scatter_parts(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Take the mean over the ranks of tensors; each rank gets its ``part`` of each alone."""
    k = dist.get_world_size()
    # A row for each rank, and in it its parts, side by side.
    rows = torch.cat([flatten([t], k).view(k, -1) for t in tensors], dim=1)
    means = reduce_scatter(rows.flatten()).split([-(-t.numel() // k) for t in tensors])
    return [mean[: part(t).numel()] for mean, t in zip(means, tensors)]


def gather_parts(parts: Sequence[torch.Tensor], like: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Gather tensors of which each rank has its ``part``; give them whole."""
    k = dist.get_world_size()
    sizes = [-(-t.numel() // k) for t in like]
    row = torch.cat([F.pad(p.detach(), (0, size - len(p))) for p, size in zip(parts, sizes)])
    wholes = all_gather(row).view(k, -1).split(sizes, dim=1)
    return [views(whole.flatten(), [t])[0] for whole, t in zip(wholes, like)]


def check_dense(tensors: Sequence[torch.Tensor]) -> None:
    """Raise if a gradient names only the rows that it has."""
    if any(t.layout != torch.strided for t in tensors):
        raise TypeError('a sparse gradient cannot be cut: build nn.Embedding(..., sparse=False)')
