"""A network's parameters as arrays, and back: what a run needs in order to go on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..gluon import nd
from .checkpoint import latest_checkpoint

if TYPE_CHECKING:
    import numpy as np
    from mxnet.gluon import Block

    from ..scratch import NDArrayIter


def parameters(net: Block) -> dict[str, np.ndarray]:
    """Copy the parameters of an initialized network, of its first replica, into NumPy arrays."""
    return {name: p.list_data()[0].asnumpy() for name, p in net.collect_params().items()}


def load_parameters(net: Block, arrays: dict[str, np.ndarray]) -> None:
    """Give all replicas of an initialized network the values of ``parameters``.

    If names or shapes are another network's, ``ValueError``, and nothing is changed.
    """
    params = net.collect_params()
    here = {name: tuple(p.shape) for name, p in params.items()}
    there = {name: array.shape for name, array in arrays.items()}
    if here != there:
        name = next(n for n in here | there if here.get(n) != there.get(n))
        raise ValueError(
            f'these are the parameters of another network: {name} has the shape {there.get(name)} '
            f'there and {here.get(name)} here'
        )
    for name, param in params.items():
        param.set_data(nd.array(arrays[name], dtype=arrays[name].dtype))


def resume(net: Block, train_iter: NDArrayIter, folder: str | Path | None, **info: Any) -> int:
    """Go on where the newest whole checkpoint of a folder ends; give how many epochs are done.

    That is 0 if there is no checkpoint, or ``folder`` is None. ``net`` is initialized, its shapes
    settled, and gets the parameters; ``train_iter`` is fresh, with a seed, and goes on with the
    epoch after the checkpoint's. ``info`` is what the run that wrote it must have had, such as
    ``seed=0, lr=0.3``.
    """
    checkpoint = latest_checkpoint(folder) if folder else None
    if checkpoint is None:
        return 0
    if checkpoint.info != info:
        raise ValueError(
            f'{checkpoint.path} is of a run with {checkpoint.info}, and this one has {info}: take '
            'the same settings, or another folder'
        )
    load_parameters(net, checkpoint.arrays)
    train_iter.skip(checkpoint.epoch)
    return checkpoint.epoch
