"""The cost of an allreduce (Thakur, Rabenseifner and Gropp 2005), and the registry of algorithms.

A formula is ``f(devices, nbytes, link)``: seconds for an array of ``nbytes`` on each device. Adding
is left out: it takes a small part of what moving an array takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from .. import arguments
from . import algorithms


class Wire(Protocol):
    """Anything that tells how long a message takes, such as ``scaling.Link``."""

    def seconds(self, nbytes: float) -> float:
        """Seconds that a message of ``nbytes`` takes."""


def naive(devices: int, nbytes: float, link: Wire) -> float:
    """Cost chapter 1's allreduce: the first device's link takes 2(k-1) whole arrays in turn."""
    arguments.message(devices, nbytes, link)
    return 2 * (devices - 1) * link.seconds(nbytes)


def tree(devices: int, nbytes: float, link: Wire) -> float:
    """Cost a binary tree: up and down it, the whole array in each round."""
    arguments.message(devices, nbytes, link)
    rounds = math.ceil(math.log2(devices))
    return 2 * rounds * link.seconds(nbytes)


def butterfly(devices: int, nbytes: float, link: Wire) -> float:
    """Cost a butterfly: both directions of a link at once; surplus devices add two messages."""
    arguments.message(devices, nbytes, link)
    rounds = math.floor(math.log2(devices))
    extra = 0 if devices == 2**rounds else 2
    return (rounds + extra) * link.seconds(nbytes)


def sharded(devices: int, nbytes: float, link: Wire) -> float:
    """Cost slices with one summing device each; all pairs send at once, as through a switch."""
    arguments.message(devices, nbytes, link)
    return 2 * (devices - 1) * link.seconds(nbytes / devices)


def ring(devices: int, nbytes: float, link: Wire) -> float:
    """Cost a ring: as ``sharded``, but no device sends to more than one other."""
    return sharded(devices, nbytes, link)  # as many messages, as long


def halving_doubling(devices: int, nbytes: float, link: Wire) -> float:
    """Cost a butterfly on slices: what is exchanged is half an array, a quarter, ... and back."""
    arguments.message(devices, nbytes, link)
    rounds = math.floor(math.log2(devices))
    extra = 0 if devices == 2**rounds else 2
    halves = [nbytes / 2**i for i in range(1, rounds + 1)]
    return 2 * sum(map(link.seconds, halves)) + extra * link.seconds(nbytes)


class Algorithm(NamedTuple):
    """How to sum, what it costs, and how it is drawn."""

    function: Callable[[list[Any]], None]  # of arrays of any kind, in place
    seconds: Callable[[int, float, Wire], float]
    figure: str  # in img/
    crowds: bool = False  # all devices of a server send to other servers at once


REGISTRY = {
    'naive': Algorithm(algorithms.allreduce_naive, naive, 'allreduce.svg'),
    'tree': Algorithm(algorithms.allreduce_tree, tree, 'allreduce-tree.svg'),
    'butterfly': Algorithm(
        algorithms.allreduce_butterfly, butterfly, 'allreduce-butterfly.svg', crowds=True
    ),
    'sharded': Algorithm(
        algorithms.allreduce_sharded, sharded, 'allreduce-sharded.svg', crowds=True
    ),
    'ring': Algorithm(algorithms.allreduce_ring, ring, 'allreduce-ring.svg'),
    'halving_doubling': Algorithm(
        algorithms.allreduce_halving_doubling,
        halving_doubling,
        'allreduce-halving-doubling.svg',
        crowds=True,
    ),
}
# The functions alone.
OURS = {name: algorithm.function for name, algorithm in REGISTRY.items()}
