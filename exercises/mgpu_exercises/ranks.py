"""Simulate ranks in one process, for functions that take ``dist`` as an argument.

A function runs for rank 0 until it would wait for the others, then for rank 1, and so on. Once all
have reached a collective, each is run again from the beginning, and gets its result there.
"""

from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch.distributed import ReduceOp

from mgpu_helpers import pytorch

from .checking import Hint, Lacks, WaitsForEver, expect, there

launch = there(pytorch.launch)


class Waits(BaseException):
    """Raised where a rank must wait for others; a BaseException, so answers do not catch it."""


class Work:
    """The handle of a collective with ``async_op=True``; its result is there after ``wait()``."""

    def __init__(self, name: str, arrive: Callable[[], Any]) -> None:
        self.name, self.arrive, self.done = name, arrive, False

    def wait(self, timeout: Any = None) -> bool:
        """Deliver the result, once."""
        if not self.done:
            self.arrive()
        self.done = True
        return True


class Dist:
    """A rank's view of ``torch.distributed``; ``calls`` lists the collectives it has called."""

    ReduceOp = ReduceOp

    def __init__(self, rank: int, past: list[list[Any]], size: int) -> None:
        self.rank, self.past, self.size = rank, past, size
        self.calls: list[tuple[str, Any]] = []
        self.works: list[Work] = []  # handles of all collectives

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith('_'):
            raise AttributeError(name)
        has = 'all_reduce, broadcast, all_gather_object, barrier, get_rank and get_world_size'
        raise Lacks(f'here `dist` has only {has}, not {name}')

    def get_rank(self) -> int:
        return self.rank

    def get_world_size(self) -> int:
        return self.size

    def all_reduce(
        self,
        tensor: torch.Tensor,
        op: Any = ReduceOp.SUM,
        group: Any = None,
        async_op: bool = False,
    ) -> Work | None:
        """Write the sum of all ranks' tensors into ``tensor``, on every rank."""
        expect(op == ReduceOp.SUM, 'this check supports all_reduce only with the operation SUM')
        values = self._meet('all_reduce', tensor)
        total = sum(values[1:], values[0])
        return self._arrives('all_reduce', lambda: tensor.data.copy_(total), async_op)

    def broadcast(
        self, tensor: torch.Tensor, src: int = 0, group: Any = None, async_op: bool = False
    ) -> Work | None:
        """Copy the tensor of rank ``src`` into ``tensor``, on every rank."""
        value = self._meet('broadcast', tensor)[src]
        return self._arrives('broadcast', lambda: tensor.data.copy_(value), async_op)

    def all_gather_object(self, object_list: list[Any], obj: Any, group: Any = None) -> None:
        """Fill the list, on every rank, with the objects of all ranks."""
        object_list[:] = self._meet('all_gather_object', obj)

    def barrier(self, group: Any = None, async_op: bool = False) -> Work | None:
        """Wait for the others."""
        self._meet('barrier', None)
        return self._arrives('barrier', lambda: None, async_op)

    def _arrives(self, name: str, arrive: Callable[[], Any], async_op: bool) -> Work | None:
        """Deliver a result now, or with ``async_op`` when ``wait`` is called."""
        self.works.append(work := Work(name, arrive))
        if async_op:
            return work
        work.wait()
        return None

    def _meet(self, kind: str, value: Any) -> list[Any]:
        if kind in ('all_reduce', 'broadcast'):
            hint = f'{kind} takes a tensor, not {value!r:.60}'
            if value is None:
                hint += ': a `.grad` is None until a backward pass writes it, and after zero_grad()'
            expect(isinstance(value, torch.Tensor), hint)
            value = value.detach().clone()
        self.calls.append((kind, value))
        if len(self.calls) > len(self.past):
            raise Waits
        return self.past[len(self.calls) - 1]


def on_ranks(size: int, function: Callable[[Any], Any]) -> tuple[list[Any], list[Dist]]:
    """Call a function on each rank, passing it ``dist``; return the results and the ranks.

    The function is called several times, so it must create what it modifies. Ranks that call
    different collectives raise a hint; real processes would wait forever.
    """
    past: list[list[Any]] = []
    while True:
        ranks = [Dist(rank, past, size) for rank in range(size)]
        found = [until_it_waits(function, dist) for dist in ranks]
        waiting = [dist for dist in ranks if len(dist.calls) > len(past)]
        if not waiting:
            left = [
                (dist.rank, work.name) for dist in ranks for work in dist.works if not work.done
            ]
            for rank, name in left[:1]:
                hint = f'rank {rank} never calls `wait()` after {name}(..., async_op=True): '
                raise Hint(f'{hint}until then the result may not be there')
            return found, ranks
        come = [f'rank {d.rank}: {_shown(*d.calls[-1])}' for d in waiting]
        if len(waiting) < size:
            (away, *_) = (dist.rank for dist in ranks if dist not in waiting)
            raise WaitsForEver(
                f'{come[0]} waits forever, since rank {away} never calls it: a collective must be '
                'called on all ranks, even those with nothing to add'
            )
        hint = f'the ranks make different calls: {", ".join(come[:3])}; all must make the same '
        hint += 'calls in the same order, with tensors of the same shape'
        expect(len({_shown(*d.calls[-1]) for d in ranks}) == 1, hint)
        past.append([d.calls[-1][1] for d in ranks])


def until_it_waits(function: Callable[[Any], Any], dist: Any) -> Any:
    """Call a function on a rank; return None if the rank reaches a call that must wait."""
    try:
        return function(dist)
    except Waits:
        return None
    except (TypeError, AttributeError) as error:
        hint = f'{error}; `all_reduce(x)` returns nothing, the sum is in x, and a `.grad` is '
        hint += 'None until a backward pass writes it'
        expect('NoneType' not in str(error) or not dist.calls, hint)
        raise


def _shown(kind: str, value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return kind
    return f'{kind} of {str(value.dtype).removeprefix("torch.")} {tuple(value.shape)}'
