"""Ranks in one process, for functions that get ``dist`` as an argument: no process is started.

A function runs for rank 0 until it would wait for the others, then for rank 1, and so on; once all
have come to a collective, each is run again from its beginning, and finds there what came of it.
"""

from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch.distributed import ReduceOp

from mgpu_helpers import pytorch

from .checking import Hint, Lacks, WaitsForEver, expect, there

launch = there(pytorch.launch)


class Waits(BaseException):
    """A rank has come to a collective before the others. No Exception: no answer passes it over."""


class Work:
    """What a collective gives with ``async_op=True``: its result is there after ``wait()``."""

    def __init__(self, name: str, arrive: Callable[[], Any]) -> None:
        self.name, self.arrive, self.done = name, arrive, False

    def wait(self, timeout: Any = None) -> bool:
        """Let the result arrive, once."""
        if not self.done:
            self.arrive()
        self.done = True
        return True


class Dist:
    """What one rank sees of ``torch.distributed``; ``calls`` is what it has called."""

    ReduceOp = ReduceOp

    def __init__(self, rank: int, past: list[list[Any]], size: int) -> None:
        self.rank, self.past, self.size = rank, past, size
        self.calls: list[tuple[str, Any]] = []
        self.works: list[Work] = []  # begun with async_op

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith('_'):
            raise AttributeError(name)
        has = 'all_reduce, broadcast, all_gather_object, barrier, get_rank and get_world_size'
        raise Lacks(f'here `dist` has {has}, and not {name}')

    def get_rank(self) -> int:
        """Give this rank's number."""
        return self.rank

    def get_world_size(self) -> int:
        """Tell how many ranks there are."""
        return self.size

    def all_reduce(
        self,
        tensor: torch.Tensor,
        op: Any = ReduceOp.SUM,
        group: Any = None,
        async_op: bool = False,
    ) -> Work | None:
        """Leave in ``tensor``, on every rank, the sum of all ranks' tensors."""
        expect(op == ReduceOp.SUM, 'of the operations of all_reduce, this check only supports SUM')
        values = self._meet('all_reduce', tensor)
        total = sum(values[1:], values[0])
        return self._arrives('all_reduce', lambda: tensor.data.copy_(total), async_op)

    def broadcast(
        self, tensor: torch.Tensor, src: int = 0, group: Any = None, async_op: bool = False
    ) -> Work | None:
        """Leave in ``tensor``, on every rank, what rank ``src`` has there."""
        value = self._meet('broadcast', tensor)[src]
        return self._arrives('broadcast', lambda: tensor.data.copy_(value), async_op)

    def all_gather_object(self, object_list: list[Any], obj: Any, group: Any = None) -> None:
        """Leave in the list, on every rank, the objects of all of them."""
        object_list[:] = self._meet('all_gather_object', obj)

    def barrier(self, group: Any = None, async_op: bool = False) -> Work | None:
        """Wait for the others."""
        self._meet('barrier', None)
        return self._arrives('barrier', lambda: None, async_op)

    def _arrives(self, name: str, arrive: Callable[[], Any], async_op: bool) -> Work | None:
        """Let a result arrive now, or when it is waited for."""
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
    """Call a function with ``dist`` on each rank; return the results and the ranks.

    It is called several times, so it makes what it changes anew. Ranks that do not meet in the same
    collectives get a hint, where processes would wait for ever.
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
                hint = f'rank {rank} never calls `wait()` on what {name}(..., async_op=True) gave: '
                raise Hint(f'{hint}until then the result may not be there')
            return found, ranks
        come = [f'rank {d.rank}: {_shown(*d.calls[-1])}' for d in waiting]
        if len(waiting) < size:
            (away, *_) = (dist.rank for dist in ranks if dist not in waiting)
            raise WaitsForEver(
                f'{come[0]} waits for ever, since rank {away} never calls it: a collective is '
                'called on all ranks, even those with nothing to add'
            )
        hint = f'the ranks call different things: {", ".join(come[:3])}; all need them in the same '
        hint += 'order, with tensors of the same shape'
        expect(len({_shown(*d.calls[-1]) for d in ranks}) == 1, hint)
        past.append([d.calls[-1][1] for d in ranks])


def until_it_waits(function: Callable[[Any], Any], dist: Any) -> Any:
    """Call a function on a rank; give nothing where the rank has come to a call that waits."""
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
