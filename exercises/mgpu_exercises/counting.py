"""Arrays that count, for answers: they know what students write beside what the course does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn
from unittest import mock

import numpy as np

from mgpu_helpers.collectives import Count, messages

from .checking import Hint

KNOWN = 'copyto, as_in_context, copy, +=, +, x[a:b], x[a:b] = y, reshape, context, shape and size'


class Array(messages.Counted):
    """A counted array that can also be written into by ``x[:] = y``, and added by ``x + y``.

    A sum holds what several messages brought; that counts as kept once it is stored or sent.
    """

    def __init__(self, device: int, values: np.ndarray, book: Count, came: Any = None) -> None:
        super().__init__(device, values, book)
        self.message: Any = came  # those that brought it here, or None

    @property
    def ctx(self) -> int:
        """The device, by MXNet's short name."""
        return self.context

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return len(self.shape)

    def __len__(self) -> int:
        return len(self.values)

    def reshape(self, *shape: Any) -> Array:
        """Give a view, of ``reshape(-1)`` or ``reshape((-1,))``."""
        return Array(self.context, self.values.reshape(*shape), self.book, self.message)

    def copyto(self, target: Any) -> Array:
        """Copy to a device, which gives a new array, or into another array."""
        inside = isinstance(target, messages.Counted)
        device, came = target.context if inside else target, self.message or ()
        if device != self.context:
            self._kept_on(self.context)
            came = (self.book.sent(self.context, device, self.values.nbytes),)
        found = Array(device, self.values.copy(), self.book, came)
        if not inside:
            return found
        target.values[...] = self.values
        found._kept_on(device)
        return target

    def _kept_on(self, device: int) -> None:
        for message in self.message or ():
            self.book.kept(device, message)

    def copy(self) -> Array:
        """Give a copy on the same device."""
        return self.copyto(self.context)

    def as_in_context(self, device: int) -> Array:
        """Give the array itself where it is on this device, else a copy there."""
        return self if device == self.context else self.copyto(device)

    as_in_ctx = as_in_context

    def wait_to_read(self) -> None:
        """Do nothing: all is there."""

    def __setitem__(self, key: Any, value: Any) -> None:
        part = self.values[key]
        if not isinstance(value, messages.Counted):
            self.values[key] = value
        elif not _same(part, value.values):  # else it is the end of x[a:b] += y
            value.copyto(Array(self.context, part, self.book, self.message))

    def __iadd__(self, other: Any) -> Array:
        total = self + other
        self.values[...] = total.values
        total._kept_on(self.context)
        return self

    def __add__(self, other: Any) -> Array:
        came = self.message or ()
        if isinstance(other, Array):
            if other.context != self.context:
                hint = f'device {self.context} cannot add what is on device {other.context}'
                raise ValueError(f'{hint}: copy it first')
            self.book.additions[self.context] += other.size
            came += other.message or ()
        added = self.values + (other.values if isinstance(other, Array) else other)
        return Array(self.context, added, self.book, came)

    __radd__ = __add__  # sum() begins with 0

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f'an array that is counted has no {name!r}: it knows {KNOWN}')


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    """Tell whether two views are of the very same numbers."""
    begins = [x.__array_interface__['data'][0] for x in (one, other)]
    return begins[0] == begins[1] and one.shape == other.shape


def counted(algorithm: Callable[[Any], None], devices: int, size: int) -> Count:
    """Count an algorithm, or say why it cannot be counted."""
    try:
        with mock.patch.object(messages, 'Counted', Array):
            return messages.count(algorithm, devices, size)
    except (AttributeError, ValueError) as error:
        raise Hint(str(error)) from None
    except TypeError as error:
        raise Hint(f'{error}: messages are counted on arrays that know {KNOWN}') from None
