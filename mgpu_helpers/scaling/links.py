"""Links between devices: the time of a message, and the published speeds of common links."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn, TypeVar

from .. import arguments

Entry = TypeVar('Entry')  # anything with a name
PUBLISHED = tomllib.loads(Path(__file__).with_name('published.toml').read_text(encoding='utf8'))
ARRIVES = PUBLISHED['arrives']  # share of a label's bandwidth that a ring achieves


class Library(dict[str, Entry]):
    """A dictionary by name; the error for an unknown name lists the known ones."""

    def __init__(self, kind: str, entries: Iterable[Entry]) -> None:
        super().__init__((entry.name, entry) for entry in entries)  # type: ignore[attr-defined]
        self.kind = kind

    def __missing__(self, name: object) -> NoReturn:
        raise KeyError(
            f'no {self.kind} {name!r}: choose one of {", ".join(self)}, or make your own'
        )


@dataclass(frozen=True)
class Link:
    """A connection between two devices: a fixed time for each message, and a time for each byte.

    Hockney's model of a message (1994). 1 GB is 10**9 bytes, and network speeds are in gigabits: 25
    Gb/s are 3.125 GB/s.
    """

    name: str
    latency: float  # seconds for a message of any length: the model's alpha
    # Bytes per second in one direction: 1 / the model's beta. Compare it with an allreduce's bus
    # bandwidth in nccl-tests: 2 (k - 1)/k times its algorithm bandwidth, which is the array's bytes
    # divided by the time.
    bandwidth: float
    source: str = ''  # of both figures

    def __post_init__(self) -> None:
        arguments.positive_number('latency in seconds', self.latency)
        arguments.positive_number('bandwidth in bytes per second', self.bandwidth)

    def seconds(self, nbytes: float) -> float:
        """Return the time of one message: its latency plus the time to send its bytes."""
        arguments.not_negative('nbytes', nbytes)
        return self.latency + nbytes / self.bandwidth

    def arriving(self, share: float = ARRIVES) -> Link:
        """Return the same link with the ``share`` of its bandwidth that programs achieve."""
        return replace(self, bandwidth=share * self.bandwidth)


LINKS = Library('link', (Link(name, *figures) for name, figures in PUBLISHED['links'].items()))
