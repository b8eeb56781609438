"""Processes that start, run and end together: no hang, no orphan.

``Group`` watches any commands; ``run_workers`` calls a function in several new processes and gives
back what it returned in each. When one process fails, the others are stopped, and the error names
the one that failed first, with its own last words. When the starter is gone, however it died,
everything that it started ends.
"""

from .calls import run_workers, start_workers
from .group import SETTLE, Group, Member, ProcessFailed

__all__ = [
    'SETTLE',
    'Group',
    'Member',
    'ProcessFailed',
    'run_workers',
    'start_workers',
]
