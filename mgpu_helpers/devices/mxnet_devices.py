"""MXNet's devices: GPUs that it has machine code for, and stand-ins ``mx.cpu(i)``.

MXNet treats ``cpu(0)``, ``cpu(1)``, ... as different devices, each with a worker thread and arrays
of its own, so splitting, copying and summing are real; one stand-in is one core (see ``runtime``).
"""

from __future__ import annotations

import functools
import os
import warnings

import mxnet as mx

from .choosing import Chooser
from .cores import usable_cores
from .driver import GPU, driver_gpus, has_code


@functools.cache
def usable_gpus() -> tuple[mx.Context, ...]:
    """List the GPUs that this MXNet can use; warn once of those that it cannot."""
    if not mx.runtime.Features().is_enabled('CUDA'):
        return ()
    too_new = [str(gpu) for gpu in driver_gpus() if not has_code(gpu)]
    if too_new:
        warnings.warn(
            f'{"; ".join(too_new)}: counted as absent, because MXNet 1.9.1 has machine code for '
            'compute capability 5.0 to 8.9 only. The chapters in PyTorch are for such a GPU.',
            stacklevel=2,
        )
    return tuple(mx.gpu(gpu.index) for gpu in driver_gpus() if has_code(gpu))


# What a parent process has said already, its children need not say again.
_said = set(os.environ.get('MGPU_SAID', '').split())


def _say_stand_ins(k: int) -> None:
    """Print once that CPU cores stand in for GPUs, and once if there are too few."""
    if 'stand-ins' not in _said:
        have = f'{len(usable_gpus()) or "No"} usable GPU' + ('s' if len(usable_gpus()) > 1 else '')
        print(
            f'{have} here, so CPU cores stand in: cpu(0), cpu(1), ... '
            f'({usable_cores()} cores usable)'
        )
        _said.add('stand-ins')
    if k > usable_cores() and 'crowded' not in _said:
        cores = usable_cores()
        print(f'{k} stand-ins share {cores} core(s): the same results, at the speed of {cores}.')
        _said.add('crowded')


def _why_not(gpu: GPU) -> str:
    return 'the CPU build of MXNet' if has_code(gpu) else 'no machine code for it in this MXNet'


STAND_INS = 'mx.cpu(0), mx.cpu(1), ...'
_chooser = Chooser('MXNet', usable_gpus, mx.gpu, mx.cpu, STAND_INS, _why_not, _say_stand_ins)
num_gpus = _chooser.num_gpus
devices = _chooser.devices
choose_devices = _chooser.choose_devices
try_gpu = _chooser.try_gpu
try_all_gpus = _chooser.try_all_gpus
describe_devices = _chooser.describe_devices
