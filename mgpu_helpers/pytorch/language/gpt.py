"""A small GPT: chapter 7's blocks, with a causal mask."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor, nn

from ... import arguments
from ..model_parallel.vit import Attention, Block
from .text import EDGE, SYMBOLS, decode, encode

Attend: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]


def scores_of(q: Tensor, k: Tensor, causal: bool) -> Tensor:
    """Score queries (..., t, d) against keys (..., s, d); if causal, at the same positions."""
    scores = q @ k.mT / q.shape[-1] ** 0.5
    later = torch.ones_like(scores, dtype=torch.bool).triu(1)
    return scores.masked_fill(later, -math.inf) if causal else scores


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return, per token, a weighted mean of the values up to it. All tensors: (n, heads, t, d)."""
    return scores_of(q, k, causal=True).softmax(-1) @ v


class CausalAttention(Attention):
    """Chapter 7's attention; ``attend`` decides which tokens attend to which, and where."""

    def __init__(self, width: int, heads: int, attend: Attend) -> None:
        super().__init__(width, heads)
        self.attend = attend

    def forward(self, x: Tensor) -> Tensor:
        """Return the attention output of each token, (n, t, width)."""
        layers = self.q, self.k, self.v
        cut = (f(x).unflatten(-1, (-1, self.head_width)).transpose(1, 2) for f in layers)
        return self.out(self.attend(*cut).transpose(1, 2).flatten(2))


class GPT(nn.Module):
    """A GPT: maps tokens (n, t) to scores of all possible next tokens (n, t, SYMBOLS)."""

    def __init__(self, width: int, heads: int, depth: int, attend: Attend) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(SYMBOLS, width), nn.Embedding(384, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        for block in self.blocks:
            block.attention = CausalAttention(width, heads, attend)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, SYMBOLS))

    def forward(self, x: Tensor, places: Tensor | None = None) -> Tensor:
        """Compute the scores; ``places`` (t,) are the tokens' positions, from 0."""
        places = torch.arange(x.shape[1], device=x.device) if places is None else places
        return self.head(self.blocks(self.tokens(x) + self.places(places)))


def gpt(
    width: int = 64, heads: int = 4, depth: int = 2, attend: Attend = attend, dtype: str = 'float64'
) -> GPT:
    """Build a GPT for up to 384 tokens, with the same initial values in every process."""
    arguments.positive_int('heads', heads)
    arguments.divisible('width', width, heads, 'the number of heads')
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = GPT(width, heads, depth, attend)
    return net.to(getattr(torch, dtype))


@torch.no_grad()
def continue_text(net: nn.Module, begins: Sequence[str], length: int = 60) -> list[str]:
    """Complete these beginnings of sentences, always with the most likely token."""
    rows = [encode(begin)[:-1] for begin in begins]
    for row in rows:
        while len(row) <= length and row[-1] != EDGE:
            row.append(int(net(torch.tensor([row]))[0, -1].argmax()))
    return [decode(row) for row in rows]
