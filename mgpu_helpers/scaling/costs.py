"""What one allreduce takes: a short formula for each algorithm, from latency and bandwidth.

All functions that take a number of devices have the same arguments, so that one can stand in for
another: ``f(devices, nbytes, link)`` gives seconds. Arithmetic on the devices is left out: adding
two arrays takes a small part of what moving one of them takes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .inputs import check_levels, check_message

if TYPE_CHECKING:
    from .links import Link


def naive(devices: int, nbytes: float, link: Link) -> float:
    """Cost chapter 1's allreduce: all send to the first device, which sends the sum back.

    Parameters
    ----------
    devices : int
        How many devices hold an array; 1 costs nothing.
    nbytes : float
        Bytes of the array on each device.
    link : Link
        What each device is connected with.

    Returns
    -------
    float
        Seconds: the first device's link takes 2(k-1) whole arrays, one after the other.

    Raises
    ------
    TypeError, ValueError
        If ``devices`` is not an integer of at least 1, ``nbytes`` not a number above 0, or
        ``link`` no link.

    Examples
    --------
    >>> from mgpu_helpers.scaling import LINKS
    >>> f'{naive(4, 160e6, LINKS["PCIe 3 x16"]) * 1000:.1f} ms'
    '60.0 ms'
    """
    check_message(devices, nbytes, link)
    return 2 * (devices - 1) * link.seconds(nbytes)


def through_host(devices: int, nbytes: float, link: Link) -> float:
    """Cost an allreduce on the CPU: all devices send to it, and it sends the sum to each.

    Arguments, result and errors are ``naive``'s; ``link`` is the CPU's.

    Examples
    --------
    >>> from mgpu_helpers.scaling import LINKS
    >>> f'{through_host(4, 160e6, LINKS["PCIe 3 x16"]) * 1000:.1f} ms'
    '80.0 ms'
    """
    check_message(devices, nbytes, link)
    return 2 * devices * link.seconds(nbytes) if devices > 1 else 0.0


def tree(devices: int, nbytes: float, link: Link) -> float:
    """Cost a binary tree: in each round half of the senders are done; then the sum comes back down.

    Arguments, result and errors are ``naive``'s.

    Examples
    --------
    >>> from mgpu_helpers.scaling import LINKS
    >>> f'{tree(4, 160e6, LINKS["PCIe 3 x16"]) * 1000:.1f} ms'
    '40.0 ms'
    """
    check_message(devices, nbytes, link)
    rounds = math.ceil(math.log2(devices))
    return 2 * rounds * link.seconds(nbytes)


def butterfly(devices: int, nbytes: float, link: Link) -> float:
    """Cost a butterfly (recursive doubling): in each round all devices exchange sums in pairs.

    Arguments, result and errors are ``naive``'s; links carry both directions at once.

    Notes
    -----
    With p, the largest power of two in k, the k - p surplus devices first add theirs to another's
    and are sent the sum at the end: two messages more (Thakur, Rabenseifner and Gropp 2005).

    Examples
    --------
    >>> from mgpu_helpers.scaling import LINKS
    >>> f'{butterfly(4, 160e6, LINKS["PCIe 3 x16"]) * 1000:.1f} ms'
    '20.0 ms'
    """
    check_message(devices, nbytes, link)
    rounds = math.floor(math.log2(devices))
    extra = 0 if devices == 2**rounds else 2  # the surplus devices hand in, and are told the sum
    return (rounds + extra) * link.seconds(nbytes)


def sharded(devices: int, nbytes: float, link: Link) -> float:
    """Cost a parameter server on every device: each sums its own slice, and sends it to the others.

    Arguments, result and errors are ``naive``'s; all pairs can talk at once, as through a switch.

    Examples
    --------
    >>> from mgpu_helpers.scaling import LINKS
    >>> f'{sharded(4, 160e6, LINKS["PCIe 3 x16"]) * 1000:.1f} ms'
    '15.0 ms'
    """
    check_message(devices, nbytes, link)
    return 2 * (devices - 1) * link.seconds(nbytes / devices)


def ring(devices: int, nbytes: float, link: Link) -> float:
    """Cost a ring: slices go around it once to be summed, and once more to be handed out.

    Arguments, result and errors are ``naive``'s; each device needs a link to its neighbour only.

    Notes
    -----
    Reduce-scatter and all-gather (Patarasuk and Yuan 2009). The formula is ``sharded``'s: as many
    bytes through every link, but a ring gets by without a switch. The bytes, 2n(k-1)/k, hardly
    depend on the number of devices; the latencies, 2(k-1), grow with it.

    Examples
    --------
    >>> from mgpu_helpers.scaling import Link
    >>> f'{ring(8, 160e6, Link("three NVLinks", 3.4e-6, 3 * 18e9)) * 1000:.1f} ms'
    '5.2 ms'
    """
    check_message(devices, nbytes, link)
    return 2 * (devices - 1) * link.seconds(nbytes / devices)


def hierarchical(nbytes: float, levels: Sequence[tuple[int, Link]]) -> float:
    """Cost an allreduce in levels: devices in a server, servers in a rack, and so on.

    Parameters
    ----------
    nbytes : float
        Bytes of the array on each device.
    levels : list of (int, Link)
        Innermost first: how many units one unit of the next level holds, and the link that each of
        them has; ``[(4, pcie), (128, network)]`` are 128 servers of 4 devices.

    Returns
    -------
    float
        Seconds. Inside a server: reduce-scatter, after which each device has the sum of one slice,
        and at the end all-gather. Between them each device sums its slice with its counterparts in
        the other servers.

    Raises
    ------
    TypeError, ValueError
        If ``levels`` is not a list of (devices, link) with at least one level; else as ``naive``.

    Notes
    -----
    A server's one link to the network is shared by its devices: their slices together are the
    whole array, so that every level costs a ring over all ``nbytes``. Where every device has
    a network link of its own, give the link of the level their bandwidths together.

    Examples
    --------
    >>> from mgpu_helpers.scaling import LINKS
    >>> levels = [(4, LINKS['PCIe 3 x16']), (128, LINKS['25 Gb RoCE'])]
    >>> f'{hierarchical(160e6, levels) * 1000:.0f} ms'
    '120 ms'
    """
    check_levels(levels)
    return sum(ring(devices, nbytes, link) for devices, link in levels)


ALGORITHMS = {f.__name__: f for f in (naive, through_host, tree, butterfly, sharded, ring)}
