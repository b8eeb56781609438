"""Checks of single arguments; the table ``TESTS`` has those that several chapters share."""

from __future__ import annotations

import functools
import numbers
import sys
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, TypeAlias

Array: TypeAlias = Any  # from NumPy, MXNet or PyTorch: anything with a shape and a dtype
Test: TypeAlias = Callable[[str, Any], object]

LISTS = (list, tuple)
A_DEVICE = 'a device, such as devices(2)[0], mx.gpu(0) or mx.cpu(0)'
# Functions that list the usable GPUs; the package ``devices`` adds its own.
USABLE_GPUS: list[Callable[[], Sequence[Any]]] = []
LIBRARIES = {'mxnet': 'MXNet', 'torch': 'PyTorch', 'numpy': 'NumPy'}


def shown(value: object) -> str:
    """Describe any value in a few words, for an error message."""
    text, kind = repr(value), type(value).__name__
    if len(text) <= 60 and '\n' not in text:
        return text
    many = f' of {len(value):,}' if isinstance(value, LISTS) else ''
    return f'a{"n" if kind[:2] in ("nd", "ND") or kind[0] in "aeiou" else ""} {kind}{many}'


def expect(
    fits: object, name: str, wanted: str, value: object, error: type[Exception] = TypeError
) -> None:
    """Raise ``error`` with the message "{name} must be {wanted}, not {value}" unless ``fits``."""
    if not fits:
        raise error(f'{name} must be {wanted}, not {shown(value)}')


def same(what: str, values: Sequence[object], way: str, error: Any = ValueError) -> None:
    """Raise unless all values are equal; ``way`` says how to fix it."""
    if len(set(values)) > 1:
        raise error(f'{what} must be the same, not {", ".join(map(str, values))}: {way}')


def whole_number(name: str, value: Any, least: int = 0, most: int = 2**63 - 1) -> None:
    """Raise unless ``value`` is an integer from ``least`` to ``most``, and not a bool."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    expect(whole, name, f'an integer of at least {least}', value)
    expect(value >= least, name, f'at least {least}', value, ValueError)
    expect(value <= most, name, f'at most {most}', value, ValueError)


def positive_number(name: str, value: Any, zero: bool = False) -> None:
    """Raise unless ``value`` is a finite number above 0 or, with ``zero``, 0."""
    wanted = 'a number of at least 0' if zero else 'a number above 0'
    expect(isinstance(value, numbers.Real) and not isinstance(value, bool), name, wanted, value)
    fits = 0 < value <= sys.float_info.max or (zero and value == 0)
    expect(fits, name, wanted, value, ValueError)


def one_of(name: str, value: object, choices: Collection[str]) -> None:
    """Raise unless ``value`` is one of the names in ``choices``."""
    known = isinstance(value, str) and value in choices
    expect(known, name, f'one of {", ".join(choices)}', value, ValueError)


def function(name: str, value: object, what: str) -> None:
    """Raise unless ``value`` is callable; ``what`` describes the function."""
    expect(callable(value), name, f'a function {what}', value)


def divisible(name: str, value: Any, k: Any, parts: str) -> None:
    """Raise unless ``value`` is a positive integer divisible by ``k``, the number of ``parts``."""
    positive_int(name, value)
    positive_int(parts, k)
    expect(value % k == 0, name, f'divisible by {parts}, {k}', value, ValueError)


def device(name: str, value: Any) -> None:
    """Raise unless ``value`` is a device and, if it is a GPU, usable on this machine."""
    expect(hasattr(value, 'device_id'), name, A_DEVICE, value)  # MXNet's devices have one
    for usable in USABLE_GPUS if value.device_type == 'gpu' else []:
        gpus = usable()
        way = f'one of the {len(gpus)} GPUs that MXNet can use here (see try_all_gpus())'
        expect(value in gpus, name, way, value, ValueError)


@functools.cache
def library(kind: Any) -> str:
    """Return the library of an array's or device's class, or the one that it imitates."""
    homes = [base.__module__.partition('.')[0] for base in kind.__mro__]
    return getattr(kind, 'library', '') or next(filter(None, map(LIBRARIES.get, homes)), '')


def is_array(value: object) -> bool:
    """Return whether ``value`` has a shape; asks the class first: MXNet computes it on access."""
    return hasattr(type(value), 'shape') or hasattr(value, 'shape')


def kind_of(x: Array) -> str:
    """Describe an array's type and device: 'float32 on cpu(0)'."""
    dtype = x.dtype  # in MXNet a class, read by a library call
    place = getattr(x, 'context', None) or getattr(x, 'device', 'no device')
    return f'{getattr(dtype, "__name__", dtype)} on {place}'


