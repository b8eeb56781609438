"""The cost of communication: allreduces, other sums, and the idle time of pipelines.

``collectives.costs`` has the formula of each allreduce; ``COSTS`` lists them by name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .. import arguments
from ..collectives.costs import REGISTRY, butterfly, halving_doubling, naive, ring, sharded, tree
from .links import Link

__all__ = ['butterfly', 'halving_doubling', 'naive', 'ring', 'sharded', 'tree']  # for the stub

COSTS = {name: algorithm.seconds for name, algorithm in REGISTRY.items()}


def meeting_point(devices: int, link: Link) -> float:
    """Return the array size in bytes at which ``butterfly`` and ``halving_doubling`` cost the same.

    ``devices`` must be a power of two above 2; with 2, the butterfly is always better, because it
    sends fewer messages.
    """
    arguments.message(devices, 1, link)
    arguments.power_of_two('devices', devices)
    rounds = math.log2(devices)
    return rounds * link.latency * link.bandwidth / (rounds - 2 * (devices - 1) / devices)


def hierarchical(nbytes: float, levels: Sequence[tuple[int, Link]]) -> float:
    """Return the time of an allreduce in levels: devices in a server, servers in a rack, and so on.

    ``levels`` are pairs (how many, link), innermost first: ``[(4, pcie), (128, network)]`` are 128
    servers of 4 devices, which share their server's only link to the network. Their slices add up
    to the whole array, so each level takes as long as a ring over all ``nbytes``. If every device
    has its own network link, use a link with the sum of their bandwidths.
    """
    return sum(ring(devices, nbytes, link) for devices, link in levels)


def nvls(devices: int, nbytes: float, link: Link) -> float:
    """Return the time of a sum computed by the switch (NCCL's NVLS, a form of SHARP).

    Each device reads the sum of its slice, which the switch collects, and writes it to all. So its
    port carries the whole array plus one slice, in each direction.
    """
    arguments.message(devices, nbytes, link)
    return link.seconds((1 + 1 / devices) * nbytes)


def bubble(stages: int, micro_batches: int) -> float:
    """Return the share of a step, 0 to 1, in which a pipeline's device is idle.

    From Huang and others (2019), for equally long stages. It is the same for GPipe and 1F1B, but
    GPipe stores the activations of all micro-batches, 1F1B those of at most ``stages``.
    """
    arguments.positive_int('stages', stages)
    arguments.positive_int('micro_batches', micro_batches)
    return (stages - 1) / (micro_batches + stages - 1)
