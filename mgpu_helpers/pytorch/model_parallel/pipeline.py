"""Pipeline parallelism: each rank has some layers; micro-batches go through them one by one.

A schedule is the order of a stage's forward and backward passes. ``gpipe_order`` is from Huang and
others, *GPipe*, 2019, and ``one_f_one_b_order`` from Narayanan and others, *PipeDream*, 2019, with
a flush after every step, as in their *Megatron-LM*, 2021. Both give the same gradients, bit
for bit; they differ in the activations that a stage stores.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ... import arguments
from ...lanes import Span
from ..data_parallel.lenet import loss
from ..ranks import check_group, this_device

Pass: TypeAlias = tuple[str, int]  # 'forward' or 'backward', number of the micro-batch

TO = {'forward': 1, 'backward': -1}  # offset of the rank that needs a pass's result


def stage_of(net: nn.Sequential, stage: int, num_stages: int) -> nn.Sequential:
    """Cut a network into stages with similar numbers of parameters; return one stage.

    It shares its layers with ``net``. If the number of parameters does not reflect a layer's time,
    cut by hand: ``net[a:b]``.
    """
    arguments.expect(isinstance(net, nn.Sequential), 'net', 'an nn.Sequential, cut by layers', net)
    arguments.positive_int('num_stages', num_stages)
    arguments.whole_number('stage', stage, most=num_stages - 1)
    sizes = [sum(p.numel() for p in layer.parameters()) for layer in net]
    middles = [end - size / 2 for end, size in zip(itertools.accumulate(sizes), sizes)]
    home = [int(middle * num_stages / (sum(sizes) or 1)) for middle in middles]
    if set(home) != set(range(num_stages)):
        raise ValueError(
            f'{len(home)} layers cannot be cut into {num_stages} stages with a similar number of '
            'parameters: use fewer stages, or split it yourself with net[a:b]'
        )
    return net[home.index(stage) : home.index(stage) + home.count(stage)]  # type: ignore[return-value]


def gpipe_order(num_micro_batches: int, stage: int, num_stages: int) -> list[Pass]:
    """List a stage's passes in GPipe's schedule: all forward, then all backward."""
    return [(kind, i) for kind in ('forward', 'backward') for i in range(num_micro_batches)]


def one_f_one_b_order(num_micro_batches: int, stage: int, num_stages: int) -> list[Pass]:
    """List a stage's passes in 1F1B: after a warm-up, forward and backward alternate."""
    arguments.whole_number('stage', stage, most=num_stages - 1)
    ahead = num_stages - 1 - stage
    order = [('forward', i) for i in range(min(ahead, num_micro_batches))]  # warm-up
    for i in range(num_micro_batches):  # the last ones only have backward passes
        if ahead + i < num_micro_batches:
            order.append(('forward', ahead + i))
        order.append(('backward', i))
    return order


class Done(NamedTuple):
    """The result of a stage's work in one step."""

    losses: Tensor | None  # (n,), of all examples in their order; only on the last stage
    held: int  # the most micro-batches with stored activations at any time
    spans: list[Span]  # its computations, on this machine's clock; the rest is waiting


class StageState:
    """A stage's state during one step: its place, its micro-batches, and its saved tensors."""

    def __init__(
        self,
        layers: nn.Module,
        X: Tensor,
        y: Tensor,
        num_micro_batches: int,
        group: dist.ProcessGroup | None,
    ) -> None:
        self.layers, self.num_examples, self.group = layers, len(X), group
        self.rank, self.last = dist.get_rank(group), dist.get_world_size(group) - 1
        X, y = (a.detach().to(this_device()) for a in (X, y))
        self.Xs, self.ys = X.tensor_split(num_micro_batches), y.tensor_split(num_micro_batches)
        self.kept: dict[int, Any] = {}  # input and output of each micro-batch in progress
        self.losses: list[Tensor] = []  # of the finished micro-batches
        self.sent: list[Any] = []  # messages in flight
        self.like: Any = None  # shape and type of an example from the previous stage

    def loss_term(self, out: Tensor, i: int) -> Tensor:
        """Keep micro-batch i's losses; return its term of the batch's mean loss."""
        self.losses.append(loss(out, self.ys[i]))
        return self.losses[-1].sum() / self.num_examples


