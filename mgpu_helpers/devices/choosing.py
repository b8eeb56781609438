"""The choice of devices, in every framework: GPUs if there are enough, else stand-ins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .. import arguments
from ..display import NONE, Table
from .cores import usable_cores
from .driver import GPU, driver_gpus

# Each takes a thread and a replica: 256 took 4 s to start; 100,000 ran for minutes in silence.
MOST_STAND_INS = 256


@dataclass(frozen=True)
class Chooser:
    """Chooses among the devices of a framework: its GPUs, and stand-ins, each one CPU core."""

    framework: str
    usable_gpus: Callable[[], Sequence[Any]]
    gpu: Callable[[int], Any]
    stand_in: Callable[[int], Any]
    how_to: str  # as one writes stand-ins
    why_not: Callable[[GPU], str]  # the framework cannot use a GPU of which the driver knows
    notice: Callable[[int], object] = bool  # called before k stand-ins are handed out

    def __post_init__(self) -> None:
        arguments.GPUS[self.framework] = self.usable_gpus

    def num_gpus(self) -> int:
        """Count the GPUs that this framework can use: 0 with its CPU build, or without a driver."""
        return len(self.usable_gpus())

    def devices(self, k: int) -> list[Any]:
        """Give ``k`` devices: GPUs if there are that many usable ones, else stand-ins; never a mix.

        There may be more stand-ins than cores; they then share cores and train no faster. Apple's
        ``mps`` is one device and cannot be two; it is not used.
        """
        arguments.positive_int('the number of devices', k)
        if k <= self.num_gpus():
            return list(self.usable_gpus()[:k])
        arguments.positive_int('the number of stand-ins', k, most=MOST_STAND_INS)
        self.notice(k)
        return [self.stand_in(i) for i in range(k)]

    def choose_devices(self, num_gpus: int, given: Sequence[Any] | None = None) -> list[Any]:
        """Give the devices to train on: those that the user listed, or ``devices(num_gpus)``."""
        arguments.positive_int('num_gpus', num_gpus)
        if given is None:
            return self.devices(num_gpus)
        arguments.check(devices=given)
        agree = num_gpus == len(given)
        wanted = f'{len(given)}, as many as devices lists'
        arguments.expect(agree, 'num_gpus', wanted, num_gpus, ValueError)
        gpus, stand_ins = self.usable_gpus(), map(self.stand_in, range(MOST_STAND_INS))
        known = [*gpus, *stand_ins]
        for i, device in enumerate(given):
            way = f'one of devices(k), or of {self.how_to}'
            arguments.expect(device in known, f'devices[{i}]', way, device, ValueError)
        if 0 < sum(device in gpus for device in given) < len(given):
            raise ValueError(f'{list(given)} mixes GPUs with stand-ins: take one kind')
        return list(given)

    def try_gpu(self) -> Any:
        """Give the first usable GPU, or a stand-in if there is none."""
        return [*self.usable_gpus(), self.stand_in(0)][0]

    def try_all_gpus(self) -> list[Any]:
        """Give every usable GPU, or one stand-in for each usable core; never an empty list."""
        return list(self.usable_gpus()) or self.devices(usable_cores())

    def describe_devices(self) -> Table:
        """Tabulate every GPU that the driver reports, and why one cannot be used.

        Where none can be used, there is a stand-in for each usable core.
        """
        rows: list[tuple[object, ...]] = []
        for gpu in driver_gpus():
            device = self.gpu(gpu.index)
            usable = device in self.usable_gpus()
            what = gpu.name if usable else f'{gpu.name}, not used: {self.why_not(gpu)}'
            rows.append((device, what, f'{gpu.memory / 2**30:.0f} GiB', gpu.version))
        if not self.usable_gpus():
            stand_in = ('stand-in: one CPU core', 'shares main memory', NONE)
            rows += [(self.stand_in(i), *stand_in) for i in range(usable_cores())]
        return Table(rows, ['device', 'what it is', 'memory', 'compute capability'])
