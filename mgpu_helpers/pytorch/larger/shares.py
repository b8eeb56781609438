"""Several tensors in one vector that is cut into as many equal shares as there are ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

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


def spans(tensors: Sequence[torch.Tensor], rank: int, k: int) -> Iterator[tuple[slice, slice]]:
    """Yield which values of each tensor a rank has: where in its share, and where in the tensor.

    Both slices are empty for a tensor of which it has none.
    """
    size = -(-sum(t.numel() for t in tensors) // k)  # of a share, rounded up
    at = -rank * size  # where the tensor begins, seen from the share
    for t in tensors:
        start, stop = (min(max(i, 0), size) for i in (at, at + t.numel()))
        yield slice(start, stop), slice(max(start - at, 0), max(stop - at, 0))
        at += t.numel()


def join(parts: Sequence[torch.Tensor], like: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Gather tensors of whose values each rank has those of ``spans``; give them whole."""
    size = -(-sum(t.numel() for t in like) // dist.get_world_size())
    share = torch.cat(list(parts))
    return views(all_gather(F.pad(share, (0, size - len(share)))), like)


def lots(
    params: Sequence[torch.Tensor],
    most: float = 2**25,
    kind: Callable[[torch.Tensor], object] = lambda p: None,
) -> list[list[torch.Tensor]]:
    """Sort parameters into lots that can travel as one vector, each of ``most`` bytes or one alone.

    Those of a lot have one type, one device and one ``kind(p)``; all are trained, or none.
    """
    lots_of: dict[object, list[list[torch.Tensor]]] = {}
    for p in params:
        lots = lots_of.setdefault((p.dtype, p.device, p.requires_grad, kind(p)), [[]])
        if sum(q.nbytes for q in lots[-1]) + p.nbytes > most and lots[-1]:
            lots.append([])
        lots[-1].append(p)
    return [lot for lots in lots_of.values() for lot in lots]


def check_dense(tensors: Sequence[torch.Tensor]) -> None:
    """Raise if a gradient names only the rows that it has."""
    if any(t.layout != torch.strided for t in tensors):
        raise TypeError('a sparse gradient cannot be cut: build nn.Embedding(..., sparse=False)')
