"""What a training step makes of a better allreduce: ``sync_with``, and fewer of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from mxnet import autograd

from ..scratch import lenet, loss, sgd, split_batch, sync_gradients
from . import checks
from .bucket import Bucket, copy_all
from .counting import AN_ALLREDUCE
from .filling import fill_buckets

if TYPE_CHECKING:
    from mxnet import Context
    from mxnet.ndarray import NDArray

    from ..scratch import Sync

    Allreduce = Callable[[list[NDArray]], None]  # leaves the sum in each array


def sync_with(algorithm: Allreduce, bucket_bytes: int | None = None) -> Sync:
    """Make a ``sync`` for chapter 1's ``train`` and ``train_batch`` from an allreduce.

    It takes ``grads[c][i]``, device c's gradient of parameter i, and leaves the sums there: in
    buckets of at most ``bucket_bytes``, or each gradient by itself. It keeps its buckets for the
    next call with gradients of the same shapes.
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
    """Sum gradients over the devices in one call of ``algorithm``, in place.

    ``grads[c]`` are those of device c that go into its bucket, ``buckets[c]``.
    """
    if len(grads[0]) == 1:  # alone in its bucket: it is one message already
        algorithm([arrays[0] for arrays in grads])
        return
    for bucket, arrays in zip(buckets, grads):
        copy_all(arrays, bucket.parts)  # pack; that they fit has been seen before
    algorithm([bucket.flat for bucket in buckets])
    for bucket, arrays in zip(buckets, grads):
        copy_all(bucket.parts, arrays)


def accumulate_batch(
    small_batches: Sequence[tuple[NDArray, NDArray]],
    device_params: Sequence[Sequence[NDArray]],
    devices: Sequence[Context],
    lr: float,
    sync: Sync = sync_gradients,
) -> list[NDArray]:
    """Take one training step from several small batches: their gradients add up, then one sum.

    Gives the losses of all examples, in order of batches and devices. The parameters become those
    that one batch of all examples together would have given, up to rounding. For batches that are
    larger than memory allows, and for links that are slower than the devices.
    """
    checks.steps(small_batches, device_params, devices, lr, sync)
    losses = []
    with adding_gradients(device_params):
        for X, y in small_batches:
            Xs, ys = split_batch(X, y, devices)
            with autograd.record():
                ls = [loss(lenet(X_d, ps), y_d) for X_d, y_d, ps in zip(Xs, ys, device_params)]
            for l in ls:
                l.backward()
            losses += ls
        sync([[p.grad for p in params] for params in device_params])
        for params in device_params:
            sgd(params, lr, sum(len(X) for X, _ in small_batches))
    return losses


@contextlib.contextmanager
def adding_gradients(device_params: Sequence[Sequence[NDArray]]) -> Iterator[None]:
    """Let backward passes add to the gradients, which begin at 0, instead of replacing them.

    Afterwards, also after an error, each pass replaces them again.
    """
    params = [p for replica in device_params for p in replica]
    for p in params:
        p.attach_grad('add')
    try:
        yield
    finally:
        for p in params:
            p.attach_grad()
