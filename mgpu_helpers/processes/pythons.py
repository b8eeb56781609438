"""A framework's Python, where one environment cannot hold both frameworks."""

from __future__ import annotations

import importlib.machinery
import sys
from pathlib import Path


def python_with(framework: str) -> str | None:
    """Give the Python that has ``'mxnet'`` or ``'torch'``: this one, the one beside it, or None."""
    # Their builds for GPUs need NVIDIA's libraries in versions that exclude each other.
    # Not importlib.util's, which would ask runtime.py, too, whether MXNet can work here.
    if importlib.machinery.PathFinder.find_spec(framework) is not None:
        return sys.executable
    beside = Path(sys.prefix).with_name('.venv-torch') / 'bin' / 'python'
    return str(beside) if framework == 'torch' and beside.exists() else None
