"""A mixture of experts; each token goes to one (Fedus and others, *Switch Transformers*, 2022)."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ... import arguments
from ..model_parallel.vit import Block
from .exchange import AllToAll
from .gpt import GPT, gpt


class Router(nn.Module):
    """Choose each token's most probable expert; the output is weighted by that probability."""

    def __init__(self, width: int, experts: int) -> None:
        super().__init__()
        self.scores = nn.Linear(width, experts, bias=False)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return the chosen probabilities (n,) and experts (n,) for tokens (n, width)."""
        probs = self.scores(tokens).softmax(-1)
        weight, choice = probs.max(-1)
        self.last = probs, choice
        return weight, choice


class AllExperts(nn.Module):
    """A layer of experts, all on one device."""

    def __init__(self, router: Router, experts: nn.ModuleDict) -> None:
        super().__init__()
        self.router, self.experts = router, experts

    def forward(self, x: Tensor) -> Tensor:
        """Run each token (..., width) through its expert, and multiply by the router's weight."""
        weight, choice = self.router(x.flatten(0, -2))
        return (weight[:, None] * self.apply_experts(x.flatten(0, -2), choice)).view_as(x)

    def apply_experts(self, tokens: Tensor, choice: Tensor) -> Tensor:
        """Return the chosen experts' outputs for tokens (n, width)."""
        out = torch.zeros_like(tokens)
        for name, expert in self.experts.items():
            out[choice == int(name)] = expert(tokens[choice == int(name)])
        return out


class Experts(AllExperts):
    """A layer of experts, one on each rank: tokens travel to their expert and back."""

    one_a_rank = True

    def apply_experts(self, tokens: Tensor, choice: Tensor) -> Tensor:
        """Return the chosen experts' outputs for tokens (n, width), whichever ranks hold them."""
        expert = self.experts[str(dist.get_rank())]
        order = choice.argsort(stable=True)  # sorted, so that each expert's tokens form one block
        gives = choice.bincount(minlength=dist.get_world_size())
        takes = torch.empty_like(gives)
        dist.all_to_all_single(takes, gives)  # the number of rows from each rank
        away, here = gives.tolist(), takes.tolist()
        visitors = AllToAll.apply(tokens[order], away, here)
        back = AllToAll.apply(expert(visitors), here, away)
        return torch.empty_like(tokens).index_copy(0, order, back)  # in the original order


def moe(layer: type[AllExperts], experts: int = 4, router: Any = Router, **options: Any) -> GPT:
    """Build a GPT whose MLPs are ``Experts`` or ``AllExperts``, with the same values everywhere."""
    arguments.positive_int('experts', experts)
    held = range(experts)
    if getattr(layer, 'one_a_rank', False):
        size = dist.get_world_size()
        arguments.expect(size == experts, 'experts', f'{size}, one per rank', experts, ValueError)
        held = range(dist.get_rank(), dist.get_rank() + 1)
    net = gpt(**options)
    width, like = net.tokens.embedding_dim, net.tokens.weight
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        for block in net.blocks:
            mlps = [Block(width, 1).mlp for _ in range(experts)]
            own = nn.ModuleDict({str(e): mlps[e] for e in held})
            block.mlp = layer(router(width, experts), own).to(like)
    return net
