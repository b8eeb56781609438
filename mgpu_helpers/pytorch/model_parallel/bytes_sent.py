"""Count the bytes that a rank sends, at PyTorch's dispatcher, so no caller is missed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch.distributed import ProcessGroup
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# The bytes that a rank sends when it passes n bytes to a collective of k ranks (chapter 3). A
# broadcast goes from rank to rank, and the last one sends nothing: this is the average.
SENDS = {
    'allreduce': lambda n, k: 2 * (k - 1) * n // k,
    'reduce_scatter': lambda n, k: (k - 1) * n // k,
    'allgather': lambda n, k: (k - 1) * n,
    'broadcast': lambda n, k: (k - 1) * n // k,
    'alltoall': lambda n, k: (k - 1) * n // k,  # a k-th stays here, if all get the same number
    'send': lambda n, k: n,
}


class Traffic(TorchDispatchMode):
    """Count the bytes that this rank sends in a ``with`` block: ``sent``, by kind of collective.

    This includes forward and backward, our code and PyTorch's own engines, with the size of each
    collective's own group. ``total`` is the sum of all kinds; ``calls`` counts the calls.
    """

    def __init__(self) -> None:
        super().__init__()
        self.sent: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()

    @property
    def total(self) -> int:
        return sum(self.sent.values())

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        # A DTensor's call reappears as calls on its plain tensors.
        if any(hasattr(kind, '__tensor_flatten__') for kind in types):
            return NotImplemented
        room, _, name = function.name().partition('::')
        name = name.replace('all_to_', 'allto').replace('all_', 'all')
        kind = next((k for k in SENDS if name.startswith((k, f'_{k}'))), None)
        if kind and room in ('c10d', '_c10d_functional'):
            # In c10d's calls the output comes first, if it differs from the input.
            given = args[room == 'c10d' and kind in ('allgather', 'reduce_scatter', 'alltoall')]
            n, group = sum(t.nbytes for t in tree_leaves(given)), _group_of(args)
            rows = args[4 if room == 'c10d' else 2] if kind == 'alltoall' else ()
            if sum(rows):  # rows for each rank; those for this rank stay here
                self.sent[kind] += n * (sum(rows) - rows[group.rank()]) // sum(rows)
            else:
                self.sent[kind] += SENDS[kind](n, group.size())
            self.calls[kind] += 1
        return function(*args, **kwargs or {})


def _group_of(args: Any) -> ProcessGroup:
    """Find the process group in a call's arguments: an object or, at the end, its name."""
    for arg in args:
        if isinstance(arg, torch.ScriptObject):
            return ProcessGroup.unbox(arg)
    return torch._C._distributed_c10d._resolve_process_group(args[-1])
