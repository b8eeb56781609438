"""A worker's shard of a joint batch; imports no MXNet, so that the exercises need none."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..arguments import Array


def shard(X: Array, rank: int, num_workers: int) -> Array:
    """Return one worker's shard of a joint batch (n, ...) or of a list.

    Its length is n / ``num_workers``, rounded down or up; with fewer examples than workers it is 0
    for some. Over all ranks, each example comes once, in order.
    """
    return X[len(X) * rank // num_workers : len(X) * (rank + 1) // num_workers]
