"""Machines: a device's operations per second, and the links that an allreduce uses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from .. import arguments
from ..collectives.costs import REGISTRY
from .costs import hierarchical
from .links import LINKS, PUBLISHED, Library, Link


@dataclass(frozen=True)
class Machine:
    """A machine: the speed of its devices, and its links."""

    name: str
    flops: float  # per second, sustained in training; the data sheet has more
    link: Link  # between the devices of a server, with its achieved bandwidth
    memory: float | None = None  # bytes of one device
    overhead: float = 0.0  # seconds per step, for any batch: kernel starts, Python
    devices_per_server: int | None = None  # that share a network link; None: ``link`` joins all
    network: Link | None = None  # the one link of each server to the others

    def __post_init__(self) -> None:
        arguments.positive_number('flops per second', self.flops)
        arguments.message(1, 1, self.link)
        arguments.not_negative('overhead in seconds', self.overhead)
        if self.memory is not None:
            arguments.positive_number('memory in bytes', self.memory)
        if (self.devices_per_server is None) != (self.network is None):
            raise ValueError(
                'for a machine of several servers, pass both devices_per_server and network; '
                'otherwise neither'
            )
        if self.network is not None:
            arguments.message(self.devices_per_server, 1, self.network)

    def levels(self, devices: int) -> list[tuple[int, Link]]:
        """Return the levels that this many devices fill, for ``hierarchical``."""
        n = self.devices_per_server or devices
        if self.network is None or devices <= n:
            return [(devices, self.link)]
        if devices % n:
            raise ValueError(
                f'{devices} devices do not fill servers of {n}: use a multiple of {n}, or '
                "algorithm='ring'"
            )
        return [(n, self.link), (devices // n, self.network)]


def communication_seconds(
    devices: int, nbytes: float, machine: Machine, algorithm: str = 'ring', buckets: int = 1
) -> float:
    """Return the time of an allreduce, sent in ``buckets`` of equal size, one after the other.

    ``algorithm`` is a name in ``collectives.REGISTRY``, or ``'hierarchical'``. Across servers, the
    other algorithms run at the network's speed. With s servers, 2 (s - 1) of a ring's 2 (k - 1)
    latencies are those of the network, the rest those within a server, as in NCCL's own model
    (src/graph/tuning.cc). Algorithms in which all devices use the network at once are refused.
    """
    such = "a Machine, such as MACHINES['p3.16xlarge']"
    arguments.expect(hasattr(machine, 'levels'), 'machine', such, machine)
    arguments.message(devices, nbytes, machine.link)
    arguments.positive_int('buckets', buckets)
    arguments.one_of('algorithm', algorithm, (*REGISTRY, 'hierarchical'))
    per_server = machine.devices_per_server or devices
    if algorithm == 'hierarchical':
        return buckets * hierarchical(nbytes / buckets, machine.levels(devices))
    if REGISTRY[algorithm].crowds and devices > per_server:
        raise ValueError(
            f'{algorithm!r} works within one server, here up to {per_server} devices: for more, '
            "use 'ring' or 'hierarchical'"
        )
    link = machine.network if machine.network and devices > per_server else machine.link
    seconds = REGISTRY[algorithm].seconds(devices, nbytes / buckets, link)
    if algorithm == 'ring':
        inside = devices - math.ceil(devices / per_server)
        seconds -= 2 * inside * (link.latency - machine.link.latency)
    return buckets * seconds


def tensor_parallel_seconds(devices: int, blocks: int, nbytes: float, machine: Machine) -> float:
    """Return the time of tensor parallelism's allreduces: two forward, two backward per block.

    From Shoeybi and others (2019). ``nbytes`` is the size of a block's output. The next layer waits
    for each allreduce, so nothing hides it.
    """
    arguments.positive_int('blocks', blocks)
    return 4 * blocks * communication_seconds(devices, nbytes, machine)


def _machine(name: str, link: str, network: str | None = None, **figures: Any) -> Machine:
    joined = LINKS[network].arriving() if network else None
    return Machine(name, link=LINKS[link].arriving(), network=joined, **figures)


MACHINES = Library(
    'machine', (_machine(name, **figures) for name, figures in PUBLISHED['machines'].items())
)
