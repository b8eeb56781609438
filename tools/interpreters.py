"""Find the Python of a notebook's kernel: a GPU server has one for MXNet and one for PyTorch."""

import sys
from pathlib import Path

import nbformat
from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel


def python_of(path):
    """Return the Python that runs the cells of one of our notebooks."""
    kernel = nbformat.read(path, as_version=4).metadata.kernelspec.name
    try:
        python = KernelSpecManager().get_kernel_spec(kernel).argv[0]
    except NoSuchKernel:
        return sys.executable
    return python if Path(python).is_absolute() else sys.executable
