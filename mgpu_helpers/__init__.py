"""Helpers for the course: train a neural network on several GPUs.

``import mgpu_helpers as mgpu`` gives direct access to chapter 1's names and the shared ones; every
other chapter is a module. The import runs only what must happen before MXNet loads; the rest loads
on first use (SPEC 1). ``__init__.pyi`` lists the names, for editors and mypy, too; each lazily
loaded chapter has a stub of its own.
"""

import sys

try:
    import lazy_loader
except ModuleNotFoundError:  # the first import that fails in a wrong Python
    raise ModuleNotFoundError(
        f"{sys.executable} is not the course's Python and lacks its packages. In the "
        "course's folder, run 'make setup' and use .venv/bin/python (in JupyterLab, the "
        "kernel 'Python 3 (multi-GPU course)').",
        name='lazy_loader',
    ) from None

from . import runtime

runtime.configure()

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
