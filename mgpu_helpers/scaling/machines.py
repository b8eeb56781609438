"""Machines: what a device computes in a second, and the links that an allreduce goes through."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import checks
from .costs import ALGORITHMS, hierarchical
from .inputs import Library, check_machine, check_message, check_model
from .links import LINKS, Link
from .models import MODELS

if TYPE_CHECKING:
    from .models import Model

# In them all devices of a server talk to other servers at once.
CROWDED = ('butterfly', 'sharded', 'halving_doubling')


@dataclass(frozen=True)
class Machine:
    """What the devices of a machine can do, and how they are connected.

    >>> machine = Machine('four servers', 9e12, LINKS['NVLink 2'], 16e9,
    ...                   devices_per_server=8, network=LINKS['25 Gb RoCE'])
    >>> [(n, link.name) for n, link in machine.levels(32)]
    [(8, 'NVLink 2'), (4, '25 Gb RoCE')]
    """

    name: str
    flops: float  # a second, kept up in training; it is sold with more: see ``sustained_flops``
    link: Link  # between the devices of a server
    memory: float | None = None  # bytes of one device
    overhead: float = 0.0  # seconds a step, whatever the batch: starting kernels, Python
    devices_per_server: int | None = None  # that share a network link; None: ``link`` joins all
    network: Link | None = None  # the one link of each server to the others

    def __post_init__(self) -> None:
        checks.positive_number('flops per second', self.flops)
        check_message(1, 1, self.link)
        if self.memory is not None:
            checks.positive_number('memory in bytes', self.memory)
        checks.not_negative('overhead in seconds', self.overhead)
        if (self.devices_per_server is None) != (self.network is None):
            raise ValueError(
                'give both, devices_per_server and network, for a machine of several servers, or '
                'neither'
            )
        if self.network is not None:
            check_message(self.devices_per_server, 1, self.network)

    def levels(self, devices: int) -> list[tuple[int, Link]]:
        """Give the levels that so many devices make up, as ``hierarchical`` takes them."""
        n = self.devices_per_server or devices
        if self.network is None or devices <= n:
            return [(devices, self.link)]
        if devices % n:
            raise ValueError(
                f'{devices} devices do not fill servers of {n}: use a multiple of {n}, or '
                "algorithm='ring'"
            )
        return [(n, self.link), (devices // n, self.network)]

    def slowest(self, devices: int) -> Link:
        """Give the link that a flat algorithm over so many devices waits for."""
        several = devices > (self.devices_per_server or devices)
        return self.network if self.network and several else self.link


def sustained_flops(model: Model, examples_per_second: float) -> float:
    """Work out how many operations a second a device keeps up that trains ``model`` so fast.

    Three forward passes' worth for each example.
    """
    check_model(model)
    checks.positive_number('examples_per_second', examples_per_second)
    return 3 * model.flops * examples_per_second


def communication_seconds(
    devices: int, nbytes: float, machine: Machine, algorithm: str = 'ring', buckets: int = 1
) -> float:
    """Work out the time of an allreduce, sent in so many ``buckets`` of equal size, in turn.

    ``algorithm`` is a name in ``ALGORITHMS``, or ``'hierarchical'``. Through several servers a flat
    one runs at the speed of the network; of a ring's 2 (k - 1) latencies in a row, those inside
    servers are of the link there: with s servers all but 2 (s - 1), as in NCCL's own model
    (src/graph/tuning.cc). Where all devices of a server would share its link, it is refused.
    """
    check_machine(machine)
    check_message(devices, nbytes, machine.link)
    checks.positive_int('buckets', buckets)
    checks.one_of('algorithm', algorithm, (*ALGORITHMS, 'hierarchical'))
    if algorithm in CROWDED and devices > (machine.devices_per_server or devices):
        raise ValueError(
            f'{algorithm!r} is for one server, or for {machine.devices_per_server} devices at most '
            "here: use 'ring' or 'hierarchical' through several"
        )
    if algorithm == 'hierarchical':
        return buckets * hierarchical(nbytes / buckets, machine.levels(devices))
    link = machine.slowest(devices)
    seconds = ALGORITHMS[algorithm](devices, nbytes / buckets, link)
    if algorithm == 'ring' and link is machine.network:
        servers = math.ceil(devices / machine.devices_per_server)  # type: ignore[operator]
        seconds -= 2 * (devices - servers) * (link.seconds(0) - machine.link.seconds(0))
    return buckets * seconds


# NVIDIA measured 384 images a second: ResNet-50, float32, batch 96, MXNet on one V100 of a DGX-1
# (DeepLearningExamples, MxNet/Classification/RN50v1.5). Other networks reach other speeds.
_V100 = sustained_flops(MODELS['ResNet-50'], 384)
MACHINES = Library(
    'machine',
    (
        # AWS: 8 V100, NVLink 2, 25 Gb/s a server
        Machine('p3.16xlarge', _V100, LINKS['NVLink 2'], 16e9, 0.0, 8, LINKS['25 Gb RoCE']),
        # one V100 in each computer
        Machine('V100 on 10 Gb Ethernet', _V100, LINKS['10 Gb Ethernet'], 16e9),
    ),
)
