"""What a training step makes of a better allreduce: ``sync_with``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from . import checks
from .bucket import Bucket, copy_all
from .counting import AN_ALLREDUCE
from .filling import fill_buckets

if TYPE_CHECKING:
    from mxnet.ndarray import NDArray

    from ..scratch import Sync

    Allreduce = Callable[[list[NDArray]], None]  # leaves the sum in each array


def sync_with(algorithm: Allreduce, bucket_bytes: int | None = None) -> Sync:
    """Make a ``sync`` for chapter 1's ``train`` and ``train_batch`` from an allreduce.

    Sums travel in buckets of at most ``bucket_bytes``, last layer first, or each by itself, in the
    parameters' order. Buckets are kept for the next call with gradients of the same shapes.
    """
    checks.function('algorithm', algorithm, AN_ALLREDUCE)
    checks.positive_int('bucket_bytes', 1 if bucket_bytes is None else bucket_bytes)
    # The buckets, made when these gradients are seen for the first time.
    kept = {}  # type: ignore[var-annotated]

    def one_by_one(grads: Sequence[Sequence[NDArray]]) -> None:
        checks.same_gradients(grads)
        for grads_of_one_param in zip(*grads):
            algorithm(list(grads_of_one_param))

    def in_buckets(grads: Sequence[Sequence[NDArray]]) -> None:
        checks.lists_of_gradients(grads)
        layout = tuple((g.context, g.shape, g.dtype) for of_one in grads for g in of_one)
        if layout not in kept:
            checks.same_gradients(grads)
            kept.clear()
            kept[layout] = make_buckets(grads, bucket_bytes)  # type: ignore[arg-type]  # is not None
        for indices, buckets in kept[layout]:
            sum_in_buckets(algorithm, buckets, [[g[i] for i in indices] for g in grads])

    return one_by_one if bucket_bytes is None else in_buckets


def make_buckets(
    grads: Sequence[Sequence[NDArray]], bucket_bytes: int
) -> list[tuple[list[int], list[Bucket]]]:
    """Give, for each bucket, which of these gradients go in, and a ``Bucket`` for each device."""
    sizes = [g.size * g.dtype().itemsize for g in grads[0]]
    return [
        (indices, [Bucket([of_one[i] for i in indices]) for of_one in grads])
        for indices in fill_buckets(sizes, bucket_bytes)
    ]


def sum_in_buckets(
    algorithm: Allreduce, buckets: Sequence[Bucket], grads: Sequence[Sequence[NDArray]]
) -> None:
    """Sum the gradients ``grads[c]`` of each device c, which fit its ``buckets[c]``, in place."""
    if len(grads[0]) == 1:  # alone in its bucket: it is one message already
        algorithm([arrays[0] for arrays in grads])
        return
    for bucket, arrays in zip(buckets, grads):
        copy_all(arrays, bucket.parts)
    algorithm([bucket.flat for bucket in buckets])
    for bucket, arrays in zip(buckets, grads):
        copy_all(bucket.parts, arrays)
