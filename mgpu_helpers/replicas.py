"""Where a Gluon network's replicas are, and whether a batch fits them.

Like ``checks``, but these know Gluon: each raises before anything is changed.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import TYPE_CHECKING, Any

from . import checks

if TYPE_CHECKING:
    from mxnet import Context
    from mxnet.gluon import Block, Parameter, Trainer
    from mxnet.ndarray import NDArray


def parameters_of(net: Block) -> list[Parameter]:
    """List the parameters of a network and of all the blocks in it.

    Like ``net.collect_params()``, which takes 1 ms for ResNet-18; this is asked for in every step.

    Parameters
    ----------
    net : mxnet.gluon.Block

    Returns
    -------
    list of mxnet.gluon.Parameter

    Examples
    --------
    >>> import mxnet as mx
    >>> [p.shape for p in parameters_of(mx.gluon.nn.Dense(2, in_units=3))]
    [(2, 3), (2,)]
    """
    params = []
    net.apply(lambda block: params.extend(block.params.values()))
    return params


def devices_of(net: Block) -> list[Context]:
    """List the devices on which a network is initialized.

    Parameters
    ----------
    net : mxnet.gluon.Block
        Initialized; a deferred initialization counts.

    Returns
    -------
    list of mxnet.Context

    Raises
    ------
    ValueError
        If the network is not initialized, has no parameters, or has them on different devices.

    Examples
    --------
    >>> import mxnet as mx
    >>> net = mx.gluon.nn.Dense(2)
    >>> net.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    >>> devices_of(net)
    [cpu(0), cpu(1)]
    """
    found = None
    for param in parameters_of(net):
        try:
            devices = param.list_ctx()
        except RuntimeError as error:
            raise ValueError(
                f'parameter {param.name} is not initialized: call net.initialize(ctx=devices) first'
            ) from error
        if found not in (None, devices):
            raise ValueError(
                f'parameter {param.name} is on {devices}, but those before it are on {found}: '
                'initialize the whole network on one list of devices'
            )
        found = devices
    if found is None:
        raise ValueError(f'{type(net).__name__} has no parameters, so it is on no device')
    return found


def check_step(
    net: Block, X: NDArray, y: NDArray, devices: Sequence[Context], trainer: Trainer
) -> None:
    """Raise unless a batch can be trained on with these; see ``train_batch``.

    Raises
    ------
    TypeError
        If ``devices`` is no list.
    ValueError
        If a device appears twice, if the batch is smaller than the number of devices or ``y`` of
        another length, if the network is not initialized on exactly these devices, or if the
        trainer was made for another network or for other devices.

    Examples
    --------
    >>> import mxnet as mx
    >>> net = mx.gluon.nn.Dense(2)
    >>> net.initialize(ctx=[mx.cpu(0)])
    >>> trainer = mx.gluon.Trainer(net.collect_params(), 'sgd')
    >>> check_step(net, mx.nd.zeros((4, 3)), mx.nd.zeros(4), [mx.cpu(0)], trainer)
    """
    checks.device_list(devices)
    checks.same_length(X, y)
    checks.can_split(X, devices, even_split=False)
    found = devices_of(net)
    if set(found) != set(devices):
        raise ValueError(
            f'the network is initialized on {found}, not on {list(devices)}: call '
            'net.initialize(ctx=devices), or net.collect_params().reset_ctx(devices) to keep its '
            'values'
        )
    # Private names, but MXNet is retired. A trainer for fewer devices than the network has crashes
    # the process.
    if trainer._contexts != found or not set(trainer._params) <= set(parameters_of(net)):
        raise ValueError(
            'the trainer was made for another network, or for this one when it was not on '
            f'{found}: make a new one, make_trainer(net, lr)'
        )


def check_shards(net: Block, data: Sequence[NDArray], label: Sequence[NDArray]) -> None:
    """Raise unless there is a shard of labels for each shard of data, where the network is.

    Raises
    ------
    TypeError
        If ``data`` or ``label`` is not a list of NDArrays.
    ValueError
        If there are none, if the lengths differ, or if a shard is on a device on which the
        network is not initialized.

    Examples
    --------
    >>> import mxnet as mx
    >>> net = mx.gluon.nn.Dense(2)
    >>> net.initialize(ctx=[mx.cpu(0)])
    >>> check_shards(net, [mx.nd.zeros((4, 3))], [mx.nd.zeros(4)])
    """
    for name, shards in (('data', data), ('label', label)):
        listed = isinstance(shards, (list, tuple))
        strange = [s for s in shards if not hasattr(s, 'context')] if listed else [shards]
        if strange:
            raise TypeError(
                f'{name} must be a list of NDArrays, one per device, not '
                f'{"of " * listed}{type(strange[0]).__name__}; gluon.utils.split_and_load makes one'
            )
    if not data or len(data) != len(label):
        raise ValueError(
            f'{len(data)} shards of data and {len(label)} of labels: pass one of each per device'
        )
    found = devices_of(net)
    for X, y in zip(data, label):
        checks.same_length(X, y)
        if X.context not in found or y.context != X.context:
            raise ValueError(
                f'a shard of data is on {X.context} and its labels are on {y.context}, but the '
                f'network is initialized on {found}: load both onto one of these'
            )


def check_last_batch(train_iter: Sized, batch_size: int, devices: Sequence[Context]) -> None:
    """Raise unless every batch of an epoch has an example for each device.

    Raises
    ------
    TypeError
        If ``train_iter`` does not say how many examples and batches it has.
    ValueError
        If its last batch has fewer examples than there are devices.

    Examples
    --------
    >>> from mgpu_helpers.data import load_arrays
    >>> batches, _ = load_arrays('mnist', batch_size=32, num_examples=100)
    >>> check_last_batch(batches, 32, ['cpu(0)', 'cpu(1)'])
    """
    if not hasattr(train_iter, 'num_examples') or not hasattr(train_iter, '__len__'):
        raise TypeError(
            'load_data must return iterators that have num_examples and a length, as those of '
            f'load_data_fashion_mnist, not {type(train_iter).__name__}'
        )
    n = train_iter.num_examples
    last = min(n - (len(train_iter) - 1) * batch_size, batch_size)
    if last < len(devices):
        raise ValueError(
            f'{n} examples in batches of {batch_size} end in a batch of {last}, too few for '
            f'{len(devices)} devices: choose another batch_size or num_examples'
        )


def check_network(net: Any, devices: Sequence[Context]) -> None:
    """Raise unless a network can be trained on these devices; see ``gluon.prepare``.

    Raises
    ------
    TypeError
        If it is no Gluon network.
    ValueError
        If it contains a ``SyncBatchNorm`` and there are several devices.

    Examples
    --------
    >>> import mxnet as mx
    >>> check_network(mx.gluon.nn.Dense(2), [mx.cpu(0), mx.cpu(1)])
    """
    if not hasattr(net, 'collect_params') or isinstance(net, type):
        raise TypeError(f'net must be a Gluon network, such as lenet(), not {checks.shown(net)}')
    blocks = []
    net.apply(lambda block: blocks.append(type(block).__name__))
    if 'SyncBatchNorm' in blocks and len(devices) > 1:
        raise ValueError(
            'a network with SyncBatchNorm hangs on several devices in MXNet 1.9.1: use BatchNorm, '
            'or one device'
        )
