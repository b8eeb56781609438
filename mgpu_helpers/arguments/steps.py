"""Check arguments that must fit together: arrays, devices, training steps, cost models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from .values import (
    LISTS,
    Array,
    array,
    check,
    device_list,
    expect,
    is_array,
    kind_of,
    library,
    positive_int,
    same,
    shown,
)

Lists: TypeAlias = Sequence[Sequence[Array]]  # [device][parameter]: replicas, or their gradients

MAKE = '[get_params(params, d) for d in devices]'


def list_of_arrays(name: str, values: Any, such_as: str, least: int = 0) -> None:
    """Raise unless ``values`` is a list of at least ``least`` arrays; ``such_as`` is an example."""
    wanted = f'a list of arrays, {such_as}'
    expect(isinstance(values, LISTS), name, wanted, values)
    expect(len(values) >= least, name, wanted, values, ValueError)
    for i, value in enumerate(values):
        if not is_array(value):
            missing = ' (no gradient? call attach_grad() first)' if value is None else ''
            raise TypeError(f'{name} must be {wanted}, but [{i}] is {shown(value)}{missing}')


def for_device(name: str, value: Any, where: Any) -> None:
    """Raise unless ``value`` is an array from the same library as the device ``where``."""
    array(name, value)
    has, wanted = library(value.__class__), library(where.__class__)
    way = 'nd.array(x)' if wanted == 'MXNet' else 'torch.as_tensor(x)'
    expect(has == wanted, name, f'an array from {wanted}, such as {way}', type(value))


def same_length(X: Array, y: Array, flat: bool = False) -> None:
    """Raise unless ``y`` has one label per example of ``X``; with ``flat``, ``y`` must be (n,)."""
    array('X', X)
    array('y', y)
    of_X, of_y = tuple(X.shape), tuple(y.shape)
    fits = of_y[:1] == of_X[:1] and (len(of_y) == 1 if flat else len(of_y) <= len(of_X))
    labels = 'labels (n,), one' if flat else 'a label'
    expect(fits, 'y', f'{labels} per example of X {of_X} (are X and y swapped?)', of_y, ValueError)


def classes(y: Array, most: int = 9) -> None:
    """Raise unless labels (n,) are classes 0 to ``most``; MXNet silently clips higher ones."""
    # Skipped on a GPU, because it would wait for the GPU; on the CPU, 256 labels take 16 µs.
    if str(y.context).startswith('cpu'):
        values = y.asnumpy()
        wrong = values[~((values >= 0) & (values <= most) & (values == values.round()))].tolist()
        expect(not wrong, 'y', f'classes, integers from 0 to {most}', wrong[:1], ValueError)


def batch(X: Array, y: Array | None, devices: Sequence[object], each: bool = False) -> None:
    """Raise unless a batch can be split over devices; with ``each``, all must get examples."""
    device_list('devices', devices)
    if y is not None:
        same_length(X, y)
        for_device('y', y, devices[0])
    for_device('the batch', X, devices[0])
    n, least = len(X) if X.shape else 0, len(devices) if each else 1
    expect(n >= least, 'the batch', f'at least {least} examples, one per device', n, ValueError)


def inputs(X: Array, params: Sequence[Array]) -> None:
    """Raise unless ``X`` has 28×28 images on the device of LeNet's parameters."""
    array('X', X)
    check(params=params)
    shape = tuple(X.shape)
    expect(shape[1:] == (1, 28, 28), 'X', 'images (n, 1, 28, 28)', shape, ValueError)
    here, there = kind_of(X), kind_of(params[0])
    expect(here == there, 'X', f'{there}, like the parameters', here)


def training_step(
    X: Array, y: Array, device_params: Lists, devices: Sequence[Any], lr: float, sync: object
) -> None:
    """Raise unless these are valid arguments of ``train_batch``."""
    check(lr=lr, sync=sync)
    batch(X, y, devices)
    same_length(X, y, flat=True)
    classes(y)
    expect(isinstance(device_params, LISTS), 'device_params', f'a list, as {MAKE}', device_params)
    for c, params in enumerate(device_params):
        list_of_arrays(f'device_params[{c}]', params, f'as in {MAKE}')
    here, wanted = len(device_params), f'{len(devices)} replicas, such as {MAKE}'
    expect(here == len(devices), 'device_params', wanted, here, ValueError)
    for c, (params, where) in enumerate(zip(device_params, devices)):
        for i, p in enumerate(params):
            name = f'device_params[{c}][{i}]'
            for_device(name, p, where)
            own = p.context == where
            if not own or p.grad is None:
                what = 'has no gradient' if own else f'is shared, or not on {where}'
                raise ValueError(f'{name} {what}: make replicas with {MAKE}')


