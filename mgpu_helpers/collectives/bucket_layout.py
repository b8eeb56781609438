"""Which gradients travel together, in real training steps and in simulated ones."""

from __future__ import annotations

from collections.abc import Sequence

from .. import checks


def fill_buckets(sizes: Sequence[float], bucket_bytes: float) -> list[list[int]]:
    """Say which gradients go together, by their indices: the last ones first, until one is full.

    ``sizes`` are bytes, first layer first. A gradient of more than ``bucket_bytes`` has a bucket to
    itself. Backward passes end with the first layer, so the last layer's bucket comes first: it can
    leave while the others are still computed.
    """
    checks.positive_number('bucket_bytes', bucket_bytes)
    buckets, room = [], 0  # type: ignore[var-annotated]  # lists of indices
    for i in reversed(range(len(sizes))):
        if not buckets or sizes[i] > room:
            buckets.append([])
            room = bucket_bytes
        buckets[-1].append(i)
        room -= sizes[i]
    return buckets
