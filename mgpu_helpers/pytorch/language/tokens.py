"""Sum token losses, and divide the sum once by the number of tokens on all ranks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from ... import arguments
from ..model_parallel.bytes_sent import Traffic
from ..model_parallel.sharding import flatten, views
from ..model_parallel.ten_steps import shard_of
from ..ranks import this_device
from .gpt import gpt
from .text import PAD, shifted


def token_loss(scores: Tensor, y: Tensor) -> Tensor:
    """Sum the cross-entropy of scores (n, t, symbols) over the tokens y (n, t), except PAD."""
    return F.cross_entropy(scores.flatten(0, 1), y.flatten(), ignore_index=PAD, reduction='sum')


def backward(net: nn.Module, x: Tensor, y: Tensor, micro_batches: int = 1, *more: Any) -> Tensor:
    """Backpropagate this rank's terms of the mean loss over all ranks' tokens; return the mean."""
    arguments.positive_int('micro_batches', micro_batches)
    count, total = (y != PAD).sum(), torch.zeros((), dtype=torch.float64, device=y.device)
    dist.all_reduce(count)
    arguments.expect(int(count) > 0, 'y', 'a token on some rank', 'only padding', ValueError)
    for part_x, part_y in zip(x.tensor_split(micro_batches), y.tensor_split(micro_batches)):
        loss = token_loss(net(part_x, *more), part_y) / count
        loss.backward()
        total += loss.detach()
    dist.all_reduce(total)
    return total


def sum_gradients(params: Iterable[nn.Parameter]) -> None:
    """Sum gradients over the ranks, with all of them in one vector."""
    params = list(params)
    whole = flatten([p.grad for p in params], 1)  # type: ignore[misc]
    dist.all_reduce(whole)
    for p, grad in zip(params, views(whole, params)):
        p.grad = grad


def train_gpt(sequences: Any, steps: int, batch_size: int = 24, lr: float = 1e-2) -> Any:
    """Train a GPT on this rank's shard of every batch; return it, on the CPU, and the losses."""
    net, shuffle = gpt(dtype='float32').to(this_device()), torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(net.parameters(), lr)
    schedule, losses = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, steps), []
    for _ in range(steps):
        batch = torch.randperm(len(sequences), generator=shuffle)[:batch_size]
        x, y = shifted([sequences[i] for i in shard_of(batch).tolist()], this_device())
        optimizer.zero_grad()
        losses.append(float(backward(net, x, y)))
        sum_gradients(net.parameters())
        optimizer.step()
        schedule.step()
    return net.cpu(), losses


class Found(NamedTuple):
    """One rank's result of a step: the loss, gradients by name, bytes sent by kind."""

    loss: float
    grads: dict[str, Any]
    sent: dict[str, int]

    def differs(self, one: Found) -> float:
        """Return the larger relative difference from one device, of the loss or the gradients."""
        a, b = (np.concatenate([t.grads[n].ravel() for n in self.grads]) for t in (self, one))
        far = np.linalg.norm(a - b) / np.linalg.norm(b)
        return max(float(far), abs(self.loss / one.loss - 1))


def found_by(net: Any, x: Tensor, y: Tensor, *how: Any, way: Any = backward) -> Found:
    """Run forward and backward by ``way``; sum all gradients except the experts' over the ranks."""
    with Traffic() as traffic:
        loss = way(net, x, y, *how)
    sum_gradients(p for name, p in net.named_parameters() if '.experts.' not in name)
    named = {name: p.grad for name, p in net.named_parameters() if p.grad is not None}
    grads = {name: grad.cpu().numpy() for name, grad in named.items()}
    return Found(float(loss), grads, dict(traffic.sent))


def worst(ranks: Iterable[Found], one: Found) -> float:
    """Return the largest difference of any rank from one device."""
    return max(found.differs(one) for found in ranks)
