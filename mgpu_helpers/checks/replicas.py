"""Checks of replicas, of their gradients, and of what one training step takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .arrays import Array, array, batch, for_device, library, list_of_arrays, on_a_device
from .values import expect, function, positive_int, positive_number, same

Replicas = Sequence[Sequence[Array]]  # or gradients, in the same order: [device][parameter]


def type_of(x: Array) -> str:
    """Name the type of an array's numbers; MXNet's is a class, that of others an object."""
    dtype = x.dtype  # MXNet: a call of its library
    return getattr(dtype, '__name__', None) or str(dtype)


def lenet(params: Sequence[Array]) -> None:
    """Raise unless these are as many parameters as LeNet has."""
    list_of_arrays('params', params, 'as init_params gives')
    wanted = "LeNet's 8 arrays, as init_params gives"
    expect(len(params) == 8, 'params', wanted, len(params), ValueError)


def inputs(X: Array, params: Sequence[Array]) -> None:
    """Raise unless LeNet can be computed for images with these parameters, where they are."""
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
    """Raise unless one can train with these."""
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
    """Raise unless each parameter has a gradient to move by."""
    list_of_arrays('params', params, 'one replica, as get_params gives')
    for i, p in enumerate(params):
        if p.grad is None:
            raise ValueError(f'params[{i}] has no gradient: take get_params, then call backward()')


def place(x: Array) -> object:
    """Tell one array from another: by its device in MXNet, by its memory in PyTorch.

    Each ``p.grad`` is a new object. MXNet would wait for an array before it gave its memory, and
    PyTorch's stand-ins share one device.
    """
    device = getattr(x, 'context', None)
    return x.data_ptr() or id(x) if device is None else device


def one_per_device(data: Sequence[Array]) -> None:
    """Raise unless ``data`` lists arrays of one shape and one type, each on a device of its own."""
    such = 'one per device (sync_gradients and sync_with serve all parameters)'
    list_of_arrays('data', data, such)
    expect(len(data) > 0, 'data', f'a list of arrays, {such}', data, ValueError)
    for i, x in enumerate(data):
        on_a_device(f'data[{i}]', x)
        # Sparse arrays and mx.np's behave otherwise: some sums would be wrong, silently.
        kind = x.__class__
        dense = library(kind) != 'MXNet' or kind.__module__ == 'mxnet.ndarray.ndarray'
        expect(dense, f'data[{i}]', 'a dense nd array, as nd.array(x, ctx=device) makes', kind)
    alike = 'pass those of one parameter, one per device'
    same('the shapes of arrays to sum', [tuple(x.shape) for x in data], alike)
    same('the types of arrays to sum', [type_of(x) for x in data], 'convert them', TypeError)
    places = [place(x) for x in data]
    if len(set(places)) < len(places):
        j = next(j for j, here in enumerate(places) if here in places[:j])
        raise ValueError(
            f'data[{places.index(places[j])}] and data[{j}] are on one device, or one array: an '
            'allreduce sums over devices; is one replica listed twice?'
        )


def lists_of_gradients(grads: Replicas, shapes: bool = False) -> None:
    """Raise unless ``grads[c][i]`` lists as many arrays for each device c, at least one.

    Without ``shapes`` it asks the arrays nothing: each ``shape`` of MXNet's is a library call.
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
    """Raise unless ``arrays`` can be laid end to end: of one type, on one device, at least one."""
    list_of_arrays('arrays', arrays, 'those that share the bucket')
    expect(len(arrays) > 0, 'arrays', 'at least one array for the bucket', arrays, ValueError)
    each = 'make a bucket for each'
    same("the types of a bucket's arrays", [type_of(x) for x in arrays], each, TypeError)
    same("the devices of a bucket's arrays", [str(x.context) for x in arrays], each)
