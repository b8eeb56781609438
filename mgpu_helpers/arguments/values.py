"""Checks of numbers, names, functions and iterators, and of the cost model's arguments."""

from __future__ import annotations

import math
import numbers
from collections.abc import Collection, Sequence
from typing import Any

DTYPES = ('float32', 'float64')


def shown(value: object) -> str:
    """Describe a value for an error message, in a few words whatever it is."""
    if isinstance(value, int) and value.bit_length() > 200:  # repr() of a very long one raises
        return f'an integer of {value.bit_length():,} bits'
    text = repr(value)
    if len(text) <= 60 and '\n' not in text:
        return text
    kind = type(value).__name__
    return f'an {kind}' if kind[:2].lower() == 'nd' or kind[0] in 'aeiou' else f'a {kind}'


def expect(
    fits: bool, name: str, wanted: str, value: object, error: type[Exception] = TypeError
) -> None:
    """Raise ``error``, "name must be wanted, not value", unless it fits."""
    if not fits:
        raise error(f'{name} must be {wanted}, not {shown(value)}')


def whole_number(name: str, value: Any, least: int = 0, most: int | None = None) -> None:
    """Raise unless ``value`` is an integer from ``least`` to ``most``, and no bool."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    expect(whole, name, f'an integer of at least {least}', value)
    expect(value >= least, name, f'at least {least}', value, ValueError)
    expect(most is None or value <= most, name, f'at most {most}', value, ValueError)


def positive_int(name: str, value: object, most: int | None = None) -> None:
    """Raise unless ``value`` is an integer from 1 to ``most``."""
    whole_number(name, value, 1, most)


def divisible(name: str, value: Any, k: Any, parts: str) -> None:
    """Raise unless ``value`` is a positive integer divisible by ``k``, the number of ``parts``."""
    positive_int(name, value)
    positive_int(parts, k)
    expect(value % k == 0, name, f'a multiple of {parts}, {k}', value, ValueError)


def positive_number(name: str, value: object) -> None:
    """Raise unless ``value`` is a finite real number above 0."""
    _number(name, value, 'a number above 0', zero=False)


def share(name: str, value: Any) -> None:
    """A part of a whole: above 0, at most 1."""
    positive_number(name, value)
    if value > 1:
        raise ValueError(f'{name} must be a share, at most 1, not {shown(value)}')


def not_negative(name: str, value: object) -> None:
    """Raise unless ``value`` is a finite real number of at least 0."""
    _number(name, value, 'a number of at least 0', zero=True)


def _number(name: str, value: Any, wanted: str, zero: bool) -> None:
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    expect(real, name, wanted, value)
    try:
        amount = float(value)
    except OverflowError:  # an integer that no float can hold
        amount = math.inf
    expect(0 < amount < math.inf or (zero and amount == 0), name, wanted, value, ValueError)


def one_of(name: str, value: object, choices: Collection[str]) -> None:
    """Raise unless ``value`` is one of the names in ``choices``."""
    known = isinstance(value, str) and value in choices
    expect(known, name, f'one of {", ".join(choices)}', value, ValueError)


def function(name: str, value: object, what: str) -> None:
    """Raise unless ``value`` can be called; ``what`` describes the function."""
    expect(callable(value), name, f'a function {what}', value)


def same(what: str, values: Sequence[object], way: str, error: Any = ValueError) -> None:
    """Raise unless all values are equal; ``way`` is the way out."""
    if len(set(values)) > 1:
        raise error(f'{what} must be the same, not {", ".join(map(str, values))}: {way}')


def counts(name: str, values: Any) -> None:
    """Raise unless ``values`` is a list of integers of at least 1, not an empty one."""
    such = 'a list of integers, such as [1, 2, 4]'
    expect(isinstance(values, (list, tuple, range)), name, such, values)
    expect(len(values) > 0, name, f'{such}, at least one', values, ValueError)
    for value in values:
        positive_int(f'each of {name}', value)


def drawing(seed: object, dtype: object = 'float32', scale: object = 1) -> None:
    """Raise unless random numbers can be drawn with this seed (or None), dtype and scale."""
    positive_number('scale', scale)
    whole_number('seed', 0 if seed is None else seed)
    one_of('dtype', dtype, DTYPES)


def any_examples(seen: int) -> None:
    """Raise if an iterator gave nothing to evaluate or to train on."""
    if not seen:
        raise ValueError('no examples: the iterator gave no batch; it is empty or used up')


def pairs(batches: Any, name: str = 'data_iter') -> None:
    """Raise unless ``batches`` can be iterated over and may yield pairs ``(X, y)``."""
    kind = type(batches)
    one_batch = kind is tuple and not all(isinstance(b, (list, tuple)) for b in batches)
    fits = hasattr(kind, '__iter__') and not hasattr(kind, 'shape') and not one_batch
    wanted = 'an iterator over batches (X, y), as load_data_fashion_mnist gives two'
    expect(fits, name, wanted, batches)


def epoch(batches: object, step: object) -> None:
    """Raise unless there are batches, and a function of ``X`` and ``y`` to train on each."""
    function('step', step, 'of X and y, such as partial(train_batch, device_params=..., ...)')
    pairs(batches, 'train_iter')


def epochs(num_epochs: object, batches: object) -> None:
    """Raise unless this is a number of epochs, and an iterator with a known length."""
    positive_int('num_epochs', num_epochs)
    sized = hasattr(batches, 'num_examples') and hasattr(batches, '__len__')
    wanted = 'an iterator with num_examples and a length, as load_data_fashion_mnist gives two'
    expect(sized, 'train_iter', wanted, batches)


def enough_examples(num_gpus: int, batch_size: int) -> None:
    """Raise if there are more devices than examples in a batch, as where the two are swapped."""
    positive_int('num_gpus', num_gpus)
    positive_int('batch_size', batch_size)
    wanted = f'at least {num_gpus}, one example per device (train takes num_gpus, then batch_size)'
    expect(batch_size >= num_gpus, 'batch_size', wanted, batch_size, ValueError)


def losses(of_steps: Sequence[object]) -> None:
    """Raise if a training step returned None."""
    if any(of_one is None for of_one in of_steps):
        raise TypeError('a training step gave None: does the function end with return losses?')


def last_batch(batches: Any, batch_size: int, devices: Sequence[object]) -> None:
    """Raise unless every batch of an epoch has an example for each device."""
    epochs(1, batches)
    n = batches.num_examples
    last = min(n - (len(batches) - 1) * batch_size, batch_size)
    wanted = f'at least {len(devices)} of {n} examples, one per device: change batch_size'
    expect(last >= len(devices), 'the last batch', wanted, last, ValueError)


def message(devices: object, nbytes: object, link: object) -> None:
    """Raise unless these are devices, bytes and a link, for the cost of an allreduce."""
    positive_int('devices', devices)
    positive_number('nbytes', nbytes)
    expect(hasattr(link, 'seconds'), 'link', "a Link, such as LINKS['PCIe 3 x16']", link)


def power_of_two(devices: int) -> None:
    """Raise unless there is a size at which butterfly and halving-doubling cost the same."""
    fits = devices >= 4 and not devices & (devices - 1)
    expect(fits, 'devices', '4, 8, 16 or another power of two', devices, ValueError)


def levels(value: Any) -> None:
    """Raise unless ``value`` lists (devices, link), one for each level of a machine."""
    lists = (list, tuple)
    fits = isinstance(value, lists) and all(isinstance(l, lists) and len(l) == 2 for l in value)
    such = "[(4, LINKS['PCIe 3 x16']), (128, LINKS['25 Gb RoCE'])]"
    wanted = f'a list of (devices, link), innermost first, such as {such}'
    expect(bool(fits and value), 'levels', wanted, value)


def model(value: object) -> None:
    """Raise unless ``value`` is a network as the cost model sees it."""
    expect(hasattr(value, 'activations'), 'model', "a Model, such as MODELS['VGG-16']", value)
