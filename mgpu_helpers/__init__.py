"""Helpers of the course: training a neural network on several GPUs by data parallelism.

``import mgpu_helpers as mgpu`` offers chapter 1's names and the shared ones directly; the other
chapters live in modules of their own. Nothing heavy is imported until it is used (SPEC 1): what
runs at once is only what must be true before MXNet loads. ``__init__.pyi`` lists the names, for
editors and mypy too; chapters that load lazily have one each.
"""

import sys

try:
    import lazy_loader
except ModuleNotFoundError:  # another Python lacks this one first
    raise ModuleNotFoundError(
        f'{sys.executable} is not the Python of the course: it has none of its packages. In the '
        "folder of the course, run 'make setup' and use .venv/bin/python (in JupyterLab, the "
        "kernel 'Python 3 (multi-GPU course)').",
        name='lazy_loader',
    ) from None

from . import runtime

runtime.configure()

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
