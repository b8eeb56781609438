"""Log an allreduce's messages and additions with counting arrays, and time them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

import numpy as np

from .. import arguments

MOST_DEVICES = 1024  # takes a second for a ring
MOST_NUMBERS = 10**7  # on all devices together: a second, 40 MB
AN_ALLREDUCE = 'that sums a list of arrays in place, such as allreduce_ring'


class Message(NamedTuple):
    """One message between two devices."""

    source: int
    target: int
    nbytes: int
    start: float
    end: float


@dataclass
class Count:
    """A log of the devices' messages and additions."""

    devices: int
    additions: Counter[int] = field(default_factory=Counter)  # device -> how many numbers it added
    # Source, target, bytes, and the messages that the source received since it last sent one.
    _sent: list[tuple[int, int, int, list[int]]] = field(default_factory=list)
    _kept: dict[int, list[int]] = field(default_factory=dict)

    def sent(self, source: int, target: int, nbytes: int) -> int:
        """Log a message; return its index."""
        self._sent.append((source, target, nbytes, self._kept.pop(source, [])))
        return len(self._sent) - 1

    def kept(self, device: int, message: int | None) -> None:
        """Log that a device has stored or added a message's content, or local data (None)."""
        if message is not None:
            self._kept.setdefault(device, []).append(message)

    def travel(
        self,
        seconds: Callable[[int], float],
        network: Callable[[int], float] | None = None,
        per_server: int = 1,
    ) -> list[Message]:
        """List the messages with their times, if one of n bytes takes ``seconds(n)``.

        Each leaves as soon as its source has the content; a device sends and receives one message
        at a time, and adding takes no time. With ``network``, each group of ``per_server`` devices
        shares the ports of a server: a message to another server takes ``network(n)``.
        """
        free: dict[tuple[str, int, bool], float] = {}
        complete = [0.0] * self.devices
        timed: list[Message] = []
        for source, target, nbytes, after in self._sent:
            complete[source] = max([complete[source], *(timed[i].end for i in after)])
            servers = source // per_server, target // per_server
            crosses = network is not None and servers[0] != servers[1]
            sender, receiver = servers if crosses else (source, target)
            ports = ('out', sender, crosses), ('in', receiver, crosses)
            start = max(complete[source], *(free.get(port, 0.0) for port in ports))
            end = start + (network if crosses else seconds)(nbytes)  # type: ignore[misc]
            free.update(dict.fromkeys(ports, end))
            timed.append(Message(source, target, nbytes, start, end))
        return timed

    def seconds(self, link: Any) -> float:
        """Return the time at which the last message arrives, if every link is like ``link``."""
        return max((m.end for m in self.travel(link.seconds)), default=0.0)

    @property
    def rounds(self) -> int:
        """Return the number of rounds: the time, if every message takes one."""
        return round(max((m.end for m in self.travel(lambda nbytes: 1)), default=0))

    @property
    def messages(self) -> int:
        """Return the number of arrays and slices sent between devices."""
        return len(self._sent)

    def matrix(self) -> np.ndarray:
        """Return the bytes sent, (devices, devices): a row per source, a column per target."""
        grid = np.zeros((self.devices, self.devices), dtype=int)
        for source, target, nbytes, _ in self._sent:
            grid[source, target] += nbytes
        return grid

    @property
    def busiest(self) -> int:
        """Return the largest number of bytes that any device sends or receives."""
        return int(max(self.matrix().sum(axis).max() for axis in (0, 1)))

    def __repr__(self) -> str:
        sent = f'{self.messages} messages in {self.rounds} rounds'
        return f'<Count: {sent}, {self.busiest:,} bytes through the busiest port>'


class Counted:
    """An array that logs copies and additions; it has the methods that an allreduce needs."""

    def __init__(
        self, device: int, values: np.ndarray, book: Count, message: int | None = None
    ) -> None:
        self.context, self.values, self.book = device, values, book
        self.message = message  # the message that brought it here
        self.shape, self.size, self.dtype = values.shape, values.size, values.dtype

    def reshape(self, shape: int) -> Counted:
        """Return a view in this shape."""
        return Counted(self.context, self.values.reshape(shape), self.book, self.message)

    def __getitem__(self, key: slice) -> Counted:
        return Counted(self.context, self.values[key], self.book, self.message)

    def copyto(self, target: Counted | int) -> Counted:
        """Copy into another array, or into a new array on a device; return it."""
        device = target.context if isinstance(target, Counted) else target
        message = self.message
        if device != self.context:
            self.book.kept(self.context, message)  # forwarded content arrived earlier
            message = self.book.sent(self.context, device, self.values.nbytes)
        if not isinstance(target, Counted):
            return Counted(device, self.values.copy(), self.book, message)
        target.values[...] = self.values
        self.book.kept(device, message)
        return target

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f'counted arrays have no {name!r}; use only copyto, +=, reshape, [a:b], context, '
            'shape, size and dtype'
        )

    def __iadd__(self, other: Counted) -> Counted:
        if other.context != self.context:
            raise ValueError(
                f'device {self.context} cannot add an array on device {other.context}: copy it'
            )
        self.values += other.values
        self.book.additions[self.context] += other.size
        self.book.kept(self.context, other.message)
        return self


def count(algorithm: Callable[[list[Any]], None], devices: int, size: int) -> Count:
    """Run an allreduce on float32 arrays of ``size`` numbers, and count what it sends and adds.

    ``algorithm`` may be your own function; it can use ``copyto``, ``+=``, ``reshape`` and slices.
    Raises ValueError if a device does not end up with the sum.
    """
    arguments.positive_int('devices', devices, most=MOST_DEVICES)
    arguments.positive_int('size', size, most=MOST_NUMBERS // devices)
    arguments.function('algorithm', algorithm, AN_ALLREDUCE)
    name = getattr(algorithm, '__name__', algorithm)
    book = Count(devices)
    # Neighbours differ, so that a misplaced slice shows; sums stay exact in float32.
    values = np.arange(size, dtype='float32') % 7 + 1
    data = [Counted(i, values * (i + 1), book) for i in range(devices)]
    algorithm(data)
    total = values * (devices * (devices + 1) // 2)
    wrong = [x.context for x in data if (x.values != total).any()]
    if wrong:
        raise ValueError(f'{name} is not an allreduce: devices {wrong} do not end up with the sum')
    return book


def fill_buckets(sizes: Sequence[float], bucket_bytes: float) -> list[list[int]]:
    """Group gradients into buckets, last layer first; return the indices in each bucket.

    ``sizes`` are bytes, first layer first; a gradient above ``bucket_bytes`` gets its own bucket.
    """
    arguments.positive_number('bucket_bytes', bucket_bytes)
    arguments.check(sizes=sizes)
    buckets, room = [], 0  # type: ignore[var-annotated]  # lists of indices
    for i in reversed(range(len(sizes))):
        if not buckets or sizes[i] > room:
            buckets.append([])
            room = bucket_bytes
        buckets[-1].append(i)
        room -= sizes[i]
    return buckets
