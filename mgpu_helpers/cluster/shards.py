"""Take a worker's shard of a joint batch; needs no MXNet, as PyTorch's exercises use it, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..arguments import Array


def shard(X: Array, rank: int, num_workers: int) -> Array:
    """Return one worker's shard of a joint batch (n, ...) or of a list.

    Its length is n / ``num_workers``, rounded down or up; with fewer examples than workers, some
    shards are empty. Joined in rank order, the shards are the batch.
    """
    return X[len(X) * rank // num_workers : len(X) * (rank + 1) // num_workers]
