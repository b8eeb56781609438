"""Find the Python that has a framework, because both do not always fit into one environment."""

from __future__ import annotations

import importlib.machinery
import sys
from pathlib import Path


def python_with(framework: str) -> str | None:
    """Return a Python with ``'mxnet'`` or ``'torch'``: this, the one beside it, or None."""
    # Their GPU builds need conflicting versions of NVIDIA's libraries.
    # Not importlib.util.find_spec, which would also run runtime.py's check of MXNet.
    if importlib.machinery.PathFinder.find_spec(framework) is not None:
        return sys.executable
    beside = Path(sys.prefix).with_name('.venv-torch') / 'bin' / 'python'
    return str(beside) if framework == 'torch' and beside.exists() else None
