"""Experts, of which each token uses one (Fedus and others, *Switch Transformers*, 2022)."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ... import checks
from ..model_parallel.vit import Block
from .exchange import AllToAll
from .gpt import GPT, gpt


class Router(nn.Module):
    """Choose an expert for each token, by the highest probability, with which it then counts."""

    def __init__(self, width: int, experts: int) -> None:
        super().__init__()
        self.scores = nn.Linear(width, experts, bias=False)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Give for tokens (n, width) the chosen probabilities (n,) and experts (n,)."""
        probs = self.scores(tokens).softmax(-1)
        weight, choice = probs.max(-1)
        self.last = probs, choice
        return weight, choice


class AllExperts(nn.Module):
    """All experts on one device."""

    def __init__(self, router: Router, experts: nn.ModuleDict) -> None:
        super().__init__()
        self.router, self.experts = router, experts

    def forward(self, x: Tensor) -> Tensor:
        """Give each of the tokens (..., width) to its expert."""
        tokens = x.flatten(0, -2)
        weight, choice = self.router(tokens)
        out = torch.zeros_like(tokens)
        for name, expert in self.experts.items():
            here = choice == int(name)
            out[here] = expert(tokens[here])
        return (weight[:, None] * out).view_as(x)


def there_and_back(expert: nn.Module, tokens: Tensor, choice: Tensor) -> Tensor:
    """Send tokens (n, width) to the experts on the ranks of ``choice``; give what these answer."""
    order = choice.argsort(stable=True)
    gives = choice.bincount(minlength=dist.get_world_size())
    takes = torch.empty_like(gives)
    dist.all_to_all_single(takes, gives)
    rows = gives.tolist(), takes.tolist()
    visitors = AllToAll.apply(tokens[order], *rows)
    back = AllToAll.apply(expert(visitors), *rows[::-1])
    return torch.empty_like(tokens).index_copy(0, order, back)


class Experts(AllExperts):
    """One expert on each rank: it keeps its own of all, and tokens travel."""

    def __init__(self, router: Router, experts: nn.ModuleDict) -> None:
        own = str(dist.get_rank())
        super().__init__(router, nn.ModuleDict({own: experts[own]}))

    def forward(self, x: Tensor) -> Tensor:
        """Give each of the tokens (..., width) to its expert."""
        tokens = x.flatten(0, -2)
        weight, choice = self.router(tokens)
        (expert,) = self.experts.values()
        out = there_and_back(expert, tokens, choice)
        return (weight[:, None] * out).view_as(x)


def moe(layer: type[AllExperts], experts: int = 4, router: Any = Router, **options: Any) -> GPT:
    """Build a GPT with ``Experts`` or ``AllExperts`` for MLPs; the same values in any process."""
    checks.positive_int('experts', experts)
    if layer is not AllExperts:
        size = dist.get_world_size()
        checks.expect(size == experts, 'experts', f'{size}, one a rank', experts, ValueError)
    net = gpt(**options)
    width, like = net.tokens.embedding_dim, net.tokens.weight
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        for block in net.blocks:
            mlps = {str(e): Block(width, 1).mlp for e in range(experts)}
            block.mlp = layer(router(width, experts), nn.ModuleDict(mlps)).to(like)
    return net


def balance(probs: Tensor, choice: Tensor) -> Tensor:
    """Give this rank's term of the auxiliary loss, from shares and probabilities of all ranks."""
    load = choice.bincount(minlength=probs.shape[1]).to(probs)
    dist.all_reduce(load)
    return len(load) * (load / load.sum() ** 2 @ probs.sum(0))
