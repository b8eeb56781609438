"""Split one long sequence over ranks: *Ring Attention* (Liu, 2023), *Ulysses* (Jacobs, 2023)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch
import torch.distributed as dist
from torch import Tensor

from ..ranks import check_group, this_device
from .exchange import AllToAll
from .gpt import Attend, attend, gpt, scores_of
from .tokens import Found, found_by

State: TypeAlias = tuple[Tensor, Tensor, Tensor]
Pieces: TypeAlias = Sequence[Sequence[int]]


def contiguous(size: int) -> list[list[int]]:
    """Assign each rank one piece of the sequence, in order."""
    return [[rank] for rank in range(size)]


def zigzag(size: int) -> list[list[int]]:
    """Assign each of k ranks two of 2k pieces, one from the front and one from the back."""
    return [[rank, 2 * size - 1 - rank] for rank in range(size)]


def pairs(mine: Sequence[int], theirs: Sequence[int]) -> list[tuple[int, int, bool]]:
    """List (i, j, causal) where my piece i attends to their piece j, with a causal mask or not."""
    found = [(i, j) for i in range(len(mine)) for j in range(len(theirs))]
    return [(i, j, theirs[j] == mine[i]) for i, j in found if theirs[j] <= mine[i]]


def my_part(whole: Tensor, pieces: Pieces) -> Tensor:
    """Return this rank's pieces of whole sequences (..., t), concatenated."""
    check_group()
    check_length(whole.shape[-1], sum(map(len, pieces)))
    parts = whole.chunk(sum(map(len, pieces)), dim=-1)
    return torch.cat([parts[piece] for piece in pieces[dist.get_rank()]], dim=-1)


def check_length(length: int, number: int) -> None:
    """Raise unless a sequence can be cut into this many equal pieces."""
    if length < 1 or length % number:
        raise ValueError(
            f'{length} tokens cannot be cut into {number} equal pieces: pad the sequence with PAD '
            f'to {max(1, -(-length // number)) * number}; padding at the end is never attended to'
        )


def pass_on(*tensors: Tensor) -> Callable[[], list[Tensor]]:
    """Start sending tensors to the next rank; return a function that waits for those arriving."""
    rank, size = dist.get_rank(), dist.get_world_size()
    tensors = tuple(t.contiguous() for t in tensors)
    received = [torch.empty_like(t) for t in tensors]
    sends = [dist.P2POp(dist.isend, t, (rank + 1) % size) for t in tensors]
    takes = [dist.P2POp(dist.irecv, t, (rank - 1) % size) for t in received]
    works = dist.batch_isend_irecv(sends + takes)

    def arrived() -> list[Tensor]:
        for work in works:
            work.wait()
        return received

    return arrived


def nothing_yet(q: Tensor) -> State:
    """Return the initial running softmax of queries (..., t, d): weighted sum, sum, maximum."""
    first = q[..., :1]
    return torch.zeros_like(q), torch.zeros_like(first), torch.full_like(first, -math.inf)


def add_block(state: State, q: Tensor, k: Tensor, v: Tensor, causal: bool) -> State:
    """Add a block of keys and values to a running softmax; return the new one."""
    u, s, m = state
    scores = scores_of(q, k, causal)
    higher = torch.maximum(m, scores.amax(-1, keepdim=True))
    weights, shrink = (scores - higher).exp(), (m - higher).exp()
    return u * shrink + weights @ v, s * shrink + weights.sum(-1, keepdim=True), higher


def ring_forward(q: Tensor, k: Tensor, v: Tensor, pieces: Pieces) -> tuple[Tensor, Tensor]:
    """Return attention's output (n, heads, t, d) and each query's log-sum-exp."""
    rank, size = dist.get_rank(), dist.get_world_size()
    cut = partial(torch.chunk, chunks=len(pieces[rank]), dim=2)
    states = [nothing_yet(part) for part in cut(q)]
    for turn in range(size):
        arrived = pass_on(k, v) if turn < size - 1 else None
        for i, j, same in pairs(pieces[rank], pieces[(rank - turn) % size]):
            states[i] = add_block(states[i], cut(q)[i], cut(k)[j], cut(v)[j], same)
        k, v = arrived() if arrived else (k, v)
    u, s, m = (torch.cat(parts, dim=2) for parts in zip(*states))
    return u / s, m + s.log()


