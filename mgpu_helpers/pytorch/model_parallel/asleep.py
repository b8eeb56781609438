"""Layers that sleep for a known time, so that timelines look the same on every machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage

from ...lanes import Span
from ..ranks import this_device


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
    """A layer for inputs (n, 8) that sleeps ``seconds`` in forward and in each half of backward.

    Each sleep is added to ``spans``, on ``lane``. Its name is the micro-batch's index, found by
    counting the spans so far, and ``mark``, which says which of the rank's layers this is.
    """

    def __init__(self, seconds: float, spans: list[Span], lane: str, mark: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(8))
        self.seconds, self.spans, self.lane, self.mark = seconds, spans, lane, mark

    def work(self, kind: str) -> None:
        same = [s.name.lstrip('0123456789') for s in self.spans if s.kind == kind]
        start = time.monotonic()
        time.sleep(self.seconds)
        name = f'{same.count(self.mark)}{self.mark}'
        self.spans.append(Span(self.lane, kind, name, start, time.monotonic()))

    def forward(self, x: Tensor) -> Tensor:
        if not x.requires_grad:
            x = x.detach().requires_grad_()  # the first layer computes this gradient, too
        x = _Pause.apply(x, bool, lambda: self.work('input gradient'))
        weight = _Pause.apply(self.weight, bool, lambda: self.work('weight gradient'))
        return _Pause.apply(x @ weight, lambda: self.work('forward'), bool)


def sleeping_stages(v: int, seconds: float) -> tuple[list[PipelineStage], list[Span]]:
    """Return this rank's v of 2v stages on two ranks, and the list to which they add their spans.

    A forward pass through all v, and each half of the backward pass, sleeps ``seconds``.
    """
    rank, device = dist.get_rank(), this_device()
    spans = []  # type: list[Span]
    layers = [Sleeper(seconds / v, spans, f'rank {rank}', mark=i * "'") for i in range(v)]
    places = [(layer.to(device), rank + 2 * i) for i, layer in enumerate(layers)]
    return [PipelineStage(layer, place, 2 * v, device) for layer, place in places], spans
