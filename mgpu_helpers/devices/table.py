"""The table of this machine's devices, for a framework that has a name for each."""

from __future__ import annotations

from collections.abc import Callable, Collection

from ..display import NONE, Table
from .cores import usable_cores
from .driver import GPU, driver_gpus


def device_table(
    name_gpu: Callable[[int], object],
    usable: Collection[object],
    why_not: Callable[[GPU], str],
    name_core: Callable[[int], object],
) -> Table:
    """Tabulate every GPU that the driver reports and, where none is usable, a stand-in per core.

    A GPU that is not ``usable`` is listed, too, with the reason that ``why_not`` gives.
    """
    rows: list[tuple[object, ...]] = []
    for gpu in driver_gpus():
        device = name_gpu(gpu.index)
        what = gpu.name if device in usable else f'{gpu.name}, not used: {why_not(gpu)}'
        rows.append((device, what, f'{gpu.memory / 2**30:.0f} GiB', gpu.version))
    if not usable:
        stand_in = ('stand-in: one CPU core', 'shares main memory', NONE)
        rows += [(name_core(i), *stand_in) for i in range(usable_cores())]
    return Table(rows, ['device', 'what it is', 'memory', 'compute capability'])
