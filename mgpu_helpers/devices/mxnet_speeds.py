"""Measure the gain from a second device: one and two devices take turns."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mxnet import nd

from .. import arguments
from ..processes import launch
from .mxnet_devices import choose_devices
from .speeds import BOTH, ONE, TWO, Speeds

Prepare = Callable[[list[Any]], Callable[[], object]]


def compare_speeds(
    prepare: Prepare, examples: int, title: str = 'examples a second', rounds: int = 5
) -> Speeds:
    """Measure the examples per second of one device and of two.

    ``prepare(devices)`` returns a function that takes one training step with this many
    ``examples``. A stand-in has one core, so one stand-in is also measured with both cores. MXNet
    reads the number of threads per operator when it loads, so each setting has its own process. The
    processes take turns of half a second, so that other load on the machine affects all of them.
    """
    arguments.function(
        'prepare', prepare, 'of devices that returns a training step without arguments'
    )
    arguments.positive_int('examples', examples)
    pair = choose_devices(2)
    settings = {ONE: (pair[:1], '1'), BOTH: (pair[:1], '2'), TWO: (pair, '1')}
    if pair[0].device_type == 'gpu':
        settings = {'one device': (pair[:1], '1'), 'two devices': (pair, '1')}

    count = len(settings)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / 'turn 0').touch()
        # One device does not wait for others, so the warning about several threads does not apply.
        envs = [{'OMP_NUM_THREADS': n, 'PYTHONWARNINGS': 'ignore'} for _, n in settings.values()]
        devices = [chosen for chosen, _ in settings.values()]
        what = steps_per_second, count, prepare, devices, folder, count * rounds
        rates = launch(*what, group=False, labels=False, envs=envs)
    return Speeds(title, {name: [examples * r for r in of] for name, of in zip(settings, rates)})


def seconds_of(steps: int, step: Callable[[], object]) -> float:
    """Return the seconds that ``steps`` steps take, until the devices are done."""
    start = time.perf_counter()
    for _ in range(steps):
        step()
    nd.waitall()
    return time.perf_counter() - start


def steps_per_second(
    prepare: Prepare, devices: Sequence[list[Any]], folder: str, turns: int
) -> list[float]:
    """Return this process's steps per second in each of its turns; ``turn n`` starts one."""
    rank = int(os.environ['RANK'])
    step, steps = prepare(devices[rank]), 2
    rates: list[float] = []
    for turn in range(rank, turns, len(devices)):
        mine = Path(folder) / f'turn {turn}'
        while not mine.exists():
            time.sleep(0.01)
        if not rates:
            seconds_of(2, step)  # the first steps allocate memory
            steps = max(2, round(0.5 / seconds_of(1, step)))
        rates.append(steps / seconds_of(steps, step))
        mine.rename(Path(folder) / f'turn {turn + 1}')
    return rates