def device_list(name: str, devices: Any) -> None:
    """Raise unless ``devices`` is a list of one or more devices, all different."""
    such = 'a list of devices, such as devices(2)'
    expect(isinstance(devices, LISTS), name, such, devices)
    expect(devices, name, f'{such}, at least one', devices, ValueError)
    for i, one in enumerate(devices):
        device(f'{name}[{i}]', one)
    different = all(one not in devices[:i] for i, one in enumerate(devices))
    expect(different, name, 'all different', devices, ValueError)


def test(wanted: str, fits: Callable[[Any], object], error: type[Exception] = TypeError) -> Test:
    """Make a check of one argument from a predicate and a description of valid values."""
    return lambda name, value: expect(fits(value), name, wanted, value, error)


def listed(fits: Callable[[Any], object]) -> Callable[[Any], object]:
    return lambda x: x and isinstance(x, (*LISTS, range)) and all(map(fits, x))


positive_int = partial(whole_number, least=1)
not_negative = partial(positive_number, zero=True)
last_batch = partial(whole_number, 'the number of examples in the last batch (change batch_size)')
any_examples = partial(positive_int, 'the number of examples (is the iterator empty or used up?)')
power_of_two = test(
    '4, 8, 16 or another power of two', lambda k: k > 2 and not k & (k - 1), ValueError
)
array = test('an array or a tensor', is_array)
batches = test(
    'an iterator over batches (X, y), such as one from load_data_fashion_mnist',
    # A tuple of arrays is one batch.
    lambda x: hasattr(type(x), '__iter__') and not is_array(x[0] if type(x) is tuple else x),
)
TESTS: dict[str, Test] = {  # for arguments that mean the same in all chapters
    **dict.fromkeys(['batch_size', 'num_classes', 'num_epochs', 'num_gpus'], positive_int),
    **dict.fromkeys(['lr', 'scale', 'nbytes'], positive_number),
    'sizes': lambda name, sizes: [not_negative(f'{name}[{i}]', n) for i, n in enumerate(sizes)],
    'seed': lambda name, seed: whole_number(name, 0 if seed is None else seed),
    'dtype': lambda name, dtype: one_of(name, dtype, ['float32', 'float64']),
    'device': device,
    'devices': device_list,
    'params': test(
        "LeNet's 8 arrays, from init_params",
        lambda x: listed(is_array)(x) and len(x) == 8,
    ),
    'sync': test('a function of all gradients, such as sync_gradients or sync_with(...)', callable),
    'net': test('a function of images, such as lambda X: lenet(X, params)', callable),
    'loss': test('a function of scores and labels', callable),
    'load_data': test('a function such as load_data_fashion_mnist', callable),
    'data_iter': batches,
    'train_iter': test(
        'an iterator with num_examples and a length, such as one from load_data_mnist',
        lambda x: hasattr(x, 'num_examples') and hasattr(x, '__len__'),
    ),
    'losses': test(
        'losses and not None in every step (does your step end with return losses?)',
        lambda steps: not any(of_one is None for of_one in steps),
    ),
    'link': test("a Link, such as LINKS['PCIe 3 x16']", lambda x: hasattr(x, 'seconds')),
    'device_counts': test(
        'a list of integers above 0, such as [1, 2, 4]',
        listed(lambda k: isinstance(k, numbers.Integral) and int(k) > 0),
    ),
    'model': test("a Model, such as MODELS['VGG-16']", lambda x: hasattr(x, 'activations')),
}


def check(**values: object) -> None:
    """Raise unless each of these arguments passes its test in ``TESTS``."""
    for name, value in values.items():
        TESTS[name](name, value)
