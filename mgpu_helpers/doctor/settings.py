"""The settings with which stand-ins work at the same time: in force, overridden, or too late?"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator

from ..runtime import MALLOC, SETTINGS, TOO_LATE
from .asking import Questions
from .report import NOT_NEEDED, OK, WARNING, Row

# What another value costs; the figures are those beside the settings themselves (runtime.py).
COSTS = {
    'OMP_NUM_THREADS': 'a stand-in with several threads takes the cores of the others: they take '
    'turns, or wait for each other for ever',
    'MXNET_CPU_TEMP_COPY': 'stand-ins share workspaces and take turns, so that a second one gains '
    'nothing (94 instead of 43 ms a batch)',
    'MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN': 'no gradient travels before the whole backward pass has '
    'ended, and the timeline shows it as one bar',
    'MXNET_CUDNN_AUTOTUNE_DEFAULT': 'on GPUs, the search for algorithms may end differently in '
    'every run',
    'MXNET_ENFORCE_DETERMINISM': 'on GPUs, a run need not repeat bit for bit',
    'NVIDIA_TF32_OVERRIDE': 'on GPUs, float32 may be computed with 10 bits of mantissa',
}
ALLOCATOR = (
    'memory is given back at every operator and asked for anew (94 instead of 82 ms a batch)'
)


def settings(ask: Questions) -> Iterator[Row]:
    """Look at what MXNet reads when it is loaded, and at the allocator."""
    name = 'settings'
    others = {
        variable: os.environ[variable]
        for variable, ours in SETTINGS.items()
        if os.environ.get(variable, ours) != ours
    }
    if TOO_LATE:
        yield Row(
            name,
            WARNING,
            'MXNet was loaded before mgpu_helpers, too late for '
            f'{", ".join(TOO_LATE)}. Import mgpu_helpers first (in a notebook: restart the kernel '
            f'before), or set them in the shell. Until then {COSTS["MXNET_CPU_TEMP_COPY"]}',
            'export ' + ' '.join(f'{variable}={ours}' for variable, ours in TOO_LATE.items()),
        )
    if not TOO_LATE and not others:
        listed = ', '.join(f'{variable}={ours}' for variable, ours in SETTINGS.items())
        yield Row(name, OK, f'in force: {listed}')
    for variable, value in others.items():
        yield _other(name, variable, value)
    yield _allocator()


def _other(name: str, variable: str, value: str) -> Row:
    found = f'{variable} is {value!r} (ours: {SETTINGS[variable]}): {COSTS[variable]}'
    if variable == 'OMP_NUM_THREADS' and 'MXNET_CPU_TEMP_COPY' not in os.environ:
        found += '. For this reason MXNET_CPU_TEMP_COPY is left out'  # see runtime.prepare
    return Row(name, WARNING, found, f'unset {variable}')


def _allocator() -> Row:
    name = 'allocator'
    if sys.platform == 'win32' or not hasattr(ctypes.CDLL(None), 'mallopt'):
        return Row(name, NOT_NEEDED, "this system's is not glibc's, for which we have settings")
    if 'GLIBC_TUNABLES' in os.environ:
        tunables = os.environ['GLIBC_TUNABLES']
        found = f'GLIBC_TUNABLES is {tunables!r}, so ours are left out: {ALLOCATOR}'
        return Row(name, WARNING, found, 'unset GLIBC_TUNABLES')
    others = {
        variable: os.environ[variable]
        for variable, (_, ours) in MALLOC.items()
        if os.environ.get(variable, str(ours)) != str(ours)
    }
    if others:
        listed = ', '.join(f'{variable}={value}' for variable, value in others.items())
        return Row(name, WARNING, f'{listed}: {ALLOCATOR}', f'unset {" ".join(others)}')
    return Row(name, OK, 'glibc keeps freed memory for the next operator')
