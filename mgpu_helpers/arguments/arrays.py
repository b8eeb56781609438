"""Checks of devices, of arrays on them, and of lists of both."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, TypeAlias

from .values import expect, function, pairs, shown

Array: TypeAlias = Any  # of NumPy, MXNet or PyTorch: whatever has a shape and a dtype


@functools.cache
def library(kind: Any) -> str:
    """Name the library of a class of arrays or devices; of a stand-in, the one that it mimics."""
    known = {'mxnet': 'MXNet', 'torch': 'PyTorch', 'numpy': 'NumPy'}
    homes = (base.__module__.split('.')[0] for base in kind.__mro__)
    return getattr(kind, 'library', None) or next((known[h] for h in homes if h in known), '')


def device(name: str, value: object) -> None:
    """Raise unless ``value`` is a device of MXNet or PyTorch, or a stand-in."""
    # PyTorch's devices have an index; a list's or a string's is a method.
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
    different = all(one not in devices[:i] for i, one in enumerate(devices))
    expect(different, 'devices', 'different ones, each named once', devices, ValueError)
    agree = num_gpus in (None, len(devices))
    expect(agree, 'num_gpus', f'{len(devices)}, as many as devices lists', num_gpus, ValueError)


def is_array(value: object) -> bool:
    """Say if it is an array, by its class if possible: MXNet computes a shape at every access."""
    return hasattr(type(value), 'shape') or hasattr(value, 'shape')


def array(name: str, value: object) -> None:
    """Raise unless ``value`` is an array or a tensor."""
    expect(is_array(value), name, 'an array or a tensor', value)


def list_of_arrays(name: str, values: Any, such_as: str) -> None:
    """Raise unless ``values`` is a list of arrays; ``such_as`` says where to get such a list."""
    expect(isinstance(values, (list, tuple)), name, f'a list of arrays, {such_as}', values)
    for i, value in enumerate(values):
        if not is_array(value):
            missing = ' (a gradient? attach_grad() makes room for one)' if value is None else ''
            raise TypeError(
                f'{name} must be a list of arrays, {such_as}, but [{i}] is {shown(value)}{missing}'
            )


def for_device(name: str, value: Any, where: Any) -> None:
    """Raise unless ``value`` is an array of the library to which a device belongs."""
    array(name, value)
    has, wanted = library(value.__class__), library(where.__class__)
    way = 'nd.array(x)' if wanted == 'MXNet' else 'torch.as_tensor(x)'
    expect(has == wanted, name, f'an array of {wanted}, such as {way}', value.__class__)


def on_a_device(name: str, value: Any) -> None:
    """Raise if ``value`` is an array of NumPy."""
    wanted = 'on a device, such as nd.array(x, ctx=device), or with PyTorch torch.as_tensor(x)'
    expect(library(value.__class__) != 'NumPy', name, wanted, value.__class__)


def can_split(data: Array, devices: Sequence[object]) -> None:
    """Raise unless ``data`` can be cut into a non-empty shard per device."""
    device_list(devices)
    for_device('the batch', data, devices[0])
    shape, k = data.shape, len(devices)
    n = shape[0] if shape else 0
    expect(n >= k, 'the batch', f'at least {k} examples, one per device', n, ValueError)


def same_length(X: Array, y: Array) -> None:
    """Raise unless ``X`` and ``y`` hold the same number of examples."""
    array('X', X)
    array('y', y)
    of_X, of_y = tuple(X.shape), tuple(y.shape)
    fits = len(of_y) <= len(of_X) and of_y[:1] == of_X[:1]
    expect(fits, 'y', f'a label for each of X {of_X} (are they swapped?)', of_y, ValueError)


def labels(y: Array) -> None:
    """Raise unless labels (n,) are classes 0 to 9; MXNet takes 10 and more for the last class.

    Those on a GPU are not looked at, which would wait for it: 16 µs on the CPU, for 256.
    """
    on = str(getattr(y, 'context', None) or y.device)
    if on.startswith('cpu') and len(y):
        values = y.asnumpy() if hasattr(y, 'asnumpy') else y.numpy()
        wrong = values[(values < 0) | (values > 9)]
        expect(not len(wrong), 'y', 'classes, 0 to 9', wrong[:1], ValueError)


def batch(X: Array, y: Array, devices: Sequence[object], fewer: bool = True) -> None:
    """Raise unless a batch can be cut into shards for ``devices``, or with ``fewer`` for some."""
    device_list(devices)
    same_length(X, y)
    for_device('y', y, devices[0])
    some = devices[: len(X)] if fewer else ()
    can_split(X, some or devices)


def shards(data: Sequence[Array], label: Sequence[Array]) -> None:
    """Raise unless these are two lists of arrays, as many labels as examples in each pair."""
    for name, values in (('data', data), ('label', label)):
        list_of_arrays(name, values, 'one per device, such as split_and_load makes')
    count = len(label)
    expect(0 < count == len(data), 'label', f'a shard for each of {len(data)}', count, ValueError)
    for X, y in zip(data, label):
        same_length(X, y)


def evaluation(net: object, data_iter: object, where: object) -> None:
    """Raise unless a network can be evaluated on a device."""
    function('net', net, 'of images, such as lambda X: lenet(X, params)')
    pairs(data_iter)
    device('device', where)
