"""Chapter 3's allreduce algorithms, which sum arrays over devices in place.

Each takes one array per device, all of the same shape, and leaves the same sum, bit for bit, on
every device. None needs a framework: all also run on the counting arrays of ``messages``.

All send first and add afterwards. MXNet's engine makes an operator wait for all earlier ones on the
same *array*, even on another slice: adding at once would serialize a ring's messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import TYPE_CHECKING

from .. import arguments

if TYPE_CHECKING:
    from mxnet.ndarray import NDArray

    Allreduce = Callable[[Sequence[NDArray]], None]


def allreduce_naive(data: Sequence[NDArray]) -> None:
    """Sum on the first device, and copy the sum to the others: 2 (k - 1) messages, in place."""
    arguments.one_per_device(data)
    first, *others = data
    for x in others:
        first += x.copyto(first.context)
    for x in others:
        first.copyto(x)


def allreduce_tree(data: Sequence[NDArray]) -> None:
    """Reduce up a binary tree, then send the sum back down: 2 ⌈log₂ k⌉ rounds, in place."""
    arguments.one_per_device(data)
    k = len(data)
    distances = [2**i for i in range((k - 1).bit_length())]
    for d in distances:
        for target, source in zip(data[:: 2 * d], data[d :: 2 * d]):
            target += source.copyto(target.context)
    for d in reversed(distances):
        for source, target in zip(data[:: 2 * d], data[d :: 2 * d]):
            source.copyto(target)


def any_number(allreduce: Allreduce) -> Allreduce:
    """Let an allreduce for 2, 4, 8, ... devices sum over any number, in two rounds more.

    First, the surplus devices send their arrays to others; at the end, they receive the sum.
    """

    @wraps(allreduce)
    def of_all(data: Sequence[NDArray]) -> None:
        arguments.one_per_device(data)
        p = 2 ** (len(data).bit_length() - 1)  # the largest power of two that is at most k
        for x, surplus in zip(data, data[p:]):
            x += surplus.copyto(x.context)
        allreduce(data[:p])
        for x, surplus in zip(data, data[p:]):
            x.copyto(surplus)

    return of_all


@any_number
def allreduce_butterfly(data: Sequence[NDArray]) -> None:
    """Exchange sums with a partner at doubling distance, in place: recursive doubling.

    Takes log₂ k rounds. Partners compute a + b and b + a, which round to the same value.
    """
    k, d = len(data), 1
    while d < k:
        partners = [data[i ^ d] for i in range(k)]
        received = [partner.copyto(x.context) for x, partner in zip(data, partners)]
        for x, r in zip(data, received):
            x += r
        d *= 2


def slices(x: NDArray, k: int) -> list[NDArray | None]:
    """Cut an array into k one-dimensional views of nearly equal length; empty ones are ``None``."""
    flat, n = x.reshape(-1), x.size
    cuts = [i * n // k for i in range(k + 1)]
    return [flat[a:b] if a < b else None for a, b in zip(cuts, cuts[1:])]


def send(messages: Iterable[tuple[NDArray | None, NDArray | None]], add: bool) -> None:
    """Send all messages ``(source, target)`` at the same time; then add or store each."""
    messages = [(source, target) for source, target in messages if source is not None]
    received = [source.copyto(target.context) for source, target in messages]  # type: ignore[union-attr]
    for (_, target), r in zip(messages, received):
        if add:
            target += r
        else:
            r.copyto(target)


def allreduce_sharded(data: Sequence[NDArray]) -> None:
    """Sum each slice on one device, which sends it to all others, in place.

    Each device sends 2 (k - 1) messages with 1/k of the array each. This is *Dive into Deep
    Learning*'s answer to an exercise of its own.
    """
    arguments.one_per_device(data)
    k = len(data)
    parts = [slices(x, k) for x in data]  # parts[i][j] is slice j on device i
    pairs = [(i, (i + d) % k) for d in range(1, k) for i in range(k)]
    send([(parts[i][j], parts[j][j]) for i, j in pairs], add=True)
    send([(parts[i][i], parts[j][i]) for i, j in pairs], add=False)


def reduce_scatter(data: Sequence[NDArray]) -> list[NDArray | None]:
    """Sum around a ring, in place; return slice i of the sum on device i, as a view.

    In each of k - 1 rounds every device sends 1/k of its array to the next one, which adds it. The
    other slices end as partial sums. ZeRO and FSDP stop here.
    """
    arguments.one_per_device(data)
    k = len(data)
    parts = [slices(x, k) for x in data]
    for r in range(1, k):
        around = [(i, (i + 1) % k, (i - r) % k) for i in range(k)]  # from, to, which slice
        send([(parts[i][s], parts[j][s]) for i, j, s in around], add=True)
    return [parts[i][i] for i in range(k)]


def all_gather(data: Sequence[NDArray]) -> None:
    """Pass slices around a ring, in place: after k - 1 rounds all devices have all slices."""
    arguments.one_per_device(data)
    k = len(data)
    parts = [slices(x, k) for x in data]
    for r in range(k - 1):
        around = [(i, (i + 1) % k, (i - r) % k) for i in range(k)]
        send([(parts[i][s], parts[j][s]) for i, j, s in around], add=False)


def allreduce_ring(data: Sequence[NDArray]) -> None:
    """Sum around a ring, in place: ``reduce_scatter``, then ``all_gather``.

    In each of 2 (k - 1) rounds, a device sends 1/k of the array to its neighbour. No algorithm that
    adds on the devices can send fewer bytes through the busiest port (Patarasuk and Yuan 2009).
    """
    reduce_scatter(data)
    all_gather(data)


@any_number
def allreduce_halving_doubling(data: Sequence[NDArray]) -> None:
    """Sum like the butterfly, but send slices that first halve and then double, in place.

    Recursive halving, then recursive doubling (Rabenseifner 2004). For a power of two, a device
    sends 2 log₂ k messages with 2 (k - 1)/k of the array in all: few rounds and few bytes.
    """
    k = len(data)
    distances = [2**i for i in range(k.bit_length() - 1)]
    parts = {d: [slices(x, k // d) for x in data] for d in distances}
    # At distance d, device i continues with part i // d of k // d, its partner with the other.
    for d in reversed(distances):
        send([(parts[d][i ^ d][i // d], parts[d][i][i // d]) for i in range(k)], add=True)
    for d in distances:  # finished parts come back the same way
        send([(parts[d][i][i // d], parts[d][i ^ d][i // d]) for i in range(k)], add=False)
