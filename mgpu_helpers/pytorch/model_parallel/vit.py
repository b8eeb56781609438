"""Chapter 7's network: a small vision transformer that all of its techniques can split."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from ... import arguments


class Patches(nn.Module):
    """Cut images (n, 1, 28, 28) into 16 patches of 7 x 7, and embed them (n, 16, width)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embed = nn.Linear(49, width)
        self.place = nn.Parameter(0.02 * torch.randn(16, width))

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return self.embed(F.unfold(X, 7, stride=7).mT) + self.place


class Attention(nn.Module):
    """Multi-head self-attention: each of t patches attends to all t."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.head_width = width // heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Average the patches' values, weighted by each patch's query and all keys."""
        # With tensor parallelism, a rank has fewer heads here: (n, heads, t, d).
        q, k, v = (
            f(x).unflatten(-1, (-1, self.head_width)).transpose(1, 2)
            for f in (self.q, self.k, self.v)
        )
        weights = (q @ k.mT / self.head_width**0.5).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Add attention, then an MLP, to vectors (n, t, width), with a normalization before each."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        wide, narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.mlp = nn.Sequential(wide, nn.GELU(), narrow)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Logits(nn.Module):
    """Average over the patches, and compute ten logits (n, 10)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(self.norm(x).mean(1))


def vit(
    width: int = 96, heads: int = 4, depth: int = 4, seed: int = 0, dtype: str = 'float64'
) -> nn.Sequential:
    """Build a pre-norm vision transformer for Fashion-MNIST, by default with 454,858 values.

    Its layers form a list: ``net[0]`` cuts patches, ``net[1:-1]`` are blocks, ``net[-1]`` computes
    logits. The same seed gives the same values in any process.
    """
    arguments.positive_int('heads', heads)
    arguments.positive_int('depth', depth)
    arguments.divisible('width', width, heads, 'the number of heads')
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        blocks = (Block(width, heads) for _ in range(depth))
        net = nn.Sequential(Patches(width), *blocks, Logits(width))
    return net.to(getattr(torch, dtype))
