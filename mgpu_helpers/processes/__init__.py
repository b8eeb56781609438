"""Processes that start, run and end together: no hang, no orphan.

``launch`` calls a function on several new ranks and returns each rank's result; ``Engines`` are
ranks that stay, for cells. They end with the process that started them.
"""

import lazy_loader

# `import mgpu_helpers` needs one small part of this package: all of it took 15 of its 50 ms.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
