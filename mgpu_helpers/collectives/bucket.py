"""Many small gradients in few big messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from mxnet import nd

from . import checks

if TYPE_CHECKING:
    from mxnet.ndarray import NDArray


class Bucket:
    """One long array with room for many small ones: fill it, sum it over the devices, empty it.

    Parameters
    ----------
    arrays : list of NDArray
        Of any shapes, of one type, on one device. They are only looked at, not copied yet.

    Attributes
    ----------
    flat : NDArray
        One-dimensional, on their device.
    parts : list of NDArray
        Views of ``flat``, one for each array, in its shape.

    Raises
    ------
    TypeError
        If it is not a list of arrays, or their types differ.
    ValueError
        If there is none, or they are on different devices.

    Notes
    -----
    Horovod calls it tensor fusion, PyTorch's DistributedDataParallel a bucket. Copying costs less
    than it saves, where a message's latency is more than the time that its bytes take.

    Examples
    --------
    >>> bucket = Bucket([nd.ones((2, 2)), nd.ones(3) * 5])
    >>> bucket.pack([nd.ones((2, 2)), nd.ones(3) * 5])
    >>> bucket.flat.asnumpy().tolist()
    [1.0, 1.0, 1.0, 1.0, 5.0, 5.0, 5.0]
    """

    def __init__(self, arrays: Sequence[NDArray]) -> None:
        checks.bucket(arrays)
        cuts = np.cumsum([0] + [x.size for x in arrays]).tolist()
        self.flat = nd.empty(cuts[-1], ctx=arrays[0].context, dtype=arrays[0].dtype)
        self.parts = [self.flat[a:b].reshape(x.shape) for a, b, x in zip(cuts, cuts[1:], arrays)]

    def pack(self, arrays: Sequence[NDArray]) -> None:
        """Copy the arrays in, end to end.

        Parameters
        ----------
        arrays : list of NDArray
            Of the shapes, type and device that the bucket was made for.

        Raises
        ------
        TypeError, ValueError
            If there are more, fewer or other ones; nothing is copied then.
        """
        checks.same_layout(arrays, self.parts)
        copy_all(arrays, self.parts)

    def unpack(self, arrays: Sequence[NDArray]) -> None:
        """Copy what the bucket holds back into the arrays.

        Parameters
        ----------
        arrays : list of NDArray
            Of the shapes, type and device that the bucket was made for; changed in place.

        Raises
        ------
        TypeError, ValueError
            If there are more, fewer or other ones; nothing is copied then.
        """
        checks.same_layout(arrays, self.parts)
        copy_all(self.parts, arrays)


def copy_all(sources: Sequence[NDArray], targets: Sequence[NDArray]) -> None:
    """Copy arrays into others on the same device, in one operator where MXNet has one.

    Parameters
    ----------
    sources, targets : list of NDArray
        Pairs of one shape and type; the targets are changed in place.

    Notes
    -----
    LeNet's 8 gradients take 47 µs in one operator, 91 in eight, and 494 with ``nd.concat``, which
    copies number by number. The operator is meant for mixed precision ("cast all to the widest
    type") and on CPUs knows float32 only.

    Examples
    --------
    >>> target = nd.zeros(2)
    >>> copy_all([nd.ones(2)], [target])
    >>> target.asnumpy().tolist()
    [1.0, 1.0]
    """
    if all(x.dtype == np.float32 for x in sources):
        nd.amp_multicast(*sources, num_outputs=len(sources), out=list(targets))
        return
    for source, target in zip(sources, targets):
        source.copyto(target)
