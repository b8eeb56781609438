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

    Made for arrays of any shapes, of one type, on one device, which are not copied yet: ``flat`` is
    one-dimensional, and ``parts`` are views of it in the arrays' shapes. Horovod calls it tensor
    fusion. It pays where a message's latency is more than the time that its bytes take to copy.
    """

    def __init__(self, arrays: Sequence[NDArray]) -> None:
        checks.bucket(arrays)
        cuts = np.cumsum([0] + [x.size for x in arrays]).tolist()
        self.flat = nd.empty(cuts[-1], ctx=arrays[0].context, dtype=arrays[0].dtype)
        self.parts = [self.flat[a:b].reshape(x.shape) for a, b, x in zip(cuts, cuts[1:], arrays)]


def copy_all(sources: Sequence[NDArray], targets: Sequence[NDArray]) -> None:
    """Copy arrays into others on the same device, in one operator where MXNet has one.

    LeNet's 8 gradients take 47 µs in one operator, 91 in eight, and 494 with ``nd.concat``, which
    copies number by number. The operator is meant for mixed precision ("cast all to the widest
    type") and on CPUs knows float32 only.
    """
    if all(x.dtype == np.float32 for x in sources):
        nd.amp_multicast(*sources, num_outputs=len(sources), out=list(targets))
        return
    for source, target in zip(sources, targets):
        source.copyto(target)
