"""The one list of allreduce algorithms, for tables, costs and tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from . import algorithms, costs


class Algorithm(NamedTuple):
    """How to sum, what it costs, and how it is drawn."""

    function: Callable[[list[Any]], None]  # of arrays of any kind, in place
    seconds: Callable[..., float]  # of devices, nbytes, link
    figure: str  # in img/


REGISTRY = {
    'naive': Algorithm(algorithms.allreduce_naive, costs.naive, 'allreduce.svg'),
    'tree': Algorithm(algorithms.allreduce_tree, costs.tree, 'allreduce-tree.svg'),
    'butterfly': Algorithm(
        algorithms.allreduce_butterfly, costs.butterfly, 'allreduce-butterfly.svg'
    ),
    'sharded': Algorithm(algorithms.allreduce_sharded, costs.sharded, 'allreduce-sharded.svg'),
    'ring': Algorithm(algorithms.allreduce_ring, costs.ring, 'allreduce-ring.svg'),
    'halving_doubling': Algorithm(
        algorithms.allreduce_halving_doubling,
        costs.halving_doubling,
        'allreduce-halving-doubling.svg',
    ),
}
# The functions alone: what can be counted. MXNet's store cannot be, see ``kvstore``.
OURS = {name: algorithm.function for name, algorithm in REGISTRY.items()}
