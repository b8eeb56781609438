"""MXNet's devices: GPUs where there are enough of them, stand-ins ``mx.cpu(i)`` where not.

MXNet treats ``cpu(0)``, ``cpu(1)``, ... as different devices, each with a worker thread and arrays
of its own, so splitting, copying and summing are real; one stand-in is one core (see ``runtime``).
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Sequence

import mxnet as mx

from .. import checks
from ..display import Table
from .cores import usable_cores
from .driver import GPU, driver_gpus, has_code
from .table import device_table


@functools.cache
def usable_gpus() -> tuple[mx.Context, ...]:
    """List the GPUs that this MXNet can compute on; warn, once, of one that counts as absent."""
    if not mx.runtime.Features().is_enabled('CUDA'):
        return ()
    too_new = [str(gpu) for gpu in driver_gpus() if not has_code(gpu)]
    if too_new:
        warnings.warn(
            f'{"; ".join(too_new)}: counted as absent, because MXNet 1.9.1 has machine code for '
            'compute capability 5.0 to 8.9 only. The chapter in PyTorch is for such a GPU.',
            stacklevel=2,
        )
    return tuple(mx.gpu(gpu.index) for gpu in driver_gpus() if has_code(gpu))


def num_gpus() -> int:
    """Count the real GPUs that this MXNet can use: 0 with the CPU build, or without a driver."""
    return len(usable_gpus())


def devices(k: int) -> list[mx.Context]:
    """Give ``k`` devices, ``[gpu(0), ...]`` if there are as many usable GPUs, else stand-ins.

    Never a mix. With stand-ins ``k`` may exceed the number of cores; they then share cores, and
    more of them train no faster. The first time that stand-ins are handed out, a notice says so.
    """
    checks.positive_int('the number of devices', k)
    if k <= num_gpus():
        return list(usable_gpus()[:k])
    checks.stand_ins(k)
    _say_stand_ins(k)
    return [mx.cpu(i) for i in range(k)]


# What a parent process has said already, its children need not say again.
_said = set(os.environ.get('MGPU_SAID', '').split())


def _say_stand_ins(k: int) -> None:
    """Print, once for each thing that there is to say, that CPU cores stand in for GPUs."""
    crowded = k > usable_cores()
    if 'stand-ins' not in _said:
        have = f'{num_gpus() or "No"} usable GPU' + 's' * (num_gpus() > 1)
        print(
            f'{have} here, so CPU cores stand in: cpu(0), cpu(1), ... '
            f'({usable_cores()} cores usable)'
        )
    if crowded and 'crowded' not in _said:
        print(f'{k} stand-ins share {usable_cores()} core(s): the same results, but no more speed.')
    _said.update({'stand-ins', 'crowded'} if crowded else {'stand-ins'})


def choose_devices(num_gpus: int, given: Sequence[mx.Context] | None = None) -> list[mx.Context]:
    """Give the devices to train on: as many as the user listed, or ``devices(num_gpus)``."""
    checks.positive_int('num_gpus', num_gpus)
    if given is None:
        return devices(num_gpus)
    checks.device_list(given, num_gpus)
    strange = [d for d in given if not isinstance(d, mx.Context)]
    if strange:
        raise TypeError(f'{strange[0]!r} is no MXNet device; write mx.gpu(0) or mx.cpu(0)')
    return list(given)


def try_gpu(i: int = 0) -> mx.Context:
    """Give ``gpu(i)`` if it is there and usable, otherwise ``cpu()``, as d2l does."""
    checks.whole_number('the number of the GPU', i)
    return mx.gpu(i) if mx.gpu(i) in usable_gpus() else mx.cpu()


def try_all_gpus() -> list[mx.Context]:
    """Give every usable GPU, or one stand-in for each usable CPU core (d2l: one CPU)."""
    return list(usable_gpus()) or devices(usable_cores())


def describe_devices() -> Table:
    """Describe the devices in a small table: also a GPU that MXNet cannot use, and why."""
    return device_table(mx.gpu, usable_gpus(), _why_not, mx.cpu)


def _why_not(gpu: GPU) -> str:
    return 'the CPU build of MXNet' if has_code(gpu) else 'no machine code for it in this MXNet'
