"""What is tried in a process of its own, because it is heavy or may crash: a function per step.

``main('numpy', 'mxnet')`` takes these steps, and prints what each found as a line of JSON.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import importlib
import importlib.metadata
import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

MARK = 'mgpu-doctor: '
TRAININGS = ('train mxnet', 'train torch')  # for which nothing else shall run
Facts = dict[str, Any]  # what can be written as JSON

MODULES = ('cloudpickle', 'joblib', 'matplotlib.pyplot', 'requests', 'sklearn', 'tqdm')
JUPYTER = ('ipykernel', 'jupyterlab', 'nbval')
# The steps that ask what a kernel starts, and the names by which the notebooks know them.
KERNELS = {'kernel': 'python3', 'kernel of PyTorch': 'mgpu-torch'}
# What libmxnet.so of mxnet-cu112 1.9.1, the last one, is linked with, as `readelf -d` lists it
# (without the driver's libcuda.so.1), and libcublasLt and libcusparse, which libcublas and
# libcusolver need.
CUDA_LIBRARIES = (
    'libcublas.so.11 libcublasLt.so.11 libcudart.so.11.0 libcudnn.so.8 libcufft.so.10 '
    'libcurand.so.10 libcusolver.so.11 libcusparse.so.11 libnccl.so.2 libnvToolsExt.so.1 '
    'libnvrtc.so.11.2'
).split()


def main(*steps: str) -> None:
    """Take steps, each by itself: an error in one does not stop the next.

    A training is begun when a line comes through standard input.
    """
    for step in steps:
        if step in TRAININGS and not sys.stdin.readline():
            break  # nobody is there any more
        try:
            facts = STEPS[step]()
        except BaseException as error:
            missing = error.name if isinstance(error, ModuleNotFoundError) else None
            facts = {'error': last_line(error), 'missing': missing}
        print(f'\n{MARK}{json.dumps(facts)}', flush=True)
    os._exit(0)  # what the libraries would still do now is of no interest


def last_line(error: BaseException) -> str:
    """Put an error into one line.

    >>> last_line(ValueError('a', 'b')), last_line(KeyError())
    ("ValueError: ('a', 'b')", 'KeyError')
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return ': '.join([type(error).__name__, *lines[-1:]])


def _import(name: str) -> Facts:
    # jsonschema does without it, and its grammar takes half of JupyterLab's import (1 of 2 s).
    sys.modules.setdefault('rfc3987_syntax', None)  # type: ignore[arg-type]
    module = importlib.import_module(name)
    return {'version': str(getattr(module, '__version__', 'of no known version'))}


def _numpy() -> Facts:
    import numpy

    numpy.ones(2) @ numpy.ones(2)
    return {'version': importlib.metadata.version('numpy')}  # as runtime.py asks for it


def _mxnet() -> Facts:
    import mxnet

    cuda = mxnet.runtime.Features().is_enabled('CUDA')
    mxnet.nd.ones(2).asnumpy()
    return {**_import('mxnet'), 'cuda': cuda}


def _d2l() -> Facts:
    importlib.import_module('d2l.mxnet')
    return _import('d2l')


def _torch() -> Facts:
    import torch

    torch.ones(2).numpy()
    return {
        **_import('torch'),
        'cuda': torch.version.cuda,
        'capabilities': [
            divmod(int(arch.split('_')[1].rstrip('af')), 10)
            for arch in torch.cuda.get_arch_list()
            if arch.startswith('sm_')
        ],
        'gpus': torch.cuda.device_count() if torch.cuda.is_available() else 0,
    }


def _driver() -> Facts:
    from ..devices.driver import ask_driver, driver_gpus

    try:
        cuda, refusal = ask_driver()
    except OSError as error:
        return {'absent': str(error)}
    return {
        'cuda': cuda,
        'refusal': refusal,
        'gpus': [dataclasses.asdict(g) for g in driver_gpus()],
    }


def _libraries() -> Facts:
    """Of each CUDA library of MXNet's GPU build: why it does not load, or nothing."""
    from .. import runtime

    def trouble(name: str, mode: int = ctypes.DEFAULT_MODE) -> str:
        try:
            ctypes.CDLL(name, mode)
        except OSError as error:
            return str(error)
        return ''

    trouble('libcuda.so.1', ctypes.RTLD_GLOBAL)  # of which there is a row of its own
    runtime.load_wheels()
    return {name: trouble(name) for name in CUDA_LIBRARIES}


def _cores() -> Facts:
    from ..devices.cores import usable_cores

    return {'usable': usable_cores()}


def _kernel(name: str) -> Facts:
    """A kernel that notebooks of the course ask for, and the Python that it starts."""
    from jupyter_client.kernelspec import KernelSpecManager

    spec = KernelSpecManager().get_kernel_spec(name)
    try:
        asked = subprocess.run(
            [spec.argv[0], '-c', 'import sys; print(sys.prefix)'],
            capture_output=True, text=True, check=True, env=os.environ | spec.env,
        )  # fmt: skip
        prefix = asked.stdout.splitlines()[-1]
    except (OSError, subprocess.CalledProcessError, IndexError):
        prefix = None
    facts = {'name': spec.display_name, 'folder': spec.resource_dir, 'program': spec.argv[0]}
    return {**facts, 'prefix': prefix}


def _train(framework: str) -> Facts:
    from .trials import train

    return train(framework)


STEPS: dict[str, Callable[[], Facts]] = {
    'numpy': _numpy,
    'mxnet': _mxnet,
    'd2l': _d2l,
    'torch': _torch,
    'driver': _driver,
    'libraries': _libraries,
    'cores': _cores,
    **{step: functools.partial(_kernel, name) for step, name in KERNELS.items()},
    **{name: functools.partial(_import, name) for name in (*MODULES, *JUPYTER)},
    **{step: functools.partial(_train, step.removeprefix('train ')) for step in TRAININGS},
}
