"""Starts the processes that take the steps of ``probes``, and reads what they found."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterable

from ..processes import Group, ProcessFailed
from .probes import JUPYTER, LATE, MARK, MODULES, Facts

# Seconds for a step. The slowest, the training, took 14 s on two cores at a load of 6.6.
LIMIT = 60.0
# What one process takes, so that what several load is loaded once, and MXNet and PyTorch, whose
# libraries could get in each other's way, apart. Jupyter alone takes as long as either of them.
TOGETHER = (
    ('numpy', 'mxnet', 'd2l', *MODULES),
    ('torch', *JUPYTER),
    ('kernel', 'driver', 'cores'),
)


class Questions:
    """Processes that take steps at the same time; leaving the ``with`` block stops them.

    ``ask('numpy')`` gives what a step found, and under ``'error'`` why it did not come to its end.
    """

    def __init__(self, limit: float = LIMIT) -> None:
        self._limit = limit
        self._found: dict[str, Facts] = {}
        self._asked: dict[str, tuple[Group, tuple[str, ...]]] = {}

    def __enter__(self) -> Questions:
        return self

    def __exit__(self, *error: object) -> None:
        for group, _ in self._asked.values():
            group.stop()

    def start(self, steps: Iterable[str]) -> None:
        """Start the processes that take these steps, without waiting for them."""
        waiting = set(steps) - set(self._asked)
        for together in TOGETHER:
            with contextlib.suppress(OSError):  # no more processes: whoever asks will be told
                self._start(*(step for step in together if step in waiting))

    def _start(self, *steps: str) -> None:
        if not steps:
            return
        # The same search path as here: what is broken here shall be broken there.
        code = (
            f'import sys; sys.path[:] = {sys.path!r}; '
            f'from mgpu_helpers.doctor import probes; probes.main({self._limit}, *{steps})'
        )
        group = Group()
        group.start(', '.join(steps), [sys.executable, '-W', 'ignore', '-c', code])
        self._asked.update(dict.fromkeys(steps, (group, steps)))

    def __call__(self, step: str) -> Facts:
        if step not in self._asked:
            self._start(step)
        while step not in self._found:
            self._listen(*self._asked[step])
        return self._found[step]

    def _listen(self, group: Group, steps: tuple[str, ...]) -> None:
        """Note what a process finds; the steps after one that ended it get one each."""
        left, end = list(steps), 'its process said nothing'

        def listen(_: str, line: str) -> bool:
            nonlocal end
            if line.startswith(MARK):
                self._found[left.pop(0)] = json.loads(line[len(MARK) :])
            elif line.startswith(LATE):
                end = f'did not end within {self._limit:.0f} s'
            return line.startswith((MARK, LATE)) or not line.strip()

        try:
            group.wait(on_line=listen)
        except ProcessFailed as failure:
            if not end.startswith('did not'):
                words = str(failure).split('\n')[0].removeprefix(failure.name).strip()
                said = [line.strip() for line in group.members[0].lines]
                # A signal has no last words of its own; an exit status has a traceback's last line.
                last = f': {said[-1]}' if failure.status > 0 and said else ''
                end = f'its process {words}{last}'
        if left:
            self._found[left[0]] = {'error': end, 'missing': None}
        for step in left[1:]:
            self._start(step)
