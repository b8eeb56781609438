"""The single messages of which an allreduce is made, and how long they take together.

The formulas in ``costs`` say what an algorithm should cost. Here it is played through: who sends
what to whom, and when, if a device can send one message and receive one at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from .. import checks

if TYPE_CHECKING:
    from .links import Link


class Move(NamedTuple):
    """One message of a plan, between two devices, counted from 0."""

    source: int
    target: int
    part: int | None  # which slice of the gradient travels; None is all of it
    adds: bool  # the target adds what arrives to what it has; else puts it in its place


def plan_naive(k: int) -> list[list[Move]]:
    """Plan: the others send to device 0, one after the other; it sends the sum back.

    All plans have this form: what goes on in each round, none for one device.
    """
    there = [[Move(i, 0, None, True)] for i in range(1, k)]
    back = [[Move(0, i, None, False)] for i in range(1, k)]
    return there + back


def plan_tree(k: int) -> list[list[Move]]:
    """Plan: neighbours add up pairwise, then pairs of pairs; the sum goes back the same way.

    >>> [[move[:2] for move in turn] for turn in plan_tree(4)]
    [[(1, 0), (3, 2)], [(2, 0)], [(0, 2)], [(0, 1), (2, 3)]]
    """
    distances = [2**i for i in range((k - 1).bit_length())]
    up = [[Move(i + d, i, None, True) for i in range(0, k - d, 2 * d)] for d in distances]
    return up + [[Move(i, j, None, False) for j, i, _, _ in turn] for turn in reversed(up)]


def plan_butterfly(k: int) -> list[list[Move]]:
    """Plan: in each round all devices exchange what they have, with partners ever farther away.

    With ``p`` the largest power of two up to ``k``, the surplus devices ``p + j`` first give theirs
    to device ``j`` and get the sum at the end.

    >>> [[move[:2] for move in turn] for turn in plan_butterfly(3)]
    [[(2, 0)], [(0, 1), (1, 0)], [(0, 2)]]
    """
    p = 2 ** (k.bit_length() - 1)
    fold = [[Move(p + j, j, None, True) for j in range(k - p)]] if k > p else []
    distances = [2**i for i in range(p.bit_length() - 1)]
    exchange = [[Move(i, i ^ d, None, True) for i in range(p)] for d in distances]
    return fold + exchange + [[Move(j, i, None, False) for i, j, _, _ in turn] for turn in fold]


def plan_sharded(k: int) -> list[list[Move]]:
    """Plan: device ``i`` adds up slice ``i`` of all, then sends that sum to all.

    In round ``s`` each device sends to the one ``s`` farther on, so that nobody gets two messages
    at once.
    """
    turns = range(1, k)
    gather = [[Move(i, (i + s) % k, (i + s) % k, True) for i in range(k)] for s in turns]
    spread = [[Move(i, (i + s) % k, i, False) for i in range(k)] for s in turns]
    return gather + spread


def plan_ring(k: int) -> list[list[Move]]:
    """Plan: slices travel round the ring and grow into sums, then the sums travel round.

    In step ``s`` device ``i`` sends slice ``i - s`` to its neighbour ``i + 1`` (both modulo ``k``).
    """
    steps = range(2 * (k - 1))
    return [[Move(i, (i + 1) % k, (i - s) % k, s < k - 1) for i in range(k)] for s in steps]


PLANS = {
    'naive': plan_naive,
    'tree': plan_tree,
    'butterfly': plan_butterfly,
    'sharded': plan_sharded,
    'ring': plan_ring,
}


def rounds(algorithm: str, devices: int, nbytes: int) -> list[list[tuple[int, int, int]]]:
    """List the messages ``(source, target, nbytes)`` of one allreduce, round by round.

    Those of one round need nothing of each other. ``nbytes`` are those of the gradient; slices are
    cut as ``numpy.array_split`` does: the first ones may be one byte longer.

    >>> rounds('ring', 2, 101)
    [[(0, 1, 51), (1, 0, 50)], [(0, 1, 50), (1, 0, 51)]]
    """
    checks.one_of('algorithm, played message by message,', algorithm, PLANS)
    checks.positive_int('devices', devices)
    checks.positive_int('nbytes', nbytes)
    size, longer = divmod(nbytes, devices)
    sizes: dict[int | None, int] = {i: size + (i < longer) for i in range(devices)} | {None: nbytes}
    return [
        [(m.source, m.target, sizes[m.part]) for m in turn] for turn in PLANS[algorithm](devices)
    ]


class Message(NamedTuple):
    """One message and when it travelled, in seconds since the allreduce began."""

    source: int
    target: int
    nbytes: int
    start: float
    end: float


def travel(
    turns: Sequence[Sequence[tuple[int, int, int]]], devices: int, link: Link
) -> list[Message]:
    """Play messages, as ``rounds`` gives them, through: each leaves as soon as it can.

    A device has one outgoing and one incoming port. A message occupies its source's outgoing and
    its target's incoming port for latency + bytes / bandwidth. It leaves when both are free and its
    source has received everything that earlier rounds sent to it: before that, it does not have
    the data. Adding up costs nothing here.
    """
    sent, received, complete = ([0.0] * devices for _ in range(3))
    travelled = []
    for turn in turns:
        arrived = []
        for source, target, nbytes in turn:
            start = max(sent[source], received[target], complete[source])
            end = start + link.seconds(nbytes)
            sent[source] = received[target] = end
            arrived.append((target, end))
            travelled.append(Message(source, target, nbytes, start, end))
        for target, end in arrived:
            complete[target] = max(complete[target], end)
    return travelled
