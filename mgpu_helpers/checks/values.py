"""Checks of numbers, names, functions and iterators."""

from __future__ import annotations

import math
import numbers
from collections.abc import Collection, Sequence
from typing import Any

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
    return f'an {kind}' if kind[:2].lower() == 'nd' or kind[0] in 'aeiou' else f'a {kind}'


def whole_number(name: str, value: object, least: int = 0) -> None:
    """Raise unless ``value`` is an integer of at least ``least``; ``True`` is none."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f'{name} must be an integer of at least {least}, not {shown(value)}')
    if value < least:
        raise ValueError(f'{name} must be at least {least}, not {shown(value)}')


def positive_int(name: str, value: object) -> None:
    """Raise unless ``value`` is an integer of at least 1."""
    whole_number(name, value, least=1)


def divisible(name: str, value: Any, k: Any, parts: str) -> None:
    """Raise unless ``value`` is an integer of at least 1 that ``k``, a number of parts, divides."""
    positive_int(name, value)
    positive_int(parts, k)
    if value % k:
        below = f'{value // k * k} or ' if value > k else ''
        raise ValueError(
            f'{name} must be a multiple of {parts}, {k}, not {value}: take {below}'
            f'{(value // k + 1) * k}'
        )


def positive_number(name: str, value: object) -> None:
    """Raise unless ``value`` is a finite real number above 0."""
    if not 0 < _real(name, value, 'a number above 0') < math.inf:
        raise ValueError(f'{name} must be a number above 0, not {shown(value)}')


def not_negative(name: str, value: object) -> None:
    """Raise unless ``value`` is a finite real number of at least 0."""
    if not 0 <= _real(name, value, 'a number of at least 0') < math.inf:
        raise ValueError(f'{name} must be a number of at least 0, not {shown(value)}')


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


# MXNet takes any other name for 'local', without a word.
STORES = ('local', 'device', 'nccl', 'dist_sync', 'dist_device_sync', 'dist_async')
DTYPES = ('float32', 'float64')


def drawing(seed: object, dtype: object = 'float32', scale: object = 1) -> None:
    """Raise unless numbers can be drawn: by a seed or None, of a type that we use, on a scale."""
    positive_number('scale', scale)
    whole_number('seed', 0 if seed is None else seed)
    one_of('dtype', dtype, DTYPES)


def store(name: str, kind: object) -> None:
    """Raise unless ``kind``, a name or a store, is a kind of key-value store that MXNet has."""
    one_of(name, getattr(kind, 'type', kind), STORES)


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


def any_examples(seen: int) -> None:
    """Raise if an iterator gave nothing to evaluate or to train on."""
    if not seen:
        raise ValueError('no examples: the iterator gave no batch; it is empty or used up')


def epoch(batches: object, step: object, ahead: object = 1) -> None:
    """Raise unless there are batches, and a function of ``X`` and ``y`` to train on each."""
    positive_int('ahead', ahead)
    function('step', step, 'of X and y, such as partial(train_batch, device_params=..., ...)')
    pairs(batches)


def losses(of_steps: Sequence[object]) -> None:
    """Raise if a training step gave nothing back."""
    if any(of_one is None for of_one in of_steps):
        raise TypeError(
            'a training step gave None, not the list of its losses: does the function end with '
            'return losses?'
        )


def pairs(batches: Any) -> None:
    """Raise unless ``batches`` can be gone through, and may give pairs ``(X, y)``."""
    pair = isinstance(batches, tuple) and not all(isinstance(b, (list, tuple)) for b in batches)
    if not hasattr(type(batches), '__iter__') or hasattr(type(batches), 'shape') or pair:
        raise TypeError(
            'expected an iterator over batches (X, y), such as test_iter of train_iter, test_iter '
            f'= load_data_fashion_mnist(256), not {shown(batches)}'
        )


def epochs(num_epochs: object, batches: object) -> None:
    """Raise unless there are epochs of an iterator that knows how long it is."""
    positive_int('num_epochs', num_epochs)
    if not hasattr(batches, 'num_examples') or not hasattr(batches, '__len__'):
        raise TypeError(
            'expected an iterator that has num_examples and a length, as load_data_fashion_mnist '
            f'gives two, not {shown(batches)}'
        )


def last_batch(batches: Any, batch_size: int, devices: Sequence[object]) -> None:
    """Raise unless every batch of an epoch has an example for each device."""
    epochs(1, batches)
    n = batches.num_examples
    last = min(n - (len(batches) - 1) * batch_size, batch_size)
    if last < len(devices):
        raise ValueError(
            f'{n} examples in batches of {batch_size} end in a batch of {last}, too few for '
            f'{len(devices)} devices: choose another batch_size or num_examples'
        )
