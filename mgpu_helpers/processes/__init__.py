"""Processes that start, run and end together: no hang, no orphan.

``Group`` watches any commands; ``run_workers`` calls a function in several new processes and gives
back what it returned in each. When one process fails, the others are stopped, and the error names
the one that failed first, with its own last words. When the starter is gone, however it died,
everything that it started ends.
"""

import lazy_loader

# `import mgpu_helpers` needs one small part of this room: all of it took 15 of its 50 ms.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
