"""The cost of an allreduce (Thakur, Rabenseifner and Gropp 2005), and the registry of algorithms.

A formula is ``f(devices, nbytes, link)``: seconds for an array of ``nbytes`` on each device. It
ignores additions, which take little time compared with moving the array.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from .. import arguments
from . import algorithms


class Wire(Protocol):
    """A link whose ``seconds`` times a message, such as ``scaling.Link``."""

    def seconds(self, nbytes: float) -> float:
        """Return the time of a message of ``nbytes``."""


def naive(devices: int, nbytes: float, link: Wire) -> float:
    """Return the time of chapter 1's allreduce: 2(k-1) messages in turn over one link."""
    arguments.message(devices, nbytes, link)
    return 2 * (devices - 1) * link.seconds(nbytes)


def tree(devices: int, nbytes: float, link: Wire) -> float:
    """Return the time of a binary tree: up and down, the whole array in each round."""
    arguments.message(devices, nbytes, link)
    rounds = math.ceil(math.log2(devices))
    return 2 * rounds * link.seconds(nbytes)


def butterfly(devices: int, nbytes: float, link: Wire) -> float:
    """Return the time of a butterfly on two-way links; surplus devices add two messages."""
    arguments.message(devices, nbytes, link)
    rounds = math.floor(math.log2(devices))
    extra = 0 if devices == 2**rounds else 2
    return (rounds + extra) * link.seconds(nbytes)


def sharded(devices: int, nbytes: float, link: Wire) -> float:
    """Return the time of a sharded allreduce, in which all pairs send at once, through a switch."""
    arguments.message(devices, nbytes, link)
    return 2 * (devices - 1) * link.seconds(nbytes / devices)


def ring(devices: int, nbytes: float, link: Wire) -> float:
    """Return the time of a ring: like ``sharded``, but each device sends only to its neighbour."""
    return sharded(devices, nbytes, link)  # the same number of messages, of the same length


def halving_doubling(devices: int, nbytes: float, link: Wire) -> float:
    """Return the time of a butterfly that sends half the array, a quarter, ..., and back."""
    arguments.message(devices, nbytes, link)
    rounds = math.floor(math.log2(devices))
    extra = 0 if devices == 2**rounds else 2
    halves = [nbytes / 2**i for i in range(1, rounds + 1)]
    return 2 * sum(map(link.seconds, halves)) + extra * link.seconds(nbytes)


class Algorithm(NamedTuple):
    """An allreduce: its function, its cost, and its figure."""

    function: Callable[[list[Any]], None]  # sums arrays of any kind, in place
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
# Only the functions, by name.
OURS = {name: algorithm.function for name, algorithm in REGISTRY.items()}
