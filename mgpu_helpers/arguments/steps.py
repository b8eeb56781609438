"""Checks of a training step's arguments: replicas, gradients, Gluon's networks and trainers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .arrays import (
    Array,
    array,
    batch,
    for_device,
    labels,
    library,
    list_of_arrays,
    on_a_device,
    shards,
)
from .values import expect, function, one_of, positive_int, positive_number, same

# MXNet silently takes any other name for 'local'.
STORES = ('local', 'device', 'nccl', 'dist_sync', 'dist_device_sync', 'dist_async')

Replicas = Sequence[Sequence[Array]]  # or gradients, in the same order: [device][parameter]


def type_of(x: Array) -> str:
    """Name an array's dtype: in MXNet a class, elsewhere an object."""
    dtype = x.dtype  # in MXNet, a call into its library
    return getattr(dtype, '__name__', None) or str(dtype)


def lenet(params: Sequence[Array]) -> None:
    """Raise unless these are as many parameters as LeNet has."""
    list_of_arrays('params', params, 'as init_params gives')
    expect(len(params) == 8, 'params', "LeNet's 8 arrays", len(params), ValueError)


def inputs(X: Array, params: Sequence[Array]) -> None:
    """Raise unless LeNet can be computed for images X with these parameters, on their device."""
    array('X', X)
    lenet(params)
    shape, first = tuple(X.shape), params[0]
    expect(shape[1:] == (1, 28, 28), 'X', 'images (n, 1, 28, 28)', shape, ValueError)
    on_a_device('X', X)
    on_a_device('params[0]', first)
    x_on, p_on = (getattr(a, 'context', None) or a.device for a in (X, first))
    expect(x_on == p_on, 'X', f'on {p_on}, as the parameters are', x_on, ValueError)
    x_type, p_type = type_of(X), type_of(first)
    expect(x_type == p_type, 'X', f'of the type {p_type}, as the parameters are', x_type)


def training(num_epochs: object, lr: object, sync: object = print) -> None:
    """Raise unless these are epochs, a learning rate and a function that sums gradients."""
    positive_int('num_epochs', num_epochs)
    positive_number('lr', lr)
    function('sync', sync, 'of all gradients, such as sync_gradients or what sync_with(...) gives')


def step(
    X: Array, y: Array, device_params: Replicas, devices: Sequence[Any], lr: float, sync: object
) -> None:
    """Raise unless one training step of LeNet can be taken with these; see ``train_batch``."""
    training(1, lr, sync)
    batch(X, y, devices)
    shape = tuple(y.shape)
    expect(len(shape) < 2, 'y', 'labels (n,), a number for each example', shape, ValueError)
    fits = library(y.__class__) != 'PyTorch' or str(y.dtype) == 'torch.int64'
    expect(fits, 'y', 'of the type torch.int64, as y.long() is', y.dtype)
    labels(y)
    replicas(device_params, devices)


def replicas(device_params: Replicas, devices: Sequence[Any]) -> None:
    """Raise unless each device has a replica of its own, whose arrays can have gradients."""
    make = '[get_params(params, d) for d in devices]'
    lists = isinstance(device_params, (list, tuple))
    expect(lists, 'device_params', f'a list of replicas, {make}', device_params)
    for c, params in enumerate(device_params):
        list_of_arrays(f'device_params[{c}]', params, f'as in {make}')
    here, wanted = len(device_params), f'{len(devices)} replicas, {make}'
    expect(here == len(devices), 'device_params', wanted, here, ValueError)
    seen: set[int] = set()  # addresses: PyTorch's stand-ins share one memory
    for c, (params, device) in enumerate(zip(device_params, devices)):
        in_mxnet = hasattr(device, 'device_id')
        for i, p in enumerate(params):
            name = f'device_params[{c}][{i}]'
            for_device(name, p, device)
            if in_mxnet:
                own, can_learn = p.context == device, p.grad is not None
            else:
                own = p.device.type == str(device).partition(':')[0] and p.data_ptr() not in seen
                can_learn = p.requires_grad
            if not own:
                raise ValueError(f'{name} is shared, or not on {device}: make replicas, {make}')
            if not can_learn:
                raise ValueError(f'{name} can have no gradient: make replicas, {make}')
        if not in_mxnet:
            seen.update(p.data_ptr() for p in params)


def trainable(params: Sequence[Array]) -> None:
    """Raise unless each parameter has a gradient."""
    list_of_arrays('params', params, 'one replica, as get_params gives')
    for i, p in enumerate(params):
        if p.grad is None:
            raise ValueError(f'params[{i}] has no gradient: take get_params, then call backward()')


