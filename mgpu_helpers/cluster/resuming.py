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
    """Copy the parameters of a network into NumPy arrays.

    Parameters
    ----------
    net : mxnet.gluon.Block
        Initialized; of several replicas the first is taken.

    Returns
    -------
    dict of str to numpy.ndarray

    Examples
    --------
    >>> from mgpu_helpers.gluon import lenet, mx, prepare
    >>> net = lenet()
    >>> prepare(net, [mx.cpu(0)])
    >>> _ = net(nd.zeros((1, 1, 28, 28)))
    >>> parameters(net)['cnn_conv0_weight'].shape
    (20, 1, 3, 3)
    """
    return {name: p.list_data()[0].asnumpy() for name, p in net.collect_params().items()}


def load_parameters(net: Block, arrays: dict[str, np.ndarray]) -> None:
    """Give all replicas of a network the values of ``parameters``.

    Parameters
    ----------
    net : mxnet.gluon.Block
        Initialized.
    arrays : dict of str to numpy.ndarray
        Of a network of the same kind.

    Raises
    ------
    ValueError
        If names or shapes are another network's; nothing is changed then.

    Examples
    --------
    >>> from mgpu_helpers.gluon import lenet, mx, prepare
    >>> net = lenet()
    >>> prepare(net, [mx.cpu(0)])
    >>> _ = net(nd.zeros((1, 1, 28, 28)))
    >>> load_parameters(net, parameters(net))
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
    """Go on where the newest whole checkpoint of a folder ends, if there is one.

    Parameters
    ----------
    net : mxnet.gluon.Block
        Initialized, its shapes settled. Gets the parameters.
    train_iter : NDArrayIter
        Fresh, with a seed. Its next epoch will be the one after the checkpoint's.
    folder : str or Path or None
        None: there is none.
    **info
        What the run that wrote it must have had, such as ``seed=0, lr=0.3``.

    Returns
    -------
    int
        How many epochs are done: 0 if there is no checkpoint.

    Raises
    ------
    ValueError
        If the checkpoint is of a run with other settings, or of another network.

    Examples
    --------
    >>> from mgpu_helpers.gluon import lenet
    >>> resume(lenet(), None, None)
    0
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
