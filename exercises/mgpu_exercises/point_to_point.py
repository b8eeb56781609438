"""Simulate ranks that send and receive in one process, as in ``ranks``.

As with gloo and NCCL, ``send`` waits until the other rank receives, and messages between two ranks
keep their order. Each rank runs until it would wait, and is run again from the beginning when
another rank has made progress; sent messages are kept in between.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import torch

from .checking import Lacks, WaitsForEver, expect
from .ranks import Waits, until_it_waits


class Network:
    """The messages sent between ranks so far, and how many of them receivers have asked for."""

    def __init__(self, size: int) -> None:
        pairs = [(a, b) for a in range(size) for b in range(size)]
        self.sent: dict[tuple[int, int], list[torch.Tensor]] = {pair: [] for pair in pairs}
        self.wanted = dict.fromkeys(pairs, 0)
        self.chosen: list[list[int]] = [[] for _ in range(size)]  # senders, for recv without src
        self.size = size

    def progress(self) -> int:
        """Count the sends and receives so far, to see whether a round changed anything."""
        return sum(map(len, self.sent.values())) + sum(self.wanted.values())

    def busiest(self) -> int:
        """Return how many numbers the busiest rank sends or receives."""
        loads = {pair: sum(x.numel() for x in sent) for pair, sent in self.sent.items()}
        ports = [[sum(n for pair, n in loads.items() if pair[end] == rank)
                  for end in (0, 1)] for rank in range(self.size)]  # fmt: skip
        return max(map(max, ports))


class Work(NamedTuple):
    """The handle that ``isend`` and ``irecv`` return."""

    wait: Callable[[], None]


class Op(NamedTuple):
    """One message of a batch."""

    op: Callable[..., Work]
    tensor: torch.Tensor
    peer: int


class Peer:
    """One rank's view of a ``torch.distributed`` that has only messages."""

    P2POp = Op

    def __init__(self, rank: int, network: Network) -> None:
        self.rank, self.network, self.waits_for = rank, network, ''
        self.count: dict[tuple[int, int], int] = dict.fromkeys(network.sent, 0)
        self.any = 0  # number of receives without src
        self.open: dict[tuple[str, int, int, int], None] = {}  # started, but not waited for

    def __getattr__(self, name: str) -> NoReturn:
        has = 'send, recv, isend, irecv, batch_isend_irecv, get_rank and get_world_size'
        if name.startswith('_'):
            raise AttributeError(name)
        raise Lacks(f'here `dist` has only {has}, not {name}: write the sum by hand')

    def get_rank(self) -> int:
        return self.rank

    def get_world_size(self) -> int:
        return self.network.size

    def send(self, tensor: torch.Tensor, dst: int, group: Any = None) -> None:
        """Send a tensor, and wait until it is received."""
        self.isend(tensor, dst).wait()

    def recv(self, tensor: torch.Tensor, src: int | None = None, group: Any = None) -> int:
        """Wait for a tensor, and write it into this one; return the rank that sent it."""
        src = self._whoever() if src is None else src
        self.irecv(tensor, src).wait()
        return src

    def isend(self, tensor: torch.Tensor, dst: int, group: Any = None) -> Work:
        """Start a send."""
        key, number = self._next('send', tensor, dst), self.count[self.rank, dst] - 1
        sent = self.network.sent[self.rank, dst]
        if number == len(sent):
            sent.append(tensor.detach().clone())

        def wait() -> None:
            self._until(self.network.wanted[self.rank, dst] > number, f'to send to rank {dst}')
            hint = f'rank {self.rank} changes the tensor it sends to rank {dst} before it is sent; '
            there = key not in self.open or torch.equal(tensor, sent[number])
            expect(there, f'{hint}call wait() first')
            self.open.pop(key, None)

        return Work(wait)

    def irecv(self, tensor: torch.Tensor, src: int, group: Any = None) -> Work:
        """Start a receive."""
        key, number = self._next('recv', tensor, src), self.count[src, self.rank] - 1
        wanted, pair = self.network.wanted, (src, self.rank)
        wanted[pair] = max(wanted[pair], number + 1)

        def wait() -> None:
            there = self.network.sent[pair]
            self._until(len(there) > number, f'for rank {src} to send')
            sent, mine = _shown(there[number]), _shown(tensor)
            hint = f'rank {src} sends {sent}, but rank {self.rank} receives into {mine}'
            expect(sent == mine, f'{hint}: both sides must have the same length and type')
            if key in self.open:
                tensor.data.copy_(there[number].view_as(tensor))
                del self.open[key]

        return Work(wait)

    def batch_isend_irecv(self, ops: Sequence[Op]) -> list[Work]:
        """Start all these messages."""
        return [op.op(op.tensor, op.peer) for op in ops]

    def _next(self, name: str, tensor: Any, other: int) -> tuple[str, int, int, int]:
        """Number a message and return its key; raise a hint if its arguments are wrong."""
        me, size = self.rank, self.network.size
        expect(isinstance(tensor, torch.Tensor), f'{name} takes a tensor, not {tensor!r:.60}')
        expect(tensor.is_contiguous(), f'{name} needs a contiguous tensor')
        hint = f'rank {me} of {size} calls {name} with rank {other}: the ranks are 0 to {size - 1}'
        expect(other in range(size) and other != me, f'{hint}, and no rank sends to itself')
        pair = (me, other) if name == 'send' else (other, me)
        self.count[pair] += 1
        self.open[key := (name, *pair, self.count[pair])] = None
        return key

    def _whoever(self) -> int:
        chosen, number = self.network.chosen[self.rank], self.any
        self.any += 1
        if number == len(chosen):
            ready = [a for (a, b), sent in self.network.sent.items()
                     if b == self.rank and len(sent) > self.count[a, b]]  # fmt: skip
            self._until(bool(ready), 'for any rank to send')
            chosen.append(ready[0])
        return chosen[number]

    def _until(self, there: bool, what: str) -> None:
        if not there:
            self.waits_for = what
            raise Waits


def on_peers(size: int, function: Callable[[Any], Any]) -> tuple[list[Any], Network]:
    """Call a function with ``dist`` on each rank; return the results and the messages.

    The function is called several times, so it must create what it changes. Ranks that wait for one
    another, or for a rank that has ended, raise a hint; real processes would wait forever.
    """
    network, before = Network(size), -1
    while True:
        ranks = [Peer(rank, network) for rank in range(size)]
        found = [until_it_waits(function, dist) for dist in ranks]
        waiting = [dist for dist in ranks if dist.waits_for]
        if not waiting:
            break
        if network.progress() == before:
            raise WaitsForEver(_stuck(waiting, size))
        before = network.progress()
    for dist in ranks:
        names = [f'i{name}' for name, *_ in dist.open]
        hint = f'rank {dist.rank} never calls `wait()` on a result of `{"".join(names[:1])}`: '
        expect(not names, f'{hint}until then the message may not have arrived')
    return found, network


def _stuck(waiting: list[Peer], size: int) -> str:
    hint = ', '.join(f'rank {dist.rank} waits {dist.waits_for}' for dist in waiting[:4])
    hint = f'on {size} ranks, {hint}, forever'
    if len(waiting) < size:
        return f'{hint}: other ranks are done, so a message has no `recv`, or a `recv` no message'
    if all(dist.waits_for.startswith('to send') for dist in waiting):
        hint += ': `send` waits until the other receives, so some must receive first; or `isend`, '
        hint += 'receive, and then wait'
    return hint


def _shown(x: torch.Tensor) -> str:
    return f'{x.numel()} numbers of {str(x.dtype).removeprefix("torch.")}'
