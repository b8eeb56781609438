"""What a training step makes of a better allreduce: ``sync_with``, and fewer of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from mxnet import autograd

from ..scratch import lenet, loss, sgd, split_batch, sync_gradients
from . import checks
from .bucket import Bucket, copy_all
from .filling import fill_buckets

if TYPE_CHECKING:
    from mxnet import Context
    from mxnet.ndarray import NDArray

    from ..scratch import Sync

    Allreduce = Callable[[list[NDArray]], None]  # leaves the sum in each array


def sync_with(algorithm: Allreduce, bucket_bytes: int | None = None) -> Sync:
    """Make a ``sync`` for chapter 1's ``train`` and ``train_batch`` from an allreduce.

    Parameters
    ----------
    algorithm : callable
        Sums a list of arrays, one per device, in place: one of ``ALGORITHMS``, or your own.
    bucket_bytes : int, optional
        Sum in buckets of at most so many bytes. By default each gradient is summed by itself.

    Returns
    -------
    callable
        Takes ``grads[c][i]``, device c's gradient of parameter i, and leaves the sums there. It
        keeps its buckets for the next call with gradients of the same shapes.

    Raises
    ------
    TypeError, ValueError
        If ``algorithm`` cannot be called or ``bucket_bytes`` is not an integer of at least 1. What
        it gives back raises if the gradients of the devices do not match.

    Examples
    --------
    >>> from mgpu_helpers.collectives import allreduce_ring
    >>> from mxnet import cpu, nd
    >>> grads = [[nd.ones(2, ctx=cpu(c)), nd.ones((1, 3), ctx=cpu(c))] for c in range(3)]
    >>> sync_with(allreduce_ring, bucket_bytes=1000)(grads)
    >>> grads[2][1].asnumpy().tolist()
    [[3.0, 3.0, 3.0]]
    """
    checks.allreduce(algorithm, bucket_bytes)
    # The buckets, made when these gradients are seen for the first time.
    kept = {}  # type: ignore[var-annotated]

    def one_by_one(grads: Sequence[Sequence[NDArray]]) -> None:
        checks.same_gradients(grads)
        for grads_of_one_param in zip(*grads):
            algorithm(list(grads_of_one_param))

    def in_buckets(grads: Sequence[Sequence[NDArray]]) -> None:
        layout = checks.layout(grads)
        if layout not in kept:
            kept.clear()
            kept[layout] = make_buckets(grads, bucket_bytes)  # type: ignore[arg-type]  # is not None
        for indices, buckets in kept[layout]:
            sum_in_buckets(algorithm, buckets, [[g[i] for i in indices] for g in grads])

    return one_by_one if bucket_bytes is None else in_buckets


def make_buckets(
    grads: Sequence[Sequence[NDArray]], bucket_bytes: int
) -> list[tuple[list[int], list[Bucket]]]:
    """Make the buckets that these gradients fill, on each device.

    Parameters
    ----------
    grads : list of list of NDArray
        ``grads[c][i]``, device c's gradient of parameter i.
    bucket_bytes : int
        As in ``fill_buckets``.

    Returns
    -------
    list of tuple
        For each bucket, which gradients go in, and a ``Bucket`` for each device.

    Raises
    ------
    TypeError, ValueError
        If the devices' gradients do not match, or those of one bucket are of several types.

    Examples
    --------
    >>> from mxnet import cpu, nd
    >>> grads = [[nd.ones(2, ctx=cpu(c)), nd.ones((1, 3), ctx=cpu(c))] for c in range(2)]
    >>> [(indices, len(buckets)) for indices, buckets in make_buckets(grads, 12)]
    [([1], 2), ([0], 2)]
    """
    checks.same_gradients(grads)
    sizes = [g.size * g.dtype().itemsize for g in grads[0]]
    return [
        (indices, [Bucket([of_one[i] for i in indices]) for of_one in grads])
        for indices in fill_buckets(sizes, bucket_bytes)
    ]


def sum_in_buckets(
    algorithm: Allreduce, buckets: Sequence[Bucket], grads: Sequence[Sequence[NDArray]]
) -> None:
    """Sum gradients over the devices in one call of ``algorithm``, in place.

    Parameters
    ----------
    algorithm : callable
        An allreduce.
    buckets : list of Bucket
        One per device, made for these gradients.
    grads : list of list of NDArray
        ``grads[c]``: those of device c that go into its bucket.

    Raises
    ------
    TypeError, ValueError
        As ``Bucket`` and ``algorithm``.

    Examples
    --------
    >>> from mgpu_helpers.collectives import allreduce_naive
    >>> from mxnet import cpu, nd
    >>> grads = [[nd.ones(2, ctx=cpu(c)), nd.ones((1, 3), ctx=cpu(c))] for c in range(2)]
    >>> sum_in_buckets(allreduce_naive, [Bucket(of_one) for of_one in grads], grads)
    >>> grads[1][1].asnumpy().tolist()
    [[2.0, 2.0, 2.0]]
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

    Parameters
    ----------
    small_batches : list of tuple
        ``(X, y)`` of each, as ``train_batch`` takes them.
    device_params : list of list of NDArray
        One replica per device, updated in place.
    devices : list of mxnet.Context
        k different devices.
    lr : float
        Learning rate.
    sync : callable
        Called once, with the summed gradients.

    Returns
    -------
    list of NDArray
        The losses of all examples, in order of batches and devices. The parameters are those that
        one batch of all examples together would have given, up to rounding.

    Raises
    ------
    TypeError, ValueError
        If there is no batch; else as ``train_batch``. Nothing is changed then.

    Notes
    -----
    For batches that are larger than memory allows, and for links that are slower than the devices.

    Examples
    --------
    >>> from mgpu_helpers import get_params, init_params
    >>> from mxnet import cpu, nd
    >>> replica = get_params(init_params(seed=0), cpu(0))
    >>> batch = nd.zeros((5, 1, 28, 28)), nd.zeros(5)
    >>> len(accumulate_batch([batch, batch, batch], [replica], [cpu(0)], lr=0.1))
    3
    """
    checks.steps(small_batches, device_params, devices, lr, sync)
    losses = []
    with adding_gradients(device_params):
        for X, y in small_batches:
            Xs, ys = split_batch(X, y, devices[: len(X)])
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

    Parameters
    ----------
    device_params : list of list of NDArray
        Parameters; afterwards, also after an error, each pass replaces their gradients again.

    Examples
    --------
    >>> from mxnet import nd
    >>> w = nd.ones(1)
    >>> with adding_gradients([[w]]):
    ...     for _ in range(3):
    ...         with autograd.record():
    ...             y = 2 * w
    ...         y.backward()
    ...     print(w.grad.asscalar())
    6.0
    """
    params = [p for replica in device_params for p in replica]
    for p in params:
        p.attach_grad('add')
    try:
        yield
    finally:
        for p in params:
            p.attach_grad()
