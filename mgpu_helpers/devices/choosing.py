"""Devices: real GPUs where there are enough of them, stand-ins where there are not; never a mix.

A stand-in is ``mx.cpu(i)``. MXNet treats ``cpu(0)``, ``cpu(1)``, ... as different devices, each
with a worker thread and arrays of its own, so splitting, copying and summing are real; one
stand-in computes on one core (see ``runtime``).
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


@functools.cache
def usable_gpus() -> tuple[mx.Context, ...]:
    """List the GPUs that this MXNet can compute on.

    Returns
    -------
    tuple of mxnet.Context

    Warns
    -----
    UserWarning
        Once, if a GPU counts as absent because this MXNet has no machine code for it.

    Examples
    --------
    >>> all(device.device_type == 'gpu' for device in usable_gpus())
    True
    """
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
    """Count the real GPUs that this MXNet can use.

    Returns
    -------
    int
        0 with the CPU build, without a driver, and where every GPU is too new (or too old).

    Warns
    -----
    UserWarning
        See ``usable_gpus``.

    Examples
    --------
    >>> num_gpus() >= 0
    True
    """
    return len(usable_gpus())


def devices(k: int) -> list[mx.Context]:
    """Give ``k`` devices: GPUs if there are that many usable ones, otherwise stand-ins.

    Parameters
    ----------
    k : int
        How many, at least 1. With stand-ins it may exceed the number of cores; they then share
        cores, and more of them train no faster.

    Returns
    -------
    list of mxnet.Context
        ``[gpu(0), ...]`` or ``[cpu(0), ...]``, never a mix.

    Raises
    ------
    TypeError
        If ``k`` is not an integer.
    ValueError
        If ``k`` is below 1, or more stand-ins than a machine can start.

    Notes
    -----
    Follows the lists ``[mx.gpu(i) for i in range(k)]`` of sources 000 and 001. The first time
    that stand-ins are handed out, a notice says so.

    Examples
    --------
    >>> len(devices(2))
    2
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
    """Give the devices to train on: those that the user listed, or ``devices(num_gpus)``.

    Parameters
    ----------
    num_gpus : int
        How many devices, at least 1.
    given : list of mxnet.Context, optional
        The user's own choice, ``num_gpus`` different ones.

    Returns
    -------
    list of mxnet.Context

    Raises
    ------
    TypeError
        If ``num_gpus`` is not an integer or ``given`` no list of devices.
    ValueError
        If ``num_gpus`` is below 1, or ``given`` repeats a device or has another length.

    Examples
    --------
    >>> choose_devices(2, [mx.cpu(0), mx.cpu(3)])
    [cpu(0), cpu(3)]
    """
    checks.positive_int('num_gpus', num_gpus)
    if given is None:
        return devices(num_gpus)
    checks.device_list(given)
    strange = [d for d in given if not isinstance(d, mx.Context)]
    if strange:
        raise TypeError(f'{strange[0]!r} is no MXNet device; write mx.gpu(0) or mx.cpu(0)')
    checks.as_many_devices(num_gpus, given)
    return list(given)


def try_gpu(i: int = 0) -> mx.Context:
    """Give ``gpu(i)`` if it is there and usable, otherwise ``cpu()``.

    Parameters
    ----------
    i : int
        The GPU's number, from 0.

    Returns
    -------
    mxnet.Context

    Raises
    ------
    TypeError, ValueError
        If ``i`` is not an integer, or negative.

    Notes
    -----
    The same as d2l's ``try_gpu`` and source 004's.

    Examples
    --------
    >>> try_gpu(99)
    cpu(0)
    """
    checks.whole_number('the number of the GPU', i)
    return mx.gpu(i) if mx.gpu(i) in usable_gpus() else mx.cpu()


def try_all_gpus() -> list[mx.Context]:
    """Give every usable GPU, or one stand-in for each usable CPU core.

    Returns
    -------
    list of mxnet.Context
        Never empty.

    Notes
    -----
    d2l's and source 004's ``try_all_gpus`` fall back to one CPU; ours to as many as can work at
    the same time.

    Examples
    --------
    >>> len(try_all_gpus()) >= 1
    True
    """
    return list(usable_gpus()) or devices(usable_cores())


def describe_devices(listed: Sequence[mx.Context] | None = None) -> Table:
    """Describe the devices in a small table.

    Parameters
    ----------
    listed : list of mxnet.Context, optional
        Which; by default every GPU that the driver reports, also one that MXNet cannot use, and
        where none is usable the stand-ins, one per core.

    Returns
    -------
    Table
        Columns: device, what it is, memory, compute capability (of a GPU).

    Raises
    ------
    TypeError, ValueError
        If ``listed`` is not a list of different devices.

    Examples
    --------
    >>> describe_devices([mx.cpu(0)]).headers
    ['device', 'what it is', 'memory', 'compute capability']
    """
    gpus = {mx.gpu(gpu.index): gpu for gpu in driver_gpus()}
    if listed is None:
        stand_ins = [] if num_gpus() else [mx.cpu(i) for i in range(usable_cores())]
        listed = [*gpus, *stand_ins]
    checks.device_list(listed)
    rows = [_gpu_row(d, gpus[d]) if d in gpus else _stand_in_row(d) for d in listed]
    return Table(rows, ['device', 'what it is', 'memory', 'compute capability'])


def _gpu_row(device: mx.Context, gpu: GPU) -> tuple[object, ...]:
    usable = device in usable_gpus()
    reason = 'the CPU build of MXNet' if has_code(gpu) else 'no machine code for it in this MXNet'
    what = gpu.name if usable else f'{gpu.name}, not used: {reason}'
    return device, what, f'{gpu.memory / 2**30:.0f} GiB', '{}.{}'.format(*gpu.capability)


def _stand_in_row(device: mx.Context) -> tuple[object, ...]:
    return device, 'stand-in: one CPU core', 'shares main memory', '-'