def one_per_device(data: Sequence[Array]) -> None:
    """Raise unless ``data`` is a list of arrays of one shape and type, on different devices."""
    such = 'one per device (to sum all parameters, use sync_gradients or sync_with)'
    list_of_arrays('data', data, such, least=1)
    for i, x in enumerate(data):
        # Some sums of sparse arrays, and of mx.np arrays, would be silently wrong.
        home = library(x.__class__)
        kind = type(x).__module__ if home == 'MXNet' else home
        dense = 'a dense array on a device, such as nd.array(x, ctx=device)'
        expect(kind in ('mxnet.ndarray.ndarray', ''), f'data[{i}]', dense, type(x))
    same('the shapes of arrays to sum', [tuple(x.shape) for x in data], 'sum each shape separately')
    types = [getattr(x.dtype, '__name__', str(x.dtype)) for x in data]
    same('the types of arrays to sum', types, 'convert them with astype', TypeError)
    places = [x.context if hasattr(x, 'context') else id(x) for x in data]
    if twice := [i for i, here in enumerate(places) if places.count(here) > 1]:
        raise ValueError(f'data{twice} share a device or memory: is a replica listed twice?')


def lists_of_gradients(grads: Lists, shapes: bool = False) -> None:
    """Raise unless ``grads`` has one nonempty list per device, all of the same length."""
    fits = isinstance(grads, LISTS) and all(isinstance(of_one, LISTS) for of_one in grads)
    expect(fits, 'grads', 'grads[c][i], a list of gradients for each device c', grads)
    for c, of_one in enumerate(grads):
        list_of_arrays(f'grads[{c}]', of_one, f'the gradients of device {c}')
    of_one_network = 'pass the gradients of replicas of one network'
    same('the numbers of gradients per device', [len(g) for g in grads], of_one_network)
    expect(any(grads), 'grads', 'at least one gradient per device', grads, ValueError)
    for i, of_all in enumerate(zip(*grads) if shapes else ()):  # each shape is a call into MXNet
        same(f'the shapes of gradient {i}', [tuple(g.shape) for g in of_all], of_one_network)


def network(net: Any, devices: Sequence[object] = ()) -> None:
    """Raise unless a network can train on these devices; ``SyncBatchNorm`` hangs on several."""
    fits = hasattr(net, 'collect_params') and not isinstance(net, type)
    expect(fits, 'net', 'a Gluon network, such as lenet()', net)
    layers: list[str] = []
    if len(devices) > 1:
        net.apply(lambda block: layers.append(type(block).__name__))
    if 'SyncBatchNorm' in layers:
        raise ValueError('SyncBatchNorm hangs on several devices in MXNet 1.9.1: use BatchNorm')


def network_step(
    X: Array, y: Array, devices: Any, trainer: Any, loss: Any, net_devices: Any, params: Any
) -> None:
    """Raise unless a network on ``net_devices`` can be trained on this batch."""
    check(loss=loss)
    batch(X, y, devices, each=True)
    outputs = params[-1] if params[-1].name.endswith(('bias', 'weight')) else None
    if type(loss).__name__ == 'SoftmaxCrossEntropyLoss' and len(y.shape) == 1:
        classes(y, outputs.shape[0] - 1 if outputs else 2**24)
    wanted = f'{net_devices}, like the network (or move it: net.collect_params().reset_ctx(...))'
    expect(set(net_devices) == set(devices), 'devices', wanted, devices, ValueError)
    # A trainer for too few devices would crash. (MXNet is retired, so private names are stable.)
    fits = getattr(trainer, '_contexts', 0) == net_devices and set(trainer._params) <= set(params)
    wanted = f'made for this network on {net_devices} (make a new one: make_trainer(net, lr))'
    expect(fits, 'trainer', wanted, trainer, ValueError)


def network_shards(data: Sequence[Array], label: Sequence[Array]) -> None:
    """Raise unless each shard of data has a shard of labels."""
    for name, values in (('data', data), ('label', label)):
        list_of_arrays(name, values, 'one per device, from split_and_load', least=1)
    same('the numbers of data and label shards', [len(data), len(label)], 'split both the same way')
    for X, y in zip(data, label):
        same_length(X, y)


def training(num_gpus: int, batch_size: int, **others: object) -> None:
    """Raise unless each device gets at least one example and the other arguments are valid."""
    check(num_gpus=num_gpus, batch_size=batch_size, **others)
    wanted = f'at least {num_gpus}, one example per device (is the order num_gpus, batch_size?)'
    expect(batch_size >= num_gpus, 'batch_size', wanted, batch_size, ValueError)


def message(devices: object, nbytes: object, link: object) -> None:
    """Raise unless these are valid arguments of an allreduce's cost formula."""
    positive_int('devices', devices)
    check(nbytes=nbytes, link=link)
