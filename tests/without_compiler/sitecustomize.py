"""On PYTHONPATH of processes that tests and two chapters start: PyTorch's compiler waits outside.

Each process imports it, and SymPy, for its first optimizer, only to be left alone by it: 2.4 to 4 s
of a core, in some fifty processes of a file or of chapter 6. Chapters 5 and 9 run with it.
"""

import importlib
import sys
import types

NAME = 'torch._dynamo'


class Later(types.ModuleType):
    """Stands in for a module, and imports the real one when an attribute is missing."""

    def __getattr__(self, name):
        if name.startswith('__') and name != '__path__':
            raise AttributeError(name)  # whoever looks through all modules asks for __file__
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


sys.modules[NAME] = Later(NAME)
# What is asked, answered for a process in which nothing is compiled.
vars(sys.modules[NAME]).update(
    disable=lambda function=None, *_, **__: function or (lambda function: function),
    graph_break=lambda *_, **__: None,
    trace_rules=types.SimpleNamespace(clear_lru_cache=bool),
    utils=types.SimpleNamespace(get_optimize_ddp_mode=lambda: 'ddp_optimizer'),
)
