"""What a second device is worth: one and two train alike, in turn; the rates make a table."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from mxnet import nd

from .. import checks
from ..display import Table
from ..processes import run_workers
from .cores import free_cores
from .mxnet_devices import choose_devices

Prepare = Callable[[list[Any]], Callable[[], object]]
ONE, BOTH, TWO = 'one device, one core', 'one device, both cores', 'two devices, a core each'


class Speeds:
    """Examples per second of each setting, a list of measurements; prints as a table."""

    def __init__(self, title: str, measure: Callable[[], dict[str, list[float]]]) -> None:
        self.title, self._measure, self.rates = title, measure, measure()

    def table(self) -> Table:
        """Lay out the median of each setting, its range, and how many times as fast two are."""
        rows = []
        for name, rates in self.rates.items():
            gain = median(list(self.rates.values())[-1]) / median(rates)
            span = f'{min(rates):,.0f} to {max(rates):,.0f}'
            rows.append([name, f'{median(rates):,.0f}', span, f'{gain:.2f}'])
        return Table(rows, [self.title, 'median', 'range', 'two devices, over this'])

    def __repr__(self) -> str:
        return repr(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def two_beat_one(self, by: float = 1.2) -> bool:
        """Tell whether two stand-ins train ``by`` times as fast as one with one core.

        Other work only makes slower, so the best of each counts; if they do not suffice, all is
        measured again, three times at most. Where no two cores are free nobody can tell, and GPUs
        may gain less: the answer is yes.
        """
        for _ in range(3):
            one, two = (max(self.rates.get(name, [0])) for name in (ONE, TWO))
            if two >= by * one or free_cores() <= 1.5:
                return True
            self.rates = self._measure()
        return False


def compare_speeds(
    prepare: Prepare, examples: int, title: str = 'examples a second', rounds: int = 5
) -> Speeds:
    """Measure how many examples a second one device and two train on.

    ``prepare(devices)`` gives a function that takes one training step with so many ``examples``. A
    stand-in has one core, so one of them is measured with both as well. MXNet reads how many
    threads an operator may use when it is loaded: each setting has a process of its own. They take
    turns, a second each, so that what else the machine does meets all of them.
    """
    checks.function('prepare', prepare, 'of devices, which gives one of no arguments that trains')
    checks.positive_int('examples', examples)
    pair = choose_devices(2)
    settings = {ONE: (pair[:1], '1'), BOTH: (pair[:1], '2'), TWO: (pair, '1')}
    if pair[0].device_type == 'gpu':
        settings = {'one device': (pair[:1], '1'), 'two devices': (pair, '1')}

    def measure() -> dict[str, list[float]]:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / 'turn 0').touch()
            count = len(settings)
            calls: list[Any] = [
                ((prepare, devices, folder, range(c, count * rounds, count)), {})
                for c, (devices, _) in enumerate(settings.values())
            ]
            envs = [
                {'OMP_NUM_THREADS': threads, 'PYTHONWARNINGS': 'ignore'}  # MXNet's own of it
                for _, threads in settings.values()
            ]
            rates = run_workers(steps_per_second, calls, list(settings), envs)
        return {name: [examples * r for r in of] for name, of in zip(settings, rates)}

    return Speeds(title, measure)


def seconds_of(steps: int, step: Callable[[], object]) -> float:
    """Take so many steps, and wait until the devices have."""
    start = time.perf_counter()
    for _ in range(steps):
        step()
    nd.waitall()
    return time.perf_counter() - start


def steps_per_second(
    prepare: Prepare, devices: list[Any], folder: str, turns: Sequence[int]
) -> list[float]:
    """Train for about a second in each of our turns; what is called ``turn n`` says whose it is."""
    step, steps = prepare(devices), 2
    rates: list[float] = []
    for turn in turns:
        mine = Path(folder) / f'turn {turn}'
        while not mine.exists():
            time.sleep(0.01)
        if not rates:
            seconds_of(2, step)  # the first steps ask for memory
            steps = max(2, round(1 / seconds_of(1, step)))
        rates.append(steps / seconds_of(steps, step))
        mine.rename(Path(folder) / f'turn {turn + 1}')
    return rates
