"""Checks of devices, of arrays that lie on them, and of lists of both.

No framework is imported: arrays and devices are known by the library that their class comes from,
and by what they have.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, TypeAlias

from .values import function, pairs, shown

Array: TypeAlias = Any  # of NumPy, MXNet or PyTorch: whatever has a shape and a dtype


@functools.cache
def library(kind: Any) -> str:
    """Name the library that a class of arrays or devices comes from, or that it stands in for."""
    known = {'mxnet': 'MXNet', 'torch': 'PyTorch', 'numpy': 'NumPy'}
    homes = (base.__module__.split('.')[0] for base in kind.__mro__)
    return getattr(kind, 'library', None) or next((known[h] for h in homes if h in known), '')


def device(name: str, value: object) -> None:
    """Raise unless ``value`` is a device of MXNet or PyTorch, or a stand-in."""
    if not hasattr(value, 'device_id') and callable(getattr(value, 'index', len)):
        raise TypeError(
            f'{name} is {shown(value)}, which is no device: take one of devices(2), or write '
            "mx.gpu(0), mx.cpu(0), with PyTorch torch.device('cuda', 0), StandIn(0)"
        )


def device_list(devices: object) -> None:
    """Raise unless ``devices`` is a list or tuple of at least one device, none of them twice."""
    if not isinstance(devices, (list, tuple)):
        raise TypeError(
            f'devices must be a list of devices, such as devices(2), not {shown(devices)}'
        )
    if not devices:
        raise ValueError('devices is an empty list: name at least one device, such as devices(1)')
    for i, one in enumerate(devices):
        device(f'devices[{i}]', one)
    twice = [d for i, d in enumerate(devices) if d in devices[:i]]
    if twice:
        raise ValueError(
            f'{twice[0]} appears more than once in {list(devices)}: each shard needs a device of '
            'its own; name every device once'
        )


def as_many_devices(num_gpus: int, devices: Sequence[object]) -> None:
    """Raise unless ``devices`` lists ``num_gpus`` of them."""
    if len(devices) != num_gpus:
        raise ValueError(
            f'num_gpus is {num_gpus}, but devices lists {len(devices)}: {list(devices)}; '
            'make them agree'
        )


def can_split(data: Array, devices: Sequence[object], even_split: bool) -> None:
    """Raise unless ``data`` (n, ...) can be cut into one non-empty shard per device.

    With ``even_split``, unless all shards get the same length.
    """
    device_list(devices)
    for_device('the batch', data, devices[0])
    n, k = (data.shape[0] if data.shape else 0), len(devices)
    if n < 1:
        raise ValueError(
            f'cannot split an empty batch (shape {tuple(data.shape)}): it has no examples'
        )
    if n < k:
        raise ValueError(
            f'cannot split {n} example{"s" * (n > 1)} over {k} devices: some would get none; use a '
            f'batch of at least {k}, or at most {n} of the devices'
        )
    if even_split and n % k:
        raise ValueError(
            f'{n} examples cannot be split evenly over {k} devices; use a batch size that is a '
            f'multiple of {k}, or even_split=False'
        )


def _is_array(value: object) -> bool:
    # The class first: MXNet computes a shape whenever an array is asked.
    return hasattr(type(value), 'shape') or hasattr(value, 'shape')


def array(name: str, value: object) -> None:
    """Raise unless ``value`` is an array or a tensor."""
    if not _is_array(value):
        raise TypeError(f'{name} must be an array or a tensor, not {shown(value)}')


def list_of_arrays(name: str, values: object, such_as: str) -> None:
    """Raise unless ``values`` is a list of arrays; ``such_as`` says where one gets such a list."""
    if not isinstance(values, (list, tuple)):
        raise TypeError(f'{name} must be a list of arrays, {such_as}, not {shown(values)}')
    for i, value in enumerate(values):
        if not _is_array(value):
            lost = ' (a gradient that is missing: attach_grad() makes room for it)'
            raise TypeError(
                f'{name} must be a list of arrays, {such_as}, but [{i}] is {shown(value)}'
                + lost * (value is None)
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


def same_length(X: Array, y: Array) -> None:
    """Raise unless ``X`` and ``y`` hold the same number of examples."""
    array('X', X)
    array('y', y)
    of_X, of_y = tuple(X.shape), tuple(y.shape)
    if len(of_y) > len(of_X):
        raise ValueError(
            f'X has the shape {of_X} and y {of_y}: examples come first, then labels; are X and y '
            'swapped?'
        )
    if of_X[:1] != of_y[:1]:
        raise ValueError(
            f'X has {of_X[0] if of_X else 0} examples and y has {of_y[0] if of_y else 0} labels: '
            'they must belong together, one label for each example'
        )


def batch(X: Array, y: Array, devices: Sequence[object]) -> None:
    """Raise unless ``X`` and ``y`` can be cut into shards for ``devices``, or for the first n."""
    device_list(devices)
    same_length(X, y)
    for_device('y', y, devices[0])
    can_split(X, devices[: X.shape[0]] or devices, even_split=False)


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
