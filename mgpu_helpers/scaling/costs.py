"""The cost of communication: allreduce, and what chapters 4 to 7 send or leave idle.

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
    """Return the bytes at which ``butterfly`` and ``halving_doubling`` cost the same.

    It exists for a power of two above 2; for 2, the butterfly is always better, with fewer
    messages.
    """
    arguments.message(devices, 1, link)
    arguments.power_of_two('devices', devices)
    rounds = math.log2(devices)
    return rounds * link.latency * link.bandwidth / (rounds - 2 * (devices - 1) / devices)


def hierarchical(nbytes: float, levels: Sequence[tuple[int, Link]]) -> float:
    """Cost of an allreduce in levels: devices in a server, servers in a rack, and so on.

    ``levels`` are (how many, their link), innermost first: ``[(4, pcie), (128, network)]`` are 128
    servers of 4 devices, which share their server's one link to the network. Their slices add up to
    the whole array, so every level costs a ring over all ``nbytes``. If every device has its own
    network link, add up their bandwidths in the level's link.
    """
    return sum(ring(devices, nbytes, link) for devices, link in levels)


def nvls(devices: int, nbytes: float, link: Link) -> float:
    """Cost of a sum computed by the switch (NCCL's NVLS, a form of SHARP).

    A device reads its slice's sum, which the switch collects from all, and writes it to all. So its
    port carries the whole array plus one slice, in either direction.
    """
    arguments.message(devices, nbytes, link)
    return link.seconds((1 + 1 / devices) * nbytes)


def zero(
    stage: int, devices: int, nbytes: float, link: Link, gradient_bytes: float | None = None
) -> float:
    """Cost of a step of ZeRO: scatter gradients, gather parameters; stage 3 gathers twice.

    Rajbhandari and others (2020). Up to stage 2 this is an allreduce in two halves. Stage 3 (FSDP)
    gathers parameters for the forward pass and again for the backward pass; stage 0 is plain data
    parallelism. ``nbytes`` are those of all parameters, ``gradient_bytes`` those of their
    gradients, if they differ.
    """
    arguments.whole_number('stage', stage, most=3)
    scatter = ring(devices, gradient_bytes or nbytes, link) / 2
    gather = ring(devices, nbytes, link) / 2 if stage else scatter
    return scatter + (2 if stage == 3 else 1) * gather


def bubble(stages: int, micro_batches: int) -> float:
    """Return the share of a step in which a device of a pipeline waits, 0 to 1.

    Huang and others (2019), for equally long stages. GPipe and 1F1B wait equally long; they differ
    in the stored activations: of all micro-batches, or of at most ``stages``.
    """
    arguments.positive_int('stages', stages)
    arguments.positive_int('micro_batches', micro_batches)
    return (stages - 1) / (micro_batches + stages - 1)
