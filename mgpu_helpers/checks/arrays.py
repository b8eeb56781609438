"""Checks of devices, of arrays that lie on them, and of lists of both."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, TypeAlias

from .values import expect, function, pairs, shown

Array: TypeAlias = Any  # of NumPy, MXNet or PyTorch: whatever has a shape and a dtype


@functools.cache
def library(kind: Any) -> str:
    """Name the library that a class of arrays or devices comes from, or that it stands in for."""
    known = {'mxnet': 'MXNet', 'torch': 'PyTorch', 'numpy': 'NumPy'}
    homes = (base.__module__.split('.')[0] for base in kind.__mro__)
    return getattr(kind, 'library', None) or next((known[h] for h in homes if h in known), '')


def device(name: str, value: object) -> None:
    """Raise unless ``value`` is a device of MXNet or PyTorch, or a stand-in."""
    # Those of PyTorch have an index; that of a list or a text is a method.
    fits = hasattr(value, 'device_id') or not callable(getattr(value, 'index', len))
    such = "mx.gpu(0) or mx.cpu(0), with PyTorch torch.device('cuda', 0) or StandIn(0)"
    expect(fits, name, f'a device, one of devices(2), {such}', value)


def device_list(devices: Any, num_gpus: int | None = None) -> None:
    """Raise unless ``devices`` is a list of different devices, ``num_gpus`` or at least one."""
    such = 'a list of devices, such as devices(2)'
    expect(isinstance(devices, (list, tuple)), 'devices', such, devices)
    expect(len(devices) > 0, 'devices', f'{such}, at least one', devices, ValueError)
    for i, one in enumerate(devices):
        device(f'devices[{i}]', one)
    twice = [d for i, d in enumerate(devices) if d in devices[:i]]
    if twice:
        raise ValueError(
            f'{twice[0]} appears more than once in {list(devices)}: each shard needs a device of '
            'its own; name every device once'
        )
    if num_gpus not in (None, len(devices)):
        raise ValueError(
            f'num_gpus is {num_gpus}, but devices lists {len(devices)}: {list(devices)}; '
            'make them agree'
        )


def is_array(value: object) -> bool:
    """Tell an array by its class, if that is enough: MXNet computes a shape whenever asked."""
    return hasattr(type(value), 'shape') or hasattr(value, 'shape')


def array(name: str, value: object) -> None:
    """Raise unless ``value`` is an array or a tensor."""
    expect(is_array(value), name, 'an array or a tensor', value)


def list_of_arrays(name: str, values: Any, such_as: str) -> None:
    """Raise unless ``values`` is a list of arrays; ``such_as`` says where one gets such a list."""
    expect(isinstance(values, (list, tuple)), name, f'a list of arrays, {such_as}', values)
    for i, value in enumerate(values):
        if not is_array(value):
            missing = ' (a gradient? attach_grad() makes room for one)' if value is None else ''
            raise TypeError(
                f'{name} must be a list of arrays, {such_as}, but [{i}] is {shown(value)}{missing}'
            )


def copies(params: object, where: object) -> None:
    """Raise unless parameters can be copied to a device."""
    list_of_arrays('params', params, 'as init_params gives')
    device('device', where)


def for_device(name: str, value: Any, where: Any) -> None:
    """Raise unless ``value`` is an array of the library to which a device belongs."""
    array(name, value)
    has, wanted = library(value.__class__), library(where.__class__)
    if has != wanted:
        way = 'nd.array(x)' if wanted == 'MXNet' else 'torch.as_tensor(x)'
        raise TypeError(
            f'{name} is an array of {has}, but {where} is a device of {wanted}: convert it, {way}'
        )


def on_a_device(name: str, value: Any) -> None:
    """Raise if ``value`` is an array of NumPy."""
    if library(value.__class__) == 'NumPy':
        raise TypeError(
            f'{name} is an array of NumPy, which is on no device: convert it, nd.array(x, '
            'ctx=device), or with PyTorch torch.as_tensor(x)'
        )


def can_split(data: Array, devices: Sequence[object], even_split: bool) -> None:
    """Raise unless ``data`` (n, ...) can be cut into one non-empty shard per device.

    With ``even_split``, unless all shards get the same length.
    """
    device_list(devices)
    for_device('the batch', data, devices[0])
    shape, k = data.shape, len(devices)
    n = shape[0] if shape else 0
    if n < k:
        raise ValueError(
            f'cannot split a batch of {n} over {k} devices: each must get an example; take a batch '
            f'of at least {k}, or fewer devices'
        )
    if even_split and n % k:
        raise ValueError(
            f'{n} examples cannot be split evenly over {k} devices; use a batch size that is a '
            f'multiple of {k}, or even_split=False'
        )


def same_length(X: Array, y: Array) -> None:
    """Raise unless ``X`` and ``y`` hold the same number of examples."""
    array('X', X)
    array('y', y)
    of_X, of_y = tuple(X.shape), tuple(y.shape)
    if len(of_y) > len(of_X) or of_X[:1] != of_y[:1]:
        raise ValueError(
            f'X has the shape {of_X} and y {of_y}: they must belong together, examples X and one '
            'label y for each; are X and y swapped?'
        )


def batch(X: Array, y: Array, devices: Sequence[object], fewer: bool = True) -> None:
    """Raise unless ``X`` and ``y`` can be cut into shards for ``devices``.

    With ``fewer``, n examples that are fewer than the devices do for the first n of these.
    """
    device_list(devices)
    same_length(X, y)
    for_device('y', y, devices[0])
    can_split(X, fewer and devices[: X.shape[0]] or devices, even_split=False)


def shards(data: Sequence[Array], label: Sequence[Array]) -> None:
    """Raise unless these are two lists of arrays, an array of labels for each one of examples."""
    for name, values in (('data', data), ('label', label)):
        list_of_arrays(name, values, 'one per device, such as split_and_load makes')
    if not data or len(data) != len(label):
        raise ValueError(
            f'{len(data)} shards of data and {len(label)} of labels: pass one of each per device'
        )
    for X, y in zip(data, label):
        same_length(X, y)


def evaluation(net: object, data_iter: object, where: object) -> None:
    """Raise unless a network can be evaluated on a device."""
    function('net', net, 'of images, such as lambda X: lenet(X, params)')
    pairs(data_iter)
    device('device', where)