def block_backward(mine: Sequence[Tensor], theirs: Sequence[Tensor], causal: bool) -> None:
    """Add one block's gradients to dq, dk and dv; its attention weights are recomputed."""
    (q, out, log_sum, grad, dq), (k, v, dk, dv) = mine, theirs
    weights = (scores_of(q, k, causal) - log_sum).exp()
    by_score = weights * (grad @ v.mT - (grad * out).sum(-1, keepdim=True)) / q.shape[-1] ** 0.5
    dq += by_score @ k
    dk += by_score.mT @ q
    dv += weights.mT @ grad


def ring_backward(
    grad: Tensor, pieces: Pieces, q: Tensor, k: Tensor, v: Tensor, out: Tensor, log_sum: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of q, k and v; those of k and v travel back to their own rank."""
    rank, size = dist.get_rank(), dist.get_world_size()
    cut = partial(torch.chunk, chunks=len(pieces[rank]), dim=2)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    mine = [*zip(*map(cut, (q, out, log_sum, grad, dq)))]
    for turn in range(size):
        arrived = pass_on(k, v) if turn < size - 1 else None
        for i, j, same in pairs(pieces[rank], pieces[(rank - turn) % size]):
            theirs = [cut(t)[j] for t in (k, v, dk, dv)]
            block_backward(mine[i], theirs, same)
        k, v = arrived() if arrived else (k, v)
        dk, dv = pass_on(dk, dv)() if size > 1 else (dk, dv)
    return dq, dk, dv


class RingAttention(torch.autograd.Function):
    """Causal attention over the tokens of all ranks: keys and values circulate in both passes."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, pieces: Pieces) -> Tensor:
        """Compute this rank's output; save only this rank's tensors."""
        out, log_sum = ring_forward(q, k, v, pieces)
        ctx.save_for_backward(q, k, v, out, log_sum)
        ctx.pieces = pieces
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        """Return the gradients; keys and values circulate again, along with their gradients."""
        return *ring_backward(grad, ctx.pieces, *ctx.saved_tensors), None


def ring(pieces: Pieces) -> Attend:
    """Return an attention function for a GPT: ring attention over these pieces of a sequence."""
    return lambda q, k, v: RingAttention.apply(q, k, v, pieces)


def to_heads(x: Tensor) -> Tensor:
    """Exchange all heads of some tokens (n, h, t/N, d) for some heads of all (n, h/N, t, d)."""
    size = dist.get_world_size()
    check_heads(x.shape[1], size)
    rows = torch.stack(x.chunk(size, dim=1))
    return torch.cat(AllToAll.apply(rows).unbind(), dim=2)


def to_tokens(x: Tensor) -> Tensor:
    """Exchange some heads of all tokens (n, h/N, t, d) for all heads of some (n, h, t/N, d)."""
    rows = torch.stack(x.chunk(dist.get_world_size(), dim=2))
    return torch.cat(AllToAll.apply(rows).unbind(), dim=1)


def ulysses(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Compute attention over all tokens, each rank for some heads; all-to-all before and after."""
    q, k, v = to_heads(torch.cat([q, k, v])).chunk(3)
    return to_tokens(attend(q, k, v))


def check_heads(heads: int, size: int) -> None:
    """Raise unless the number of ranks divides the number of heads."""
    if heads % size:
        few = ' or '.join(str(k) for k in range(2, min(heads, size) + 1) if heads % k == 0)
        raise ValueError(f'cannot split {heads} heads over {size} ranks: use {few or 1}, or a ring')


def by_context(x: Tensor, y: Tensor, *ways: tuple[Attend, Pieces], **sizes: int) -> list[Found]:
    """Run a GPT on this rank's tokens with each attention function; return the results."""
    found, here, wholes = [], this_device(), (x, y, torch.arange(x.shape[1]))
    for way, pieces in ways:
        own_x, own_y, places = (my_part(whole, pieces).to(here) for whole in wholes)
        net = gpt(attend=way, **sizes).to(here)  # type: ignore[arg-type]
        found.append(found_by(net, own_x, own_y, 1, places))
    return found
