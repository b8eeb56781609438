"""What can this machine do, and which command mends what is wrong?

``python -m mgpu_helpers doctor`` prints a table; ``examine()`` gives it in a notebook. What is
heavy, or may crash, is tried in processes of its own (``probes``), so that this works where MXNet,
PyTorch, NumPy or the driver do not.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
