"""Chapter 7: fully sharded data parallelism for any module, on one page.

What PyTorch's ``fully_shard`` does, without its prefetching: each layer's parameters lie in shares,
one a rank, and are whole only while the layer computes.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from ... import checks
from ..data_parallel.ddp import check_network
from ..ranks import check_group
from .sharded_layer import Unit, cast
from .shares import all_gather, lots, views

LISTS = nn.Sequential | nn.ModuleList | nn.ModuleDict


def layers(module: nn.Module) -> Iterator[nn.Module]:
    """Yield the modules that are gathered one at a time: those in lists, and what has no list."""
    for child in module.children():
        never_called = type(child).forward is nn.Module.forward  # a ModuleList, for example
        has_lists = any(isinstance(part, LISTS) for part in child.modules())
        if never_called or has_lists and not isinstance(module, LISTS):
            yield from layers(child)
        else:
            yield child


class OwnFSDP(nn.Module):
    """Any module; its parameters, gradients and optimizer state sharded over the ranks (ZeRO 3).

    ``parameters()`` are this rank's shards, flat and perhaps empty, for an optimizer that treats
    each value by itself. Layers compute in ``compute_dtype``, batch normalization as it was; shards
    and results stay as they were. Gradients are means over the ranks, and add up until they are
    cleared. All ranks must call the same layers, as modules; they begin with rank 0's values.
    """

    def __init__(self, module: nn.Module, compute_dtype: torch.dtype | None = None) -> None:
        check_group()
        check_module(module, compute_dtype)
        super().__init__()
        self.module, self.compute_dtype = module, compute_dtype
        self.dtype = next(module.parameters()).dtype
        self.open = self.waiting = False
        own = list(dict.fromkeys(layers(module)))
        layers_of: dict[nn.Module, set[nn.Module]] = {}
        for layer in own:
            for part in layer.modules():
                layers_of.setdefault(part, set()).add(layer)
        places: dict[Any, list[tuple[nn.Module, str]]] = {}
        owners: dict[Any, set[nn.Module]] = {}
        for part in module.modules():
            for name, p in part._parameters.items():
                if p is not None:
                    places.setdefault(p, []).append((part, name))
                    owners.setdefault(p, set()).update(layers_of.get(part, {module}))
        # What several layers have, or none, is gathered for the length of the whole module.
        for p, found in owners.items():
            owners[p] = found if len(found) == 1 else {module}
        # Batch normalizations' running statistics need full precision.
        norms = [m for m in module.modules() if getattr(m, 'running_mean', None) is not None]
        precise = {p for norm in norms for p in norm.parameters()}
        self.units = [
            Unit(layer, {p: places[p] for p in lot}, dtype, self)
            for layer in (*own, module)
            for dtype, those in ((compute_dtype, owners.keys() - precise), (None, precise))
            for lot in lots([p for p in owners if p in those and owners[p] == {layer}], math.inf)
        ]
        module.wrapped = True  # type: ignore[assignment]  # our own mark
        module.register_state_dict_pre_hook(self._check_open)
        module.register_load_state_dict_pre_hook(self._check_open)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the module, in ``compute_dtype``."""
        if torch._C._current_graph_task_id() == -1:  # not computed again inside of a backward pass
            self.waiting = False
            for unit in self.units:
                unit.reset()
        dtype = None if self.open else self.compute_dtype
        args, kwargs = cast((args, kwargs), dtype)
        try:
            result = self.module(*args, **kwargs)
        except RuntimeError as error:
            error.add_note('OwnFSDP: only a layer that is called, layer(x), has whole parameters')
            raise
        return cast(result, dtype and self.dtype)

    @contextlib.contextmanager
    def full_parameters(self) -> Iterator[dict[str, nn.Parameter]]:
        """Hold the whole parameters in a ``with`` block, by name; what is written there stays.

        All ranks must call it, and write the same. ``module`` can be used, saved or loaded.
        """
        if self.open:
            yield dict(self.module.named_parameters())
            return
        wholes = [all_gather(unit.share) for unit in self.units]
        for unit, whole in zip(self.units, wholes):
            unit.put([nn.Parameter(v, requires_grad=False) for v in views(whole, unit.full)])
        self.open = True
        try:
            yield dict(self.module.named_parameters())
        finally:
            self.open = False
            for unit, whole in zip(self.units, wholes):
                unit.share.copy_(whole.chunk(dist.get_world_size())[dist.get_rank()])
                unit.put(unit.shards)

    def clip_grad_norm_(self, max_norm: float) -> torch.Tensor:
        """Scale the gradients to this norm over all ranks, if it is larger; give what it was.

        ``torch.nn.utils`` would take each rank's shards for the whole.
        """
        grads = [shard.grad for shard in self.parameters() if shard.grad is not None]
        square = torch.zeros((), dtype=self.dtype, device=self.units[0].share.device)
        square += nn.utils.get_total_norm(grads) ** 2
        dist.all_reduce(square)
        nn.utils.clip_grads_with_norm_(self.parameters(), max_norm, square.sqrt())
        return square.sqrt()

    def call_at_the_end(self) -> None:
        """Finish, at the end of this backward pass, layers of which something had no gradient."""
        if not self.waiting:
            self.waiting = True
            torch.autograd.Variable._execution_engine.queue_callback(self._finish)

    def _finish(self) -> None:
        self.waiting = False
        for unit in self.units:
            if unit.backward:
                unit.finish()

    def _check_open(self, *_: object) -> None:
        if not self.open:
            raise RuntimeError(
                'these parameters lie in shares: save and load net.module.state_dict() in '
                '`with net.full_parameters():`, on all ranks'
            )

    def _apply(self, fn: Any, recurse: bool = True) -> OwnFSDP:
        raise RuntimeError('this module lies in shares: move or convert it before OwnFSDP(module)')

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError('a share cannot be copied: build another network and load the state_dict()')


def check_module(module: Any, compute_dtype: Any) -> None:
    """Raise unless a module can be sharded, and compute in this type."""
    check_network(module)
    if next(module.parameters(), None) is None:
        raise ValueError(f'{checks.shown(module)} has no parameters, so there is nothing to shard')
    dtypes = None, torch.bfloat16, torch.float16, torch.float32
    if compute_dtype not in dtypes:
        one = ', '.join(map(str, dtypes))
        raise ValueError(f'compute_dtype must be one of {one}, not {checks.shown(compute_dtype)}')
