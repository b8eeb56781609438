"""Machines: what a device computes in a second, and the links that an allreduce goes through."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .. import checks
from .costs import COSTS, hierarchical
from .links import LINKS, Library, Link
from .models import MODELS

# In them all devices of a server talk to other servers at once.
CROWDED = ('butterfly', 'sharded', 'halving_doubling')


@dataclass(frozen=True)
class Machine:
    """What the devices of a machine can do, and how they are connected."""

    name: str
    flops: float  # a second, kept up in training; it is sold with more
    link: Link  # between the devices of a server
    memory: float | None = None  # bytes of one device
    overhead: float = 0.0  # seconds a step, whatever the batch: starting kernels, Python
    devices_per_server: int | None = None  # that share a network link; None: ``link`` joins all
    network: Link | None = None  # the one link of each server to the others

    def __post_init__(self) -> None:
        checks.positive_number('flops per second', self.flops)
        checks.message(1, 1, self.link)
        if self.memory is not None:
            checks.positive_number('memory in bytes', self.memory)
        checks.not_negative('overhead in seconds', self.overhead)
        if (self.devices_per_server is None) != (self.network is None):
            raise ValueError(
                'give both, devices_per_server and network, for a machine of several servers, or '
                'neither'
            )
        if self.network is not None:
            checks.message(self.devices_per_server, 1, self.network)

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


def communication_seconds(
    devices: int, nbytes: float, machine: Machine, algorithm: str = 'ring', buckets: int = 1
) -> float:
    """Work out the time of an allreduce, sent in so many ``buckets`` of equal size, in turn.

    ``algorithm`` is a name in ``COSTS``, or ``'hierarchical'``. Through several servers a flat
    one runs at the speed of the network; of a ring's 2 (k - 1) latencies in a row, those inside
    servers are of the link there: with s servers all but 2 (s - 1), as in NCCL's own model
    (src/graph/tuning.cc). Where all devices of a server would share its link, it is refused.
    """
    such = "a Machine, such as MACHINES['p3.16xlarge']"
    checks.expect(hasattr(machine, 'levels'), 'machine', such, machine)
    checks.message(devices, nbytes, machine.link)
    checks.positive_int('buckets', buckets)
    checks.one_of('algorithm', algorithm, (*COSTS, 'hierarchical'))
    per_server = machine.devices_per_server or devices
    if algorithm in CROWDED and devices > per_server:
        raise ValueError(
            f'{algorithm!r} is for one server, or for {per_server} devices at most '
            "here: use 'ring' or 'hierarchical' through several"
        )
    if algorithm == 'hierarchical':
        return buckets * hierarchical(nbytes / buckets, machine.levels(devices))
    link = machine.network if machine.network and devices > per_server else machine.link
    seconds = COSTS[algorithm](devices, nbytes / buckets, link)
    if algorithm == 'ring':
        inside = devices - math.ceil(devices / per_server)
        seconds -= 2 * inside * (link.seconds(0) - machine.link.seconds(0))
    return buckets * seconds


# What a Llama keeps up of what is sold for bfloat16: 57 % of 312e12 on A100 (torchtitan,
# docs/performance.md, 2024), 33 to 39 % of 989e12 on H100 (its benchmarks of December 2024).
_A100, _H100 = 0.57 * 312e12, 0.36 * 989e12
# NVIDIA measured 384 images a second: ResNet-50, float32, batch 96, MXNet on one V100 of a DGX-1
# (DeepLearningExamples, MxNet/Classification/RN50v1.5). Other networks reach other speeds.
_V100 = 3 * MODELS['ResNet-50'].flops * 384  # a backward pass is two forward ones
MACHINES = Library(
    'machine',
    (
        # AWS: 8 V100, NVLink 2, 25 Gb/s a server
        Machine('p3.16xlarge', _V100, LINKS['NVLink 2'], 16e9, 0.0, 8, LINKS['25 Gb RoCE']),
        # AWS: 8 A100, NVLink 3, 400 Gb/s a server
        Machine('p4d.24xlarge', _A100, LINKS['NVLink 3'], 40e9, 0.0, 8, LINKS['4 x 100 Gb EFA']),
        # NVIDIA: 8 H100, NVLink 4, a 400 Gb port for each
        Machine('DGX H100', _H100, LINKS['NVLink 4'], 80e9, 0, 8, LINKS['8 x 400 Gb IB']),
        # One V100 in each computer. A step of a small network starts about 50 kernels; we take
        # each to cost 10 µs in Python and driver (NVIDIA measured 3.8 for bare ones, 9.6 where
        # each was waited for: Getting Started with CUDA Graphs, 2019).
        Machine('V100 on 10 Gb Ethernet', _V100, LINKS['10 Gb Ethernet'], 16e9, 50 * 10e-6),
    ),
)
