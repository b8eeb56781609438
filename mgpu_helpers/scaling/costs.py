"""What an allreduce takes: where two algorithms meet, and one in levels.

The formula of each algorithm is in ``collectives.costs``; ``COSTS`` has them by name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .. import checks
from ..collectives.costs import butterfly, halving_doubling, naive, ring, sharded, tree
from ..collectives.registry import REGISTRY

if TYPE_CHECKING:
    from .links import Link

__all__ = [
    'COSTS',
    'butterfly',
    'halving_doubling',
    'hierarchical',
    'meeting_point',
    'naive',
    'ring',
    'sharded',
    'tree',
]


def meeting_point(devices: int, link: Link) -> float:
    """Give the bytes at which ``butterfly`` and ``halving_doubling`` cost the same.

    For a power of two above 2; below, the butterfly's fewer messages count more.
    """
    checks.message(devices, 1, link)
    checks.power_of_two(devices)
    rounds = math.log2(devices)
    return rounds * link.latency * link.bandwidth / (rounds - 2 * (devices - 1) / devices)


def hierarchical(nbytes: float, levels: Sequence[tuple[int, Link]]) -> float:
    """Cost an allreduce in levels: devices in a server, servers in a rack, and so on.

    ``levels`` are (how many, their link), innermost first: ``[(4, pcie), (128, network)]`` are 128
    servers of 4 devices, which share their server's one link to the network. Their slices together
    are the whole array, so every level costs a ring over all ``nbytes``. Where every device has
    a network link of its own, give the link of the level their bandwidths together.
    """
    checks.levels(levels)
    return sum(ring(devices, nbytes, link) for devices, link in levels)


COSTS = {name: algorithm.seconds for name, algorithm in REGISTRY.items()}
