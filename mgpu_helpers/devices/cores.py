"""How many CPU cores there are for us: one stand-in device is one core, in every framework."""

from __future__ import annotations

import functools


@functools.cache
def usable_cores() -> int:
    """Count the CPU cores that this process may use; affinity and container limits hold."""
    from joblib import cpu_count

    return cpu_count()
