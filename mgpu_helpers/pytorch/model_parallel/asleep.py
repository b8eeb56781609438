"""Layers and links that take a known time: they sleep, so pictures of them are right anywhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

from ...lanes import Span


class _Pause(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, ahead: Callable[[], Any], back: Callable[[], Any]) -> Tensor:
        ctx.back = back
        ahead()
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:  # type: ignore[override]
        ctx.back()
        return grad, None, None


class Sleeper(nn.Module):
    """A layer for (n, 8) that sleeps ``seconds`` forward, and back for its input and its weights.

    When it did is added to ``spans``, on a lane, with this name, or else with the number of the
    micro-batch, counted from 0 in an empty list, and ``mark``, which tells a rank's layers apart.
    """

    def __init__(
        self, seconds: float, spans: list[Span], lane: str, name: str = '', mark: str = ''
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(8))
        self.seconds, self.spans, self.lane, self.name, self.mark = seconds, spans, lane, name, mark

    def work(self, kind: str) -> None:
        same = [s.name.lstrip('0123456789') for s in self.spans if s.kind == kind]
        start = time.monotonic()
        time.sleep(self.seconds)
        name = self.name or f'{same.count(self.mark)}{self.mark}'
        self.spans.append(Span(self.lane, kind, name, start, time.monotonic()))

    def forward(self, x: Tensor) -> Tensor:
        if not x.requires_grad:
            x = x.detach().requires_grad_()  # the first layer, too, goes back to its input
        x = _Pause.apply(x, bool, lambda: self.work('input gradient'))
        weight = _Pause.apply(self.weight, bool, lambda: self.work('weight gradient'))
        return _Pause.apply(x @ weight, lambda: self.work('forward'), bool)


class _Arrival(dist.Work):
    def __init__(self, work: Any, at: float) -> None:
        super().__init__()
        self.work, self.at = work, at

    def wait(self, timeout: Any = None) -> bool:
        self.work.wait()
        time.sleep(max(0, self.at - time.monotonic()))
        return True


class _SlowCollective:
    def __init__(self, carry: Callable[[str, Any], _Arrival], ahead: bool) -> None:
        self.carry, self.ahead = carry, ahead

    def allocate(self, size: Any, **how: Any) -> Tensor:
        return torch.empty(*size, **how)

    def __call__(self, output_tensor: Tensor, input_tensor: Tensor, **how: Any) -> Any:
        kind, call = 'all-gather', dist.all_gather_single
        if 'op' in how:
            kind, call = 'reduce-scatter', dist.reduce_scatter_single
        arrival = self.carry(kind, call(output_tensor, input_tensor, **how | {'async_op': True}))
        return arrival if self.ahead and kind == 'all-gather' else not arrival.wait()


def slow_link(layers: Iterable[Any], seconds: float, ahead: bool, spans: list[Span]) -> None:
    """Let collectives of ``fully_shard``'s layers take ``seconds``, one after the other.

    With ``ahead`` a layer waits for its gather when it begins, not where that was asked for: what
    a stream of its own does on a GPU. Reduce-scatters are waited for at once.
    """
    free = 0.0  # when the link has carried all

    def carry(name: str, kind: str, work: Any) -> _Arrival:
        nonlocal free
        start = max(free, time.monotonic())
        free = start + seconds
        spans.append(Span('link', kind, name, start, free))
        return _Arrival(work, free)

    for i, layer in enumerate(layers):
        slow = _SlowCollective(partial(carry, str(i)), ahead)
        layer.set_custom_all_gather(slow)
        layer.set_custom_reduce_scatter(slow)


def late_stager() -> DefaultStager:
    """Make what copies for ``async_save`` in a thread of its own, beginning 0.2 seconds late."""
    stager = DefaultStager(StagingOptions(False, False, True, False))
    stager._staging_executor.submit(time.sleep, 0.2)  # type: ignore[union-attr]
    return stager
