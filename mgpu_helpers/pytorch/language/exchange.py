"""An all-to-all with a backward pass."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class AllToAll(torch.autograd.Function):
    """Send ``gives[r]`` rows to rank r, receive ``takes[r]`` from it; by default, equal numbers."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gives: Any = None, takes: Any = None) -> Tensor:
        """Exchange the rows."""
        ctx.back = takes, gives
        rows = sum(takes) if takes else len(x)
        out = x.new_empty(rows, *x.shape[1:])
        dist.all_to_all_single(out, x.contiguous(), takes, gives)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        """Return each row's gradient to the rank that sent the row."""
        return AllToAll.apply(grad, *ctx.back), None, None
