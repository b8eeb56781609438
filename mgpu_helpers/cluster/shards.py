"""Which part of a joint batch is a worker's: needs no MXNet, as the exercises do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..arguments import Array


def shard(X: Array, rank: int, num_workers: int) -> Array:
    """Give the part of a joint batch (n, ...), or of a list, that belongs to one worker.

    Its length is n / ``num_workers``, rounded down or up; with fewer examples than workers it is 0
    for some. Over all ranks, each example comes once, in order.
    """
    return X[len(X) * rank // num_workers : len(X) * (rank + 1) // num_workers]
