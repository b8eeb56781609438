"""Devices in PyTorch: CUDA GPUs where there are enough of them, stand-ins where there are not.

PyTorch has one CPU device (``torch.ones(1).to('cpu:1').device`` is ``cpu``), so a stand-in is made
here: a number and a thread that computes what it is given, one thing after another, on one core.
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import torch

from .. import arguments
from ..devices.choosing import Chooser


def _begin_thread() -> None:
    """One core for each stand-in, unless the user set another number of threads.

    With two threads inside each of two stand-ins on two cores, they get in each other's way: 40 to
    44 instead of 35 to 37 ms a batch of 256.
    """
    wanted = os.environ.get('OMP_NUM_THREADS', '1').split(',')[0]
    torch.set_num_threads(int(wanted) if wanted.isdecimal() and int(wanted) else 1)


@functools.cache
def _thread(index: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix=f'cpu:{index}', initializer=_begin_thread)


@dataclass(frozen=True, repr=False)
class StandIn:
    """A CPU core in the place of a GPU: a thread with a queue of work.

    Stand-ins of the same number, from 0, are the same device.
    """

    index: int
    library: ClassVar[str] = 'PyTorch'  # whose arrays it computes with

    def __post_init__(self) -> None:
        arguments.whole_number('the number of the stand-in', self.index)

    def __repr__(self) -> str:
        return f'cpu:{self.index}'

    def submit(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        """Put a call at the end of the queue; give its ``concurrent.futures.Future``."""
        return _thread(self.index).submit(function, *args)


Device: TypeAlias = torch.device | StandIn


def place(device: Device) -> torch.device:
    """Tell where the tensors of a device are: itself for a GPU, main memory for a stand-in."""
    arguments.device('device', device)
    return torch.device('cpu') if isinstance(device, StandIn) else device


def on_each(
    devices: Sequence[Device], function: Callable[..., Any], *lists: Sequence[Any]
) -> list[Any]:
    """Call a function once for each device, at the same time; give what the calls returned.

    The i-th call gets the i-th item of each list; the shortest list decides how many calls. On
    stand-ins they have ended, and what the first failing one raised is raised; on GPUs what they
    started may still be running.
    """
    arguments.check(devices=devices)
    arguments.function('function', function, 'to call on each device')
    if all(isinstance(d, StandIn) for d in devices):
        calls = [d.submit(function, *args) for d, *args in zip(devices, *lists)]
        for call in calls:
            call.exception()  # waits: nobody may touch the parameters while another still computes
        return [call.result() for call in calls]
    # A call on a GPU only puts work into the GPU's own queue and comes back.
    return [function(*args) for _, *args in zip(devices, *lists)]


def synchronize(devices: Iterable[Device]) -> None:
    """Wait until these devices have done what they were given."""
    for device in devices:
        if isinstance(device, StandIn):
            device.submit(bool).result()
        elif place(device).type == 'cuda':
            torch.cuda.synchronize(device)


@functools.cache
def usable_gpus() -> tuple[torch.device, ...]:
    """List the GPUs that this PyTorch can compute on; warn, once, of those that are too old."""
    if not torch.cuda.is_available():
        return ()
    archs = [int(arch.split('_')[1].rstrip('af')) for arch in torch.cuda.get_arch_list()]
    oldest = divmod(min(archs), 10)
    gpus = [torch.device('cuda', i) for i in range(torch.cuda.device_count())]
    old = [gpu for gpu in gpus if torch.cuda.get_device_capability(gpu) < oldest]
    if old:
        names = ', '.join(f'{torch.cuda.get_device_name(gpu)} ({gpu})' for gpu in old)
        warnings.warn(
            f'{names}: counted as absent, because PyTorch {torch.__version__} has machine code for '
            f'compute capability {oldest[0]}.{oldest[1]} and up only. The chapters in MXNet are '
            'for such a GPU.',
            stacklevel=2,
        )
    return tuple(gpu for gpu in gpus if gpu not in old)


def _why_not(gpu: object) -> str:
    cpu_build = torch.version.cuda is None
    return 'the CPU build of PyTorch' if cpu_build else 'this PyTorch cannot compute on it'


GPU = functools.partial(torch.device, 'cuda')
STAND_INS = 'StandIn(0), StandIn(1), ...'
_chooser = Chooser('PyTorch', usable_gpus, GPU, StandIn, STAND_INS, _why_not)
num_gpus = _chooser.num_gpus
devices = _chooser.devices
choose_devices = _chooser.choose_devices
try_gpu = _chooser.try_gpu
try_all_gpus = _chooser.try_all_gpus
describe_devices = _chooser.describe_devices
