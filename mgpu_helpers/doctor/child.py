"""What is tried in a process of its own, because it is heavy or may crash.

``main('mxnet')`` takes the steps of one question, and prints what each found as a line of JSON.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.metadata
import json
import os
import subprocess
from collections.abc import Callable
from types import ModuleType
from typing import Any

MARK = 'mgpu-doctor: '
Facts = dict[str, Any]  # what can be written as JSON


def main(question: str) -> None:
    """Take the steps of a question, each by itself: an error in one does not stop the next.

    Parameters
    ----------
    question : str
        One of ``QUESTIONS``.

    Examples
    --------
    >>> main('nothing')
    Traceback (most recent call last):
    KeyError: 'nothing'
    """
    for step, function in QUESTIONS[question].items():
        try:
            facts = function()
        except BaseException as error:
            facts = {'error': last_line(error), 'missing': _missing(error)}
        print(f'\n{MARK}{json.dumps([step, facts])}', flush=True)


def last_line(error: BaseException) -> str:
    """Put an error into one line.

    Parameters
    ----------
    error : BaseException

    Returns
    -------
    str

    Examples
    --------
    >>> last_line(ValueError('a', 'b')), last_line(KeyError())
    ("ValueError: ('a', 'b')", 'KeyError')
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return ': '.join([type(error).__name__, *lines[-1:]])


def _missing(error: BaseException) -> str | None:
    """The name of the module that is not there, if that is the error."""
    return error.name if isinstance(error, ModuleNotFoundError) else None


def _version_of(module: ModuleType) -> Facts:
    return {'version': str(getattr(module, '__version__', 'of no known version'))}


def _numpy() -> Facts:
    import numpy

    numpy.ones(2) @ numpy.ones(2)
    return {'version': importlib.metadata.version('numpy')}  # as runtime.py asks for it


def _mxnet() -> Facts:
    import mxnet

    cuda = mxnet.runtime.Features().is_enabled('CUDA')
    mxnet.nd.ones(2).asnumpy()
    return {**_version_of(mxnet), 'cuda': cuda}


def _d2l() -> Facts:
    import d2l
    import d2l.mxnet

    return _version_of(d2l)


def _torch() -> Facts:
    import torch

    torch.ones(2).numpy()
    return {
        **_version_of(torch),
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
    gpus = [
        {'index': g.index, 'name': g.name, 'memory': g.memory, 'capability': g.capability}
        for g in driver_gpus()
    ]
    return {'cuda': cuda, 'refusal': refusal, 'gpus': gpus}


def _libraries() -> Facts:
    """Which of NVIDIA's libraries MXNet's own is linked with, and whether each loads."""
    from .. import runtime
    from .elf import find_libmxnet, needed

    library = find_libmxnet()
    names = [name for name in needed(library) if name.startswith(('libcu', 'libnv', 'libnccl'))]
    with contextlib.suppress(OSError):
        ctypes.CDLL('libcuda.so.1', mode=ctypes.RTLD_GLOBAL)
    runtime.load_wheels()
    troubles = {}
    for name in sorted(set(names) - {'libcuda.so.1'}):  # the driver's has a check of its own
        try:
            ctypes.CDLL(name)
            troubles[name] = ''
        except OSError as error:
            troubles[name] = str(error)
    return {'libraries': troubles}


def _cores() -> Facts:
    from ..devices.cores import usable_cores

    return {'usable': usable_cores()}


def _importable(name: str) -> Callable[[], Facts]:
    def step() -> Facts:
        return _version_of(importlib.import_module(name))

    return step


def _kernel() -> Facts:
    """The kernel that a notebook of the course asks for, and the Python that it starts."""
    import shutil

    from jupyter_client.kernelspec import KernelSpecManager

    spec = KernelSpecManager().get_kernel_spec('python3')
    program = shutil.which(spec.argv[0])
    facts = {'name': spec.display_name, 'folder': spec.resource_dir, 'program': spec.argv[0]}
    if program is None:
        return {**facts, 'prefix': None}
    asked = subprocess.run(
        [program, '-c', 'import sys; print(sys.prefix)'],
        capture_output=True,
        text=True,
        timeout=20,
        env=os.environ | spec.env,
    )
    lines = asked.stdout.split('\n')
    return {**facts, 'prefix': lines[-2] if asked.returncode == 0 and len(lines) > 1 else None}


def _training(framework: str) -> Callable[[], Facts]:
    def step() -> Facts:
        from .training import measure

        return measure(framework)

    return step


MODULES = ('cloudpickle', 'joblib', 'matplotlib.pyplot', 'pooch', 'sklearn', 'tqdm')
JUPYTER = ('ipykernel', 'jupyterlab', 'nbval')
QUESTIONS = {
    'mxnet': {'numpy': _numpy, 'mxnet': _mxnet, 'd2l': _d2l},
    'torch': {'torch': _torch},
    'driver': {'driver': _driver},
    'libraries': {'libraries': _libraries},
    'cores': {'cores': _cores},
    'packages': {name: _importable(name) for name in MODULES},
    'jupyter': {name: _importable(name) for name in JUPYTER},
    'kernel': {'kernel': _kernel},
    'training-mxnet': {'training': _training('mxnet')},
    'training-torch': {'training': _training('torch')},
}
