"""Find the Python of a notebook's kernel: a GPU server has two, for MXNet and for PyTorch."""

import sys
from pathlib import Path

import nbformat
from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel


def python_of(path):
    """Name the program that runs the cells of a notebook of ours."""
    kernel = nbformat.read(path, as_version=4).metadata.kernelspec.name
    try:
        python = KernelSpecManager().get_kernel_spec(kernel).argv[0]
    except NoSuchKernel:
        return sys.executable
    return python if Path(python).is_absolute() else sys.executable
