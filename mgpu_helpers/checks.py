"""Checks of what the user passes: one call each, so that they do not drown the lesson.

Each raises before anything is changed, and names the value, what was expected and the way out:
TypeError for a thing of another kind, ValueError for a wrong value. They look only at ``shape`` and
``dtype``, so they serve the arrays of every framework.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Collection, Sequence
from typing import Any, TypeAlias

Array: TypeAlias = Any  # of NumPy, MXNet or PyTorch: whatever has a shape and a dtype

# Each takes a thread and a replica: 256 took 4 s to start; 100,000 ran for minutes in silence.
MOST_STAND_INS = 256


def shown(value: object) -> str:
    """Give a value as an error message shows it: in a few words, whatever it is."""
    if isinstance(value, int) and abs(value) >= 10**50:
        return f'an int of {math.log10(abs(value)):,.0f} digits'  # str() of a longer one raises
    text = repr(value)
    if len(text) <= 60 and '\n' not in text:
        return text
    kind = type(value).__name__
    return f'an {kind}' if kind[0] in 'aeiou' else f'a {kind}'


def whole_number(name: str, value: object, least: int = 0) -> None:
    """Raise unless ``value`` is an integer of at least ``least``; ``True`` is none."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f'{name} must be an integer of at least {least}, not {shown(value)}')
    if value < least:
        raise ValueError(f'{name} must be at least {least}, not {shown(value)}')


def positive_int(name: str, value: object) -> None:
    """Raise unless ``value`` is an integer of at least 1."""
    whole_number(name, value, least=1)


def positive_number(name: str, value: object) -> None:
    """Raise unless ``value`` is a finite real number above 0."""
    if not 0 < _real(name, value, 'a number above 0') < math.inf:
        raise ValueError(f'{name} must be a number above 0, not {shown(value)}')


def not_negative(name: str, value: object) -> None:
    """Raise unless ``value`` is a finite real number of at least 0."""
    if not 0 <= _real(name, value, 'a number of at least 0') < math.inf:
        raise ValueError(f'{name} must be a number of at least 0, not {shown(value)}')


def finite_number(name: str, value: object) -> None:
    """Raise unless ``value`` is a finite real number."""
    if not math.isfinite(_real(name, value, 'a number')):
        raise ValueError(f'{name} must be a finite number, not {shown(value)}')


def _real(name: str, value: Any, what: str) -> float:
    """Give a real number as the float that arithmetic will make of it: infinite, if too large."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f'{name} must be {what}, not {shown(value)}')
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]  # an integer


def one_of(name: str, value: object, choices: Collection[str]) -> None:
    """Raise unless ``value`` is one of the names in ``choices``."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f'{name} must be one of {", ".join(choices)}, not {shown(value)}')


def function(name: str, value: object, what: str) -> None:
    """Raise unless ``value`` can be called; ``what`` says what the function does."""
    if not callable(value):
        raise TypeError(f'{name} must be a function {what}, not {shown(value)}')


def stand_ins(k: int) -> None:
    """Raise unless ``k`` CPU cores, or shares of cores, can stand in for GPUs."""
    if k > MOST_STAND_INS:
        raise ValueError(
            f'{shown(k)} stand-ins are too many for one machine: each takes a thread and a '
            f'replica; use at most {MOST_STAND_INS} (more than one per core is no faster)'
        )


def device_list(devices: object) -> None:
    """Raise unless ``devices`` is a list or tuple of at least one device, none of them twice."""
    if not isinstance(devices, (list, tuple)):
        raise TypeError(
            f'devices must be a list of devices, such as devices(2), not {shown(devices)}'
        )
    if not devices:
        raise ValueError('devices is an empty list: name at least one device, such as devices(1)')
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
    _array('the batch', data)
    device_list(devices)
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


def _array(name: str, value: object) -> None:
    if not hasattr(value, 'shape'):
        raise TypeError(f'{name} must be an array or a tensor, not {shown(value)}')


def same_length(X: Array, y: Array) -> None:
    """Raise unless ``X`` and ``y`` hold the same number of examples."""
    _array('X', X)
    _array('y', y)
    if X.shape[:1] != y.shape[:1]:
        raise ValueError(
            f'X has {X.shape[0] if X.shape else 0} examples and y has '
            f'{y.shape[0] if y.shape else 0} labels: they must belong together, one label for '
            'each example'
        )


def batch(X: Array, y: Array, devices: Sequence[object]) -> None:
    """Raise unless ``X`` and ``y`` can be cut into shards for ``devices``, or for the first n."""
    device_list(devices)
    same_length(X, y)
    can_split(X, devices[: X.shape[0]] or devices, even_split=False)


