"""Checks of replicas, of their gradients, and of what one training step takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .arrays import Array, array, batch, for_device, library, list_of_arrays, on_a_device
from .values import expect, function, positive_int, positive_number

SYNC = 'of all gradients, such as sync_gradients or what sync_with(...) gives'


def type_of(x: Array) -> str:
    """Name the type of an array's numbers; MXNet's is a class, that of others an object."""
    return getattr(x.dtype, '__name__', str(x.dtype))


def lenet(params: Sequence[Array]) -> None:
    """Raise unless these are as many parameters as LeNet has."""
    list_of_arrays('params', params, 'as init_params gives')
    if len(params) != 8:
        raise ValueError(f'LeNet has 8 parameters, not {len(params)}: init_params gives them')


def inputs(X: Array, params: Sequence[Array]) -> None:
    """Raise unless LeNet can be computed for images with these parameters, where they are."""
    array('X', X)
    lenet(params)
    shape, first = tuple(X.shape), params[0]
    if shape[1:] != (1, 28, 28):
        raise ValueError(
            f'LeNet takes images X (n, 1, 28, 28), not {shape}: batches of '
            'load_data_fashion_mnist are such images'
        )
    on_a_device('X', X)
    on_a_device('params[0]', first)
    x_on, p_on = (getattr(a, 'context', None) or a.device for a in (X, first))
    if x_on != p_on:
        raise ValueError(
            f'X is on {x_on}, the parameters are on {p_on}: copy X there, or take the replica on '
            f'{x_on}'
        )
    if X.dtype != first.dtype:
        raise TypeError(
            f'X is of the type {type_of(X)}, the parameters are {type_of(first)}: load the data '
            'and draw the parameters with the same dtype'
        )


def step(
    X: Array,
    y: Array,
    device_params: Sequence[Sequence[Array]],
    devices: Sequence[object],
    lr: float,
    sync: object,
) -> None:
    """Raise unless one training step of LeNet can be taken with these; see ``train_batch``."""
    batch(X, y, devices)
    if len(y.shape) > 1:
        raise ValueError(f'y must be labels (n,), a number for each example, not {tuple(y.shape)}')
    if library(y.__class__) == 'PyTorch' and str(y.dtype) != 'torch.int64':
        raise TypeError(f'y must be of the type torch.int64, not {y.dtype}: convert it, y.long()')
    replicas(device_params, devices)
    positive_number('lr', lr)
    function('sync', sync, SYNC)


def training(num_epochs: object, lr: object, sync: object = print) -> None:
    """Raise unless one can train with these."""
    positive_int('num_epochs', num_epochs)
    positive_number('lr', lr)
    function('sync', sync, SYNC)


def replicas(device_params: Sequence[Sequence[Array]], devices: Sequence[object]) -> None:
    """Raise unless each device has a replica of its own, whose arrays can have gradients."""
    make = '[get_params(params, d) for d in devices]'
    lists = isinstance(device_params, (list, tuple))
    expect(lists, 'device_params', f'a list of replicas, {make}', device_params)
    for c, params in enumerate(device_params):
        list_of_arrays(f'device_params[{c}]', params, f'as in {make}')
    if len(device_params) != len(devices):
        raise ValueError(
            f'{len(device_params)} replicas of the parameters for {len(devices)} devices: make '
            f'one for each, {make}'
        )
    own = f'each device needs a replica of its own, {make}'
    seen: set[Any] = set()
    for c, (params, here) in enumerate(zip(device_params, devices)):
        for i, p in enumerate(params):
            name = f'device_params[{c}][{i}]'
            for_device(name, p, here)
            in_mxnet = hasattr(type(p), 'context')
            there = p.context if in_mxnet else p.device
            if there != here if in_mxnet else there.type != str(here).partition(':')[0]:
                raise ValueError(f'{name} is on {there}, not on {here}: {own}')
            if not in_mxnet and p.data_ptr() in seen:
                raise ValueError(f'{name} belongs to another replica, too: {own}')
            if p.grad is None if in_mxnet else not p.requires_grad:
                way = 'attach_grad' if in_mxnet else 'requires_grad_'
                raise ValueError(
                    f'{name} can have no gradient: call its {way}() first, or make replicas with '
                    'get_params'
                )
        if not in_mxnet:
            seen.update(p.data_ptr() for p in params)


def trainable(params: Sequence[Array]) -> None:
    """Raise unless each parameter has a gradient to move by."""
    list_of_arrays('params', params, 'one replica, as get_params gives')
    for i, p in enumerate(params):
        if p.grad is None:
            raise ValueError(
                f'params[{i}] has no gradient: take replicas from get_params, and call backward() '
                'before'
            )


def place(x: Array) -> object:
    """Tell one array from another: by its device in MXNet, by its memory in PyTorch.

    Each ``p.grad`` is a new object. MXNet would wait for an array before it gave its memory, and
    PyTorch's stand-ins share one device.
    """
    device = getattr(x, 'context', None)
    return x.data_ptr() or id(x) if device is None else device


def one_per_device(data: Sequence[Array]) -> None:
    """Raise unless ``data`` lists arrays of one shape and one type, each on a device of its own."""
    list_of_arrays(
        'data', data, 'one per device (sync_gradients and sync_with serve all parameters)'
    )
    if not data:
        raise ValueError('nothing to sum: the list of arrays is empty; pass one array per device')
    for i, x in enumerate(data):
        on_a_device(f'data[{i}]', x)
        # Sparse arrays and mx.np's behave otherwise: some sums would be wrong, silently.
        kind = x.__class__
        if library(kind) == 'MXNet' and kind.__module__ != 'mxnet.ndarray.ndarray':
            raise TypeError(
                f"expected MXNet's (dense) nd arrays, one per device, not {kind.__module__}."
                f'{kind.__name__}: convert with nd.array(x, ctx=device)'
            )
    for what, values, error in (
        ('shape', [tuple(x.shape) for x in data], ValueError),
        ('type', [type_of(x) for x in data], TypeError),
    ):
        if len(set(values)) > 1:
            raise error(
                f'arrays of different {what}s cannot be summed: {values}; make them one {what}'
            )
    places = [place(x) for x in data]
    if len(set(places)) < len(places):
        j = next(j for j, here in enumerate(places) if here in places[:j])
        where = f'both on {places[j]}' if hasattr(data[j], 'context') else 'the same array'
        raise ValueError(
            f'data[{places.index(places[j])}] and data[{j}] are {where}: an allreduce sums over '
            'devices, one array on each; is one replica listed twice?'
        )


def lists_of_gradients(grads: Sequence[Sequence[Array]], shapes: bool = False) -> None:
    """Raise unless ``grads[c][i]`` lists as many arrays for each device c, at least one.

    Without ``shapes`` it asks the arrays nothing: each ``shape`` of MXNet's is a library call.
    """
    lists = (list, tuple)
    fits = isinstance(grads, lists) and all(isinstance(of_one, lists) for of_one in grads)
    expect(fits, 'grads', 'grads[c][i], a list of gradients for each device c', grads)
    for c, of_one in enumerate(grads):
        list_of_arrays(f'grads[{c}]', of_one, f'the gradients of device {c}')
    numbers = [len(of_one) for of_one in grads]
    if not numbers or 0 in numbers or len(set(numbers)) > 1:
        raise ValueError(
            f'each device must have the same gradients, at least one; here they have {numbers}'
        )
    for i, of_all in enumerate(zip(*grads) if shapes else ()):
        if len(different := {tuple(g.shape) for g in of_all}) > 1:
            raise ValueError(
                f'gradient {i} has different shapes on the devices, {sorted(different)}: they are '
                'not of replicas of one network'
            )


def bucket(arrays: Sequence[Array]) -> None:
    """Raise unless ``arrays`` can be laid end to end: of one type, on one device, at least one."""
    list_of_arrays('arrays', arrays, 'those that share the bucket')
    if not arrays:
        raise ValueError('a bucket needs at least one array; the list is empty')
    types, devices = {type_of(x) for x in arrays}, {str(x.context) for x in arrays}
    if len(types) > 1:
        raise TypeError(
            f'a bucket is one array, so of one type, not of {" and ".join(sorted(types))}: make a '
            "bucket for each type, or convert with .astype('float32')"
        )
    if len(devices) > 1:
        raise ValueError(
            f'a bucket is on one device, and these arrays are on {", ".join(sorted(devices))}: '
            'make one bucket per device'
        )
