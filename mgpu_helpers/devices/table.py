"""The table of devices: the same columns and words in every framework."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import checks
from ..display import Table


def device_table(
    listed: Sequence[Any], about: Callable[[Any], tuple[str, int, Sequence[int]] | None]
) -> Table:
    """Describe devices, one in each row.

    ``about(device)`` gives a GPU's name, bytes of memory and compute capability ``(8, 6)``; None
    says that the device is a stand-in.
    """
    checks.device_list(listed)
    rows: list[tuple[object, ...]] = []
    for device in listed:
        gpu = about(device)
        if gpu is None:
            rows.append((device, 'stand-in: one CPU core', 'shares main memory', '-'))
        else:
            name, memory, (major, minor) = gpu
            rows.append((device, name, f'{memory / 2**30:.0f} GiB', f'{major}.{minor}'))
    return Table(rows, ['device', 'what it is', 'memory', 'compute capability'])
