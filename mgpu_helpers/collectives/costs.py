"""What one allreduce takes: a short formula for each algorithm, from latency and bandwidth.

All have the same arguments, so that one can stand in for another: ``f(devices, nbytes, link)``
gives seconds, for an array of ``nbytes`` on each device; ``link`` has ``seconds(nbytes)``.
Arithmetic on the devices is left out: adding two arrays takes a small part of what moving one of
them takes.
"""

from __future__ import annotations

import math
from typing import Protocol

from .. import checks


class Link(Protocol):
    """Anything that tells how long a message takes, such as ``scaling.Link``."""

    def seconds(self, nbytes: float) -> float:
        """Time that ``nbytes`` take."""


def naive(devices: int, nbytes: float, link: Link) -> float:
    """Cost chapter 1's allreduce: all send to the first device, which sends the sum back.

    The first device's link takes 2(k-1) whole arrays, one after the other.
    """
    checks.message(devices, nbytes, link)
    return 2 * (devices - 1) * link.seconds(nbytes)


def tree(devices: int, nbytes: float, link: Link) -> float:
    """Cost a binary tree: in each round half of the senders are done; then the sum comes down."""
    checks.message(devices, nbytes, link)
    rounds = math.ceil(math.log2(devices))
    return 2 * rounds * link.seconds(nbytes)


def butterfly(devices: int, nbytes: float, link: Link) -> float:
    """Cost a butterfly (recursive doubling): in each round all devices exchange sums in pairs.

    Links carry both directions at once. With p, the largest power of two in k, the k - p surplus
    devices first add theirs to another's and are sent the sum at the end: two messages more
    (Thakur, Rabenseifner and Gropp 2005).
    """
    checks.message(devices, nbytes, link)
    rounds = math.floor(math.log2(devices))
    extra = 0 if devices == 2**rounds else 2  # the surplus devices hand in, and are told the sum
    return (rounds + extra) * link.seconds(nbytes)


def sharded(devices: int, nbytes: float, link: Link) -> float:
    """Cost a parameter server on every device: each sums its own slice, and sends it to the others.

    All pairs can talk at once, as through a switch.
    """
    checks.message(devices, nbytes, link)
    return 2 * (devices - 1) * link.seconds(nbytes / devices)


def ring(devices: int, nbytes: float, link: Link) -> float:
    """Cost a ring: slices go around it once to be summed, and once more to be handed out.

    Reduce-scatter and all-gather (Patarasuk and Yuan 2009). As many bytes through every link as
    ``sharded``, without a switch: each device needs a link to its neighbour only. The bytes,
    2n(k-1)/k, hardly depend on the number of devices; the latencies, 2(k-1), grow with it.
    """
    checks.message(devices, nbytes, link)
    return 2 * (devices - 1) * link.seconds(nbytes / devices)


def halving_doubling(devices: int, nbytes: float, link: Link) -> float:
    """Cost a butterfly on slices: what is exchanged is half an array, a quarter, ... and back.

    Few steps and few bytes: 2 log2(k) latencies and 2n(k-1)/k bytes for a power of two; otherwise
    two whole messages more (Rabenseifner 2004). Its partners are far apart, as the butterfly's.
    """
    checks.message(devices, nbytes, link)
    rounds = math.floor(math.log2(devices))
    extra = 0 if devices == 2**rounds else 2
    halves = [nbytes / 2**i for i in range(1, rounds + 1)]
    return 2 * sum(map(link.seconds, halves)) + extra * link.seconds(nbytes)