class Stage(StageState):
    """One rank's layers during one step, with their forward and backward passes."""

    def forward(self, i: int, x: Tensor | None) -> Tensor | None:
        """Compute micro-batch i; return the next stage's input, or None on the last stage."""
        x = self.Xs[i] if x is None else x.requires_grad_()
        out = self.layers(x)
        arguments.array('the output of a stage', out)
        if self.rank == self.last:
            out = self.loss_term(out, i)
        self.kept[i] = x, out
        return None if self.rank == self.last else out.detach()

    def backward(self, i: int, grad: Tensor | None) -> Tensor | None:
        """Backpropagate micro-batch i; return its input's gradient, or None on the first stage."""
        x, out = self.kept.pop(i)
        if out.requires_grad:  # false if all layers up to here are frozen
            out.backward(grad)
        return x.grad


def room_for(stage: Stage, kind: str, i: int) -> Tensor | None:
    """Allocate a tensor to receive a pass's input; return None if the pass receives nothing."""
    if stage.rank == (0 if kind == 'forward' else stage.last):
        return None
    if kind == 'backward':
        out = stage.kept[i][1]
        return out.new_empty(out.shape)  # a gradient has the shape of the output
    if stage.like is None:  # before the first forward pass: trade sends this
        received: list[Any] = [None]
        dist.recv_object_list(received, group=stage.group, group_src=stage.rank - 1)
        stage.like = received[0]
    shape, dtype = stage.like
    return torch.empty(len(stage.Xs[i]), *shape, dtype=dtype, device=this_device())


def trade(stage: Stage, done: Pass, out: Tensor | None, following: Pass | None) -> Tensor | None:
    """Send a pass's result, and wait for the input of the following pass, or for all sends.

    Both go in one batch of messages: in 1F1B, a stage sends an activation on while the next one
    sends a gradient back. If each sent before receiving, both might wait for ever.
    """
    ops = []
    if out is not None:
        if done == ('forward', 0):  # the size of an example, once per step
            like = [(out.shape[1:], out.dtype)]
            dist.send_object_list(like, group=stage.group, group_dst=stage.rank + 1)
        peer = stage.rank + TO[done[0]]
        ops.append(dist.P2POp(dist.isend, out.contiguous(), group=stage.group, group_peer=peer))
    message = room_for(stage, *following) if following else None
    if message is not None:
        peer = stage.rank - TO[following[0]]  # type: ignore[index]
        ops.append(dist.P2POp(dist.irecv, message, group=stage.group, group_peer=peer))
    works = dist.batch_isend_irecv(ops) if ops else []
    if message is not None:
        works.pop().wait()  # the receive is the last one
    stage.sent += works
    if following is None:
        for work in stage.sent:
            work.wait()
    return message


def run_stage(
    order_of: Callable[[int, int, int], list[Pass]],
    layers: nn.Module,
    X: Tensor,
    y: Tensor,
    num_micro_batches: int,
    group: dist.ProcessGroup | None = None,
) -> Done:
    """Run one stage's passes of a step, in the order that ``order_of`` returns.

    Each rank of the group calls it with its own stage, rank 0 with the first. All pass the same
    batch, ``X`` (n, ...) and ``y`` (n,), which is cut into micro-batches as evenly as possible. The
    gradient of the mean loss over the batch is added to each ``.grad``, for an optimizer's step.
    """
    check_step(layers, X, y, num_micro_batches, group)
    stage = Stage(layers, X, y, num_micro_batches, group)
    order = order_of(num_micro_batches, stage.rank, stage.last + 1)
    held, spans, message = 0, [], trade(stage, ('', 0), None, order[0])
    for (kind, i), following in zip(order, [*order[1:], None]):
        start = time.monotonic()
        out = stage.forward(i, message) if kind == 'forward' else stage.backward(i, message)
        spans.append(Span(f'stage {stage.rank}', kind, str(i), start, time.monotonic()))
        held = max(held, len(stage.kept))
        message = trade(stage, (kind, i), out, following)
    losses = torch.cat(stage.losses).detach() if stage.losses else None
    return Done(losses, held, spans)


def check_step(
    layers: object, X: Tensor, y: Tensor, m: int, group: dist.ProcessGroup | None
) -> None:
    """Raise unless this group can run a step with m micro-batches."""
    check_group()
    arguments.function('layers', layers, 'of activations, such as stage_of(net, rank, num_stages)')
    arguments.same_length(X, y)
    arguments.positive_int('num_micro_batches', m)
    stages = dist.get_world_size(group)
    busy = f'from {stages}, the number of stages, so that no stage is idle,'
    wanted = f'{busy} to {len(X)}, the number of examples'
    arguments.expect(stages <= m <= len(X), 'num_micro_batches', wanted, m, ValueError)
