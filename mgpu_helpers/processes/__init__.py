"""Start processes that run and end together; none hangs or is left behind.

``launch`` calls a function on several new ranks and returns each rank's result; ``Engines`` are
ranks that stay alive to run cells. All end with the process that started them.
"""

import lazy_loader

# Lazy: `import mgpu_helpers` needs only a small part; loading all took 15 of its 50 ms.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