def one_per_device(data: Sequence[Array]) -> None:
    """Raise unless ``data`` lists arrays of one shape and one type, each on a device of its own."""
    such = 'one per device (sync_gradients and sync_with serve all parameters)'
    list_of_arrays('data', data, such)
    expect(len(data) > 0, 'data', f'a list of arrays, {such}', data, ValueError)
    for i, x in enumerate(data):
        on_a_device(f'data[{i}]', x)
        # With sparse arrays and mx.np's, some sums would be silently wrong.
        kind = x.__class__
        dense = library(kind) != 'MXNet' or kind.__module__ == 'mxnet.ndarray.ndarray'
        expect(dense, f'data[{i}]', 'a dense nd array, as nd.array(x, ctx=device) makes', kind)
    same('the shapes of arrays to sum', [tuple(x.shape) for x in data], 'sum each by itself')
    same('the types of arrays to sum', [type_of(x) for x in data], 'convert them', TypeError)
    # By memory only in PyTorch, whose stand-ins share a device: in MXNet, asking for it would wait.
    places = [x.context if hasattr(x, 'context') else x.data_ptr() or id(x) for x in data]
    twice = [i for i, here in enumerate(places) if places.count(here) > 1]
    if twice:
        raise ValueError(f'data{twice} share a device, or memory: is a replica listed twice?')


def lists_of_gradients(grads: Replicas, shapes: bool = False) -> None:
    """Raise unless ``grads[c][i]`` lists as many arrays for each device c, at least one.

    Shapes are compared only if asked for: in MXNet each is a call into its library.
    """
    lists = (list, tuple)
    fits = isinstance(grads, lists) and all(isinstance(of_one, lists) for of_one in grads)
    expect(fits, 'grads', 'grads[c][i], a list of gradients for each device c', grads)
    for c, of_one in enumerate(grads):
        list_of_arrays(f'grads[{c}]', of_one, f'the gradients of device {c}')
    counts = [len(of_one) for of_one in grads]
    replicas_of_one = 'they must be of replicas of one network'
    same('the numbers of gradients per device', counts, replicas_of_one)
    expect(sum(counts) > 0, 'grads', 'at least one gradient per device', grads, ValueError)
    for i, of_all in enumerate(zip(*grads) if shapes else ()):
        shapes_of_one = [tuple(g.shape) for g in of_all]
        same(f'the shapes of gradient {i} on all devices', shapes_of_one, replicas_of_one)


def bucket(arrays: Sequence[Array]) -> None:
    """Raise unless ``arrays`` fit into one bucket: at least one, of one type, on one device."""
    list_of_arrays('arrays', arrays, 'those that share the bucket')
    expect(len(arrays) > 0, 'arrays', 'at least one array for the bucket', arrays, ValueError)
    each = 'make a bucket for each'
    same("the types of a bucket's arrays", [type_of(x) for x in arrays], each, TypeError)
    same("the devices of a bucket's arrays", [str(x.context) for x in arrays], each)


def store(name: str, kind: object) -> None:
    """Raise unless ``kind``, a name or a store, is a kind of key-value store that MXNet has."""
    one_of(name, getattr(kind, 'type', kind), STORES)


def network(net: Any, devices: Sequence[object] = ()) -> None:
    """Raise unless a network can be trained on these devices.

    With ``SyncBatchNorm``, two stand-ins hung.
    """
    fits = hasattr(net, 'collect_params') and not isinstance(net, type)
    expect(fits, 'net', 'a Gluon network, such as lenet()', net)
    layers: list[str] = []
    if len(devices) > 1:
        net.apply(lambda block: layers.append(type(block).__name__))
    if 'SyncBatchNorm' in layers:
        raise ValueError('SyncBatchNorm hangs on several devices in MXNet 1.9.1: use BatchNorm')


def some_gradient(net_devices: Sequence[object], params: Sequence[Any]) -> None:
    """Raise unless one of a network's parameters has a gradient."""
    if all(p.grad_req == 'null' for p in params):
        raise ValueError(f"no parameter on {net_devices} has a gradient: all have grad_req 'null'")


def network_step(
    X: Array, y: Array, devices: Any, trainer: Any, net_devices: Any, params: Any
) -> None:
    """Raise unless a network with these parameters and devices can be trained on a batch."""
    batch(X, y, devices, fewer=False)
    wanted = f'{net_devices}, where the network is (net.collect_params().reset_ctx(...) moves it)'
    expect(set(net_devices) == set(devices), 'devices', wanted, devices, ValueError)
    expect(hasattr(trainer, '_contexts'), 'trainer', 'make_trainer(net, lr)', trainer)
    # Private names, which will not change: MXNet is retired. A trainer for too few devices would
    # crash the process.
    if kind := trainer._kvstore_params['kvstore']:
        store("the trainer's key-value store", kind)
    fits = trainer._contexts == net_devices and set(trainer._params) <= set(params)
    wanted = f'made for this network, on {net_devices}: make a new one, make_trainer(net, lr)'
    expect(fits, 'trainer', wanted, trainer, ValueError)


def network_shards(
    data: Sequence[Array], label: Sequence[Array], loss: object, net_devices: Sequence[object]
) -> None:
    """Raise unless there is a shard of labels for each shard of data, where the network is."""
    shards(data, label)
    function('loss', loss, 'of scores and labels')
    for X, y in zip(data, label):
        here, there = (getattr(x, 'context', 'no device') for x in (X, y))
        if here not in net_devices or there != here:
            where = f'a shard of data is on {here}, its labels are on {there}'
            raise ValueError(f'{where}: load both onto one of {net_devices}, where the network is')
