"""What an allreduce sends and adds, counted by running it on arrays that keep books."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from .. import checks
from ..display import Table

AN_ALLREDUCE = 'that sums a list of arrays in place, such as allreduce_ring'


@dataclass
class Count:
    """What was sent between devices, and what was added."""

    devices: int
    messages: int = 0  # arrays or slices that went from one device to another
    links: dict[tuple[int, int], int] = field(default_factory=dict)  # (source, target) -> bytes
    additions: dict[int, int] = field(default_factory=dict)  # device -> numbers that it added
    # In which step a port was last busy, and in which a device last kept something that came.
    _busy: dict[tuple[str, int], int] = field(default_factory=dict, repr=False)
    _kept: dict[int, int] = field(default_factory=dict, repr=False)

    def sent(self, source: int, target: int, nbytes: int) -> int:
        """Enter one message; give the step in which it arrives."""
        self.messages += 1
        self.links[source, target] = self.links.get((source, target), 0) + nbytes
        ports = ('out', source), ('in', target)
        before = max(self._kept.get(source, 0), *(self._busy.get(port, 0) for port in ports))
        self._busy.update(dict.fromkeys(ports, before + 1))
        return before + 1

    def kept(self, device: int, step: int) -> None:
        """Enter that a device has put what arrived in a step where it belongs."""
        self._kept[device] = max(self._kept.get(device, 0), step)

    @property
    def steps(self) -> int:
        """How many messages followed one another, if each takes as long as any other.

        A device sends one and receives one at a time, and can send only what it has.
        """
        return max(self._busy.values(), default=0)

    def added(self, device: int, numbers: int) -> None:
        """Enter one addition of arrays."""
        self.additions[device] = self.additions.get(device, 0) + numbers

    def port(self, device: int) -> tuple[int, int]:
        """Give the bytes that a device sent and those that it received."""
        out = sum(n for (source, _), n in self.links.items() if source == device)
        into = sum(n for (_, target), n in self.links.items() if target == device)
        return out, into

    @property
    def busiest(self) -> int:
        """Bytes in one direction at the device that sends or receives most."""
        return max((n for i in range(self.devices) for n in self.port(i)), default=0)

    @property
    def total_bytes(self) -> int:
        """Bytes over all links together."""
        return sum(self.links.values())

    @property
    def most_additions(self) -> int:
        """How many numbers the device that adds most has to add."""
        return max(self.additions.values(), default=0)

    def matrix(self) -> np.ndarray:
        """Lay the bytes out (devices, devices): one row per source, one column per target."""
        grid = np.zeros((self.devices, self.devices), dtype=int)
        for link, nbytes in self.links.items():
            grid[link] = nbytes
        return grid

    def __repr__(self) -> str:
        return (
            f'Count(devices={self.devices}, messages={self.messages}, steps={self.steps}, '
            f'busiest={self.busiest} bytes, most_additions={self.most_additions})'
        )


class Counted:
    """An array that does what an allreduce asks of an NDArray, and has it written down.

    ``values`` are its numbers, one-dimensional, or how many there are (float32, each 1).

    >>> book = Count(devices=2)
    >>> a, b = Counted(0, 4, book), Counted(1, 4, book)
    >>> a += b.copyto(a.context)
    >>> book
    Count(devices=2, messages=1, steps=1, busiest=16 bytes, most_additions=4)
    """

    def __init__(
        self, device: int, values: int | np.ndarray, book: Count, arrived: int = 0
    ) -> None:
        values = np.ones(values, dtype='float32') if isinstance(values, int) else values
        self.context, self.values, self.book = device, values, book
        self.arrived = arrived  # the step in which it came here
        self.shape, self.size, self.dtype = values.shape, values.size, values.dtype

    def reshape(self, shape: int) -> Counted:
        """Give a view, which shares the numbers."""
        return Counted(self.context, self.values.reshape(shape), self.book, self.arrived)

    def __getitem__(self, key: slice) -> Counted:
        return Counted(self.context, self.values[key], self.book, self.arrived)

    def copyto(self, target: Counted | int) -> Counted:
        """Copy to a device, which gives a new array, or into another array."""
        device = target.context if isinstance(target, Counted) else target
        step = self.arrived
        if device != self.context:
            step = self.book.sent(self.context, device, self.values.nbytes)
        if not isinstance(target, Counted):
            return Counted(device, self.values.copy(), self.book, step)
        target.values[...] = self.values
        self.book.kept(device, step)
        return target

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f'an array that is counted has no {name!r}: it knows copyto, +=, reshape, [a:b], '
            'context, shape, size and dtype'
        )

    def __iadd__(self, other: Counted) -> Counted:
        if other.context != self.context:
            raise ValueError(
                f'device {self.context} cannot add what is on device {other.context}: copy it first'
            )
        self.values += other.values
        self.book.added(self.context, other.size)
        self.book.kept(self.context, other.arrived)
        return self


def count(algorithm: Callable[[list[Any]], None], devices: int, size: int) -> Count:
    """Count what an allreduce of float32 arrays sends and adds, by letting it do it.

    ``algorithm`` is one of ours, or your own: it may use ``copyto``, ``+=``, ``reshape`` and
    slices. ``size`` is how many numbers the array of each device has. What does not leave the sum
    on all devices is a ValueError, and so is ``allreduce_kvstore``, which sends in C++.
    """
    checks.positive_int('devices', devices)
    checks.positive_int('size', size)
    checks.function('algorithm', algorithm, AN_ALLREDUCE)
    if getattr(algorithm, '__name__', '') == 'allreduce_kvstore':
        raise ValueError(
            'allreduce_kvstore cannot be counted: its messages are sent inside MXNet; record a '
            'timeline of it instead'
        )
    book = Count(devices)
    data = [Counted(i, np.full(size, i + 1, dtype='float32'), book) for i in range(devices)]
    algorithm(data)
    total = devices * (devices + 1) / 2
    wrong = [x.context for x in data if (x.values != total).any()]
    if wrong:
        raise ValueError(
            f'{getattr(algorithm, "__name__", algorithm)} is no allreduce: afterwards devices '
            f'{wrong} do not hold the sum'
        )
    return book


def count_table(
    algorithms: Mapping[str, Callable[[list[Any]], None]], devices: int, size: int
) -> Table:
    """Lay the counts of several algorithms, by name, side by side."""
    rows = []
    for name, algorithm in algorithms.items():
        c = count(algorithm, devices, size)
        numbers = (c.messages, c.steps, c.total_bytes, c.busiest, c.most_additions)
        rows.append([name, *(f'{n:,}' for n in numbers)])
    heads = ['messages', 'steps', 'bytes in all', 'at the busiest device', 'its additions']
    return Table(rows, ['algorithm', *heads])
