"""PyTorch's compiler, which waits outside until somebody compiles."""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

NAME = 'torch._dynamo'  # traces Python for torch.compile


class Later(types.ModuleType):
    """Stands in for a module, and gives way to it when it is asked for what it has not."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith('__') and name != '__path__':
            raise AttributeError(name)  # whoever looks through all modules asks for __file__
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


def postpone_compiler() -> None:
    """Let training without ``torch.compile`` go on without importing it.

    Only to be left alone by the compiler, ``Optimizer`` and ``DistributedDataParallel`` import it,
    and SymPy: 800 modules, 4 s of a core in each process; PyTorch itself takes 1.5 (2.13).
    """
    if NAME in sys.modules:
        return
    module = Later(NAME)
    # What they ask, answered for a process in which nothing is compiled yet.
    vars(module).update(
        disable=lambda function=None, *_, **__: function or (lambda function: function),
        graph_break=lambda *_, **__: None,
        trace_rules=types.SimpleNamespace(clear_lru_cache=bool),
        utils=types.SimpleNamespace(get_optimize_ddp_mode=lambda: 'ddp_optimizer'),
    )
    sys.modules[NAME] = module
