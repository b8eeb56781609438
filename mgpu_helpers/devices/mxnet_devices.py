"""MXNet's devices: GPUs for which it has machine code, and stand-ins ``mx.cpu(i)``.

MXNet treats ``cpu(0)``, ``cpu(1)``, ... as different devices, each with its own worker thread and
arrays, so splitting, copying and summing are real; one stand-in is one core (see ``runtime``).
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Sequence

import mxnet as mx

from .. import arguments
from ..display import NONE, Table
from .driver import driver_gpus, has_code, usable_cores

# Each needs a thread and a replica: 256 took 4 s to start; 100,000 ran silently for minutes.
MOST_STAND_INS = 256


@functools.cache
def usable_gpus() -> tuple[mx.Context, ...]:
    """List the GPUs that this MXNet can use; warn once about unsupported ones."""
    if not mx.runtime.Features().is_enabled('CUDA'):
        return ()
    too_new = [str(gpu) for gpu in driver_gpus() if not has_code(gpu)]
    if too_new:
        warnings.warn(
            f'{"; ".join(too_new)}: ignored, because MXNet 1.9.1 has machine code for '
            'compute capability 5.0 to 8.9 only. Use the PyTorch chapters for such a GPU.',
            stacklevel=2,
        )
    return tuple(mx.gpu(gpu.index) for gpu in driver_gpus() if has_code(gpu))


arguments.USABLE_GPUS.append(usable_gpus)

# Child processes do not repeat the parent's notices.
_said = set(os.environ.get('MGPU_SAID', '').split())


def _say_stand_ins(k: int) -> None:
    """Say once that CPU cores stand in for GPUs, and once that there are too few cores."""
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


def num_gpus() -> int:
    """Count the GPUs that this MXNet can use: 0 with its CPU build, or without a driver."""
    return len(usable_gpus())


def devices(k: int) -> list[mx.Context]:
    """Return ``k`` devices: GPUs if that many are usable, else stand-ins; never a mix.

    There may be more stand-ins than cores; they then share cores and train no faster.
    """
    arguments.positive_int('the number of devices', k)
    if k <= num_gpus():
        return list(usable_gpus()[:k])
    arguments.positive_int('the number of stand-ins', k, most=MOST_STAND_INS)
    _say_stand_ins(k)
    return [mx.cpu(i) for i in range(k)]


def choose_devices(num_gpus: int, given: Sequence[mx.Context] | None = None) -> list[mx.Context]:
    """Return the devices to train on: the user's list, or ``devices(num_gpus)``."""
    arguments.positive_int('num_gpus', num_gpus)
    if given is None:
        return devices(num_gpus)
    arguments.check(devices=given)
    agree = num_gpus == len(given)
    wanted = f'{len(given)}, the length of devices'
    arguments.expect(agree, 'num_gpus', wanted, num_gpus, ValueError)
    gpus = usable_gpus()
    known = [*gpus, *map(mx.cpu, range(MOST_STAND_INS))]
    for i, device in enumerate(given):
        way = 'from devices(k), or mx.cpu(0), mx.cpu(1), ...'
        arguments.expect(device in known, f'devices[{i}]', way, device, ValueError)
    if 0 < sum(device in gpus for device in given) < len(given):
        raise ValueError(f'{list(given)} mixes GPUs with stand-ins: use only one kind')
    return list(given)


def try_gpu() -> mx.Context:
    """Return the first usable GPU, or a stand-in if there is none."""
    return [*usable_gpus(), mx.cpu(0)][0]


def try_all_gpus() -> list[mx.Context]:
    """Return every usable GPU, or one stand-in per usable core; never an empty list."""
    return list(usable_gpus()) or devices(usable_cores())


def describe_devices() -> Table:
    """Tabulate the GPUs that the driver reports, and say why some cannot be used.

    If none can be used, the table lists one stand-in per usable core.
    """
    rows: list[tuple[object, ...]] = []
    for gpu in driver_gpus():
        device, what = mx.gpu(gpu.index), gpu.name
        if device not in usable_gpus():
            why = 'no machine code for it in this MXNet'
            what += f', not used: {"the CPU build of MXNet" if has_code(gpu) else why}'
        rows.append((device, what, f'{gpu.memory / 2**30:.0f} GiB', gpu.version))
    if not usable_gpus():
        stand_in = ('stand-in: one CPU core', 'shares main memory', NONE)
        rows += [(mx.cpu(i), *stand_in) for i in range(usable_cores())]
    return Table(rows, ['device', 'what it is', 'memory', 'compute capability'])
