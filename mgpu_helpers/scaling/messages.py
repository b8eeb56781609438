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
    """One message of a plan.

    Parameters
    ----------
    source, target : int
        Devices, counted from 0.
    part : int or None
        Which slice of the gradient travels; None is all of it.
    adds : bool
        Whether the target adds what arrives to what it has (or puts it in its place).
    """

    source: int
    target: int
    part: int | None
    adds: bool


def plan_naive(k: int) -> list[list[Move]]:
    """Plan: the others send to device 0, one after the other; it sends the sum back.

    Parameters
    ----------
    k : int
        Devices, at least 1.

    Returns
    -------
    list of list of Move
        What goes on in each round. All plans have this form.

    Examples
    --------
    >>> [[move[:2] for move in turn] for turn in plan_naive(3)]
    [[(1, 0)], [(2, 0)], [(0, 1)], [(0, 2)]]
    """
    there = [[Move(i, 0, None, True)] for i in range(1, k)]
    back = [[Move(0, i, None, False)] for i in range(1, k)]
    return there + back


def plan_tree(k: int) -> list[list[Move]]:
    """Plan: neighbours add up pairwise, then pairs of pairs; the sum goes back the same way.

    Examples
    --------
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

    Examples
    --------
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

    Examples
    --------
    >>> [tuple(move) for move in plan_sharded(3)[0]]
    [(0, 1, 1, True), (1, 2, 2, True), (2, 0, 0, True)]
    """
    turns = range(1, k)
    gather = [[Move(i, (i + s) % k, (i + s) % k, True) for i in range(k)] for s in turns]
    spread = [[Move(i, (i + s) % k, i, False) for i in range(k)] for s in turns]
    return gather + spread


def plan_ring(k: int) -> list[list[Move]]:
    """Plan: slices travel round the ring and grow into sums, then the sums travel round.

    In step ``s`` device ``i`` sends slice ``i - s`` to its neighbour ``i + 1`` (both modulo ``k``).

    Examples
    --------
    >>> [tuple(move) for move in plan_ring(3)[1]]
    [(0, 1, 2, True), (1, 2, 0, True), (2, 0, 1, True)]
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


def plan(algorithm: str, devices: int) -> list[list[Move]]:
    """Look up what an algorithm does, round by round.

    Parameters
    ----------
    algorithm : str
        ``'naive'``, ``'tree'``, ``'butterfly'``, ``'sharded'`` or ``'ring'``.
    devices : int
        How many there are.

    Returns
    -------
    list of list of Move
        Empty for one device.

    Raises
    ------
    TypeError, ValueError
        If there is no such algorithm, or ``devices`` is no integer of at least 1.

    Examples
    --------
    >>> len(plan('ring', 4)), len(plan('tree', 4))
    (6, 4)
    """
    if algorithm not in PLANS:
        raise ValueError(
            f'no plan of messages for {checks.shown(algorithm)}: choose one of {", ".join(PLANS)}'
        )
    checks.positive_int('devices', devices)
    return PLANS[algorithm](devices)


def cut(nbytes: int, parts: int) -> list[int]:
    """Cut bytes into slices as ``numpy.array_split`` does: the first ones may be one byte longer.

    Parameters
    ----------
    nbytes, parts : int
        How many bytes, and into how many slices.

    Returns
    -------
    list of int
        Bytes of each slice.

    Examples
    --------
    >>> cut(10, 4)
    [3, 3, 2, 2]
    """
    size, longer = divmod(nbytes, parts)
    return [size + (i < longer) for i in range(parts)]


def rounds(algorithm: str, devices: int, nbytes: int) -> list[list[tuple[int, int, int]]]:
    """List the messages of one allreduce, round by round.

    Parameters
    ----------
    algorithm : str
        See ``plan``.
    devices : int
        How many there are.
    nbytes : int
        Bytes of the gradient on each device.

    Returns
    -------
    list of list of tuple
        For each round its messages ``(source, target, nbytes)``; messages of one round need
        nothing of each other.

    Raises
    ------
    TypeError, ValueError
        As ``plan``, or if ``nbytes`` is no integer of at least 1.

    Examples
    --------
    >>> rounds('ring', 2, 100)
    [[(0, 1, 50), (1, 0, 50)], [(0, 1, 50), (1, 0, 50)]]
    """
    checks.positive_int('nbytes', nbytes)
    turns = plan(algorithm, devices)
    sizes: dict[int | None, int] = dict(enumerate(cut(nbytes, devices)))
    sizes[None] = nbytes
    return [[(m.source, m.target, sizes[m.part]) for m in turn] for turn in turns]


class Message(NamedTuple):
    """One message and when it travelled.

    Parameters
    ----------
    source, target : int
        Devices.
    nbytes : int
        Its size.
    start, end : float
        Seconds since the allreduce began.
    """

    source: int
    target: int
    nbytes: int
    start: float
    end: float


def travel(
    turns: Sequence[Sequence[tuple[int, int, int]]], devices: int, link: Link
) -> list[Message]:
    """Play messages through: each leaves as soon as it can.

    A device has one outgoing and one incoming port of the link's speed. A message occupies its
    source's outgoing and its target's incoming port for latency + bytes / bandwidth. It leaves when
    both are free and its source has received everything that earlier rounds sent to it: before
    that, it does not have the data. Adding up costs nothing here.

    Parameters
    ----------
    turns : list of list of tuple
        As ``rounds`` gives them.
    devices : int
        How many there are.
    link : Link
        Between any two devices.

    Returns
    -------
    list of Message
        In the order of ``turns``.

    Examples
    --------
    >>> from mgpu_helpers.scaling import Link
    >>> link = Link('example', latency=1.0, bandwidth=50.0)
    >>> for message in travel(rounds('ring', 2, 100), 2, link)[1:3]:
    ...     print(message)
    Message(source=1, target=0, nbytes=50, start=0.0, end=2.0)
    Message(source=0, target=1, nbytes=50, start=2.0, end=4.0)
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


def message_seconds(algorithm: str, devices: int, nbytes: int, link: Link) -> float:
    """Time one allreduce message by message.

    Parameters
    ----------
    algorithm, devices, nbytes
        See ``rounds``.
    link : Link
        Between any two devices.

    Returns
    -------
    float
        Seconds until the last message has arrived; 0 for one device.

    Notes
    -----
    The same as the formula in ``costs``, but for slices of unequal length: the formula counts
    ``nbytes / devices`` for each, and the longest has up to one byte more. With 2 (k - 1) messages
    one after the other this is at most 2 (k - 1) bytes divided by the bandwidth.

    Examples
    --------
    >>> from mgpu_helpers.scaling import Link
    >>> message_seconds('ring', 4, 400, Link('example', latency=1.0, bandwidth=100.0))
    12.0
    """
    travelled = travel(rounds(algorithm, devices, nbytes), devices, link)
    return max((message.end for message in travelled), default=0.0)
