"""Arrays that count messages; they support what students write, not only our own code."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn
from unittest import mock

import numpy as np

from mgpu_helpers.collectives import Count, messages

from .checking import Hint

KNOWN = 'copyto, as_in_context, copy, +=, +, x[a:b], x[a:b] = y, reshape, context, nd.zeros_like'


class Array(messages.Counted):
    """A counted array that also supports ``x[:] = y`` and ``x + y``.

    A sum may include the values of several messages; they count as kept once it is stored or sent.
    The same holds for values received in the answer's own ``buffer``, shared by its views.
    """

    def __init__(
        self, device: int, values: np.ndarray, book: Count, came: Any = None, buffer: Any = None
    ) -> None:
        super().__init__(device, values, book)
        self.message: Any = came  # the messages that brought it here, or None
        self.buffer: list[int] | None = buffer  # None: one of the arrays to sum, or a view of it

    @property
    def ctx(self) -> int:
        """Return the device, under MXNet's short name."""
        return self.context

    @property
    def ndim(self) -> int:
        """Return the number of axes."""
        return len(self.shape)

    def __len__(self) -> int:
        return len(self.values)

    def reshape(self, *shape: Any) -> Array:
        """Return a view, for ``reshape(-1)`` or ``reshape((-1,))``."""
        return self._view(self.values.reshape(*shape))

    def __getitem__(self, key: Any) -> Array:
        return self._view(self.values[key])

    def _view(self, values: np.ndarray) -> Array:
        return Array(self.context, values, self.book, self.message, self.buffer)

    def _came(self) -> tuple[int, ...]:
        return (*(self.message or ()), *(self.buffer or ()))

    def copyto(self, target: Any) -> Array:
        """Copy to a device, which makes a new array, or into another array."""
        inside = isinstance(target, messages.Counted)
        device, came = target.context if inside else target, self._came()
        if device != self.context:
            self._kept_on(self.context)
            came = (self.book.sent(self.context, device, self.values.nbytes),)
        if not inside:
            return Array(device, self.values.copy(), self.book, came, [])
        target.values[...] = self.values
        target._stored(came)
        return target

    def _stored(self, came: tuple[int, ...]) -> None:
        if self.buffer is not None:
            self.buffer += came
        for message in came if self.buffer is None else ():
            self.book.kept(self.context, message)

    def _kept_on(self, device: int) -> None:
        for message in self._came():
            self.book.kept(device, message)

    def copy(self) -> Array:
        """Return a copy on the same device."""
        return self.copyto(self.context)

    def as_in_context(self, device: int) -> Array:
        """Return the array itself if it is on this device, else a copy there."""
        return self if device == self.context else self.copyto(device)

    def wait_to_read(self) -> None:
        """Do nothing: the data is already there."""

    def __setitem__(self, key: Any, value: Any) -> None:
        part = self.values[key]
        if not isinstance(value, messages.Counted):
            self.values[key] = value
        elif not _same(part, value.values):  # the same if this is the second half of x[a:b] += y
            value.copyto(self._view(part))

    def __iadd__(self, other: Any) -> Array:
        total = self + other
        self.values[...] = total.values
        self._stored(total._came())
        return self

    def __add__(self, other: Any) -> Array:
        came = self._came()
        if isinstance(other, Array):
            if other.context != self.context:
                hint = f'device {self.context} cannot add an array on device {other.context}'
                raise ValueError(f'{hint}: copy it first')
            self.book.additions[self.context] += other.size
            came += other._came()
        added = self.values + (other.values if isinstance(other, Array) else other)
        return Array(self.context, added, self.book, came, [])

    __radd__ = __add__  # sum() starts with 0

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f'a counting array has no {name!r}: it supports only {KNOWN}')


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    """Check whether two views share the same memory and shape."""
    begins = [x.__array_interface__['data'][0] for x in (one, other)]
    return begins[0] == begins[1] and one.shape == other.shape


@contextlib.contextmanager
def buffers(book: Count) -> Iterator[None]:
    """Make ``nd.empty``, ``nd.zeros`` and ``nd.zeros_like`` return counted arrays."""
    nd: Any = getattr(sys.modules.get('mxnet'), 'nd', None)
    if nd is None:  # the puzzles need no framework
        yield
        return
    like = nd.zeros_like

    def new(shape: Any, ctx: Any = None, dtype: Any = None, **_: Any) -> Array:
        return Array(ctx or 0, np.zeros(shape, dtype), book, None, [])

    def zeros_like(x: Any, **more: Any) -> Any:
        return new(x.shape, x.context, x.dtype) if isinstance(x, Array) else like(x, **more)

    with mock.patch.multiple(nd, empty=new, zeros=new, zeros_like=zeros_like):
        yield


def counted(algorithm: Callable[[Any], None], devices: int, size: int) -> Count:
    """Count the messages of an algorithm, or raise a hint that says why it cannot be counted."""

    def with_buffers(data: Any) -> None:
        with buffers(data[0].book):
            algorithm(data)

    try:
        with mock.patch.object(messages, 'Counted', Array):
            return messages.count(with_buffers, devices, size)
    except (AttributeError, ValueError) as error:
        raise Hint(str(error)) from None
    except TypeError as error:
        raise Hint(f'{error}: messages are counted on arrays that support only {KNOWN}') from None