def shards(data: Sequence[Array], label: Sequence[Array]) -> None:
    """Raise unless these are two lists of arrays, an array of labels for each one of examples."""
    for name, arrays in (('data', data), ('label', label)):
        if not isinstance(arrays, (list, tuple)) or not all(hasattr(x, 'shape') for x in arrays):
            raise TypeError(
                f'{name} must be a list of arrays, one per device, such as split_and_load makes, '
                f'not {shown(arrays)}'
            )
    if not data or len(data) != len(label):
        raise ValueError(
            f'{len(data)} shards of data and {len(label)} of labels: pass one of each per device'
        )
    for X, y in zip(data, label):
        same_length(X, y)


def any_examples(seen: int) -> None:
    """Raise if an iterator gave nothing to evaluate or to train on."""
    if not seen:
        raise ValueError('no examples: the iterator gave no batch; it is empty or used up')


def last_batch(batches: Any, batch_size: int, devices: Sequence[object]) -> None:
    """Raise unless every batch of an epoch has an example for each device."""
    if not hasattr(batches, 'num_examples') or not hasattr(batches, '__len__'):
        raise TypeError(
            'load_data must return iterators that have num_examples and a length, as those of '
            f'load_data_fashion_mnist, not {type(batches).__name__}'
        )
    n = batches.num_examples
    last = min(n - (len(batches) - 1) * batch_size, batch_size)
    if last < len(devices):
        raise ValueError(
            f'{n} examples in batches of {batch_size} end in a batch of {last}, too few for '
            f'{len(devices)} devices: choose another batch_size or num_examples'
        )


def step(
    X: Array,
    y: Array,
    device_params: Sequence[Sequence[Array]],
    devices: Sequence[object],
    lr: float,
) -> None:
    """Raise unless one training step can be taken with these; see ``train_batch``."""
    batch(X, y, devices)
    if len(device_params) != len(devices):
        raise ValueError(
            f'{len(device_params)} replicas of the parameters for {len(devices)} devices: make '
            'one for each, [get_params(params, d) for d in devices]'
        )
    positive_number('lr', lr)


def alike(data: Sequence[Array]) -> None:
    """Raise unless ``data`` is a non-empty list of different arrays of one shape and one type."""
    if not isinstance(data, (list, tuple)) or not all(hasattr(x, 'shape') for x in data):
        raise TypeError(f'expected a list of arrays, one per device, not {type(data).__name__}')
    if not data:
        raise ValueError('nothing to sum: the list of arrays is empty; pass one array per device')
    if len({id(x) for x in data}) < len(data):
        raise ValueError('the same array stands in the list twice: pass one array per device')
    shapes = [tuple(x.shape) for x in data]
    if len(set(shapes)) > 1:
        raise ValueError(f'arrays of different shapes cannot be summed: {shapes}')
    types = [getattr(x.dtype, '__name__', str(x.dtype)) for x in data]
    if len(set(types)) > 1:
        raise TypeError(f'arrays of different types cannot be summed: {types}; make them one type')


def steps(
    batches: Sequence[tuple[Array, Array]],
    device_params: Sequence[Sequence[Array]],
    devices: Sequence[object],
    lr: float,
    sync: object,
) -> None:
    """Raise unless one training step can be taken with these batches together; see ``step``."""
    if not isinstance(batches, (list, tuple)) or not all(
        isinstance(batch, (list, tuple)) and len(batch) == 2 for batch in batches
    ):
        raise TypeError(f'expected a list of batches, each a pair (X, y), not {shown(batches)}')
    if not batches:
        raise ValueError('no batch to train on: the list is empty; pass at least one pair (X, y)')
    for X, y in batches:
        step(X, y, device_params, devices, lr)
    function('sync', sync, 'such as sync_with(...) gives')


def lists_of_gradients(grads: Sequence[Sequence[Array]]) -> None:
    """Raise unless ``grads[c][i]`` lists as many arrays for each device c, at least one.

    It asks the arrays nothing: each ``shape`` of MXNet's is a call of its library.
    """
    lists = (list, tuple)
    if not isinstance(grads, lists) or not all(isinstance(of_one, lists) for of_one in grads):
        raise TypeError(
            f'expected grads[c][i], a list of gradients for each device c, not {shown(grads)}'
        )
    numbers = [len(of_one) for of_one in grads]
    if not numbers or 0 in numbers or len(set(numbers)) > 1:
        raise ValueError(
            f'each device must have the same gradients, at least one; here they have {numbers}'
        )
    for i, of_all in enumerate(zip(*grads)):
        if not all(hasattr(type(g), 'shape') for g in of_all):
            raise TypeError(f'gradient {i} is not an array on every device: {shown(of_all)}')


def same_gradients(grads: Sequence[Sequence[Array]]) -> None:
    """Raise unless each device has gradients of the same shapes, at least one."""
    lists_of_gradients(grads)
    for i, of_all in enumerate(zip(*grads)):
        shapes = [tuple(g.shape) for g in of_all]
        if len(set(shapes)) > 1:
            raise ValueError(
                f'gradient {i} has different shapes on the devices, {shapes}: they are not of '
                'replicas of one network'
            )
