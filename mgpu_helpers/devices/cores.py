"""The number of CPU cores we may use: one stand-in is one core, in every framework."""

from __future__ import annotations

import functools


@functools.cache
def usable_cores() -> int:
    """Count the CPU cores that this process may use, within its affinity and container limits."""
    from joblib import cpu_count

    return cpu_count()
