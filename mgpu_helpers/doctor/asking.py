"""Starts the processes that take the steps of ``probes``, and reads what they found."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterable

from ..processes import Group, ProcessFailed, python_with
from .probes import JUPYTER, KERNELS, MARK, MODULES, TRAININGS, Facts

# Seconds for a step. The slowest, the training, took 14 s on two cores at a load of 6.6.
LIMIT = 60.0
BY_PYTORCH = ('torch', 'train torch')
# What one process takes, so that what several load is loaded once, and MXNet and PyTorch, whose
# libraries could get in each other's way, apart; PyTorch may have another Python, too. A training
# waits there until it is asked for.
TOGETHER = (
    ('numpy', 'mxnet', 'd2l', *MODULES, 'cores', 'train mxnet'),
    BY_PYTORCH,
    (*JUPYTER, *KERNELS, 'driver'),
)


def _python_of(step: str) -> str:
    """The Python that takes a step: where PyTorch has an environment of its own, that one."""
    return (step in BY_PYTORCH and python_with('torch')) or sys.executable


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
        python, code = _python_of(steps[0]), ''
        if python == sys.executable:  # what is broken here shall be broken there
            code = f'import sys; sys.path[:] = {sys.path!r}; '
        code += f'from mgpu_helpers.doctor import probes; probes.main(*{steps})'
        group = Group()
        group.start(', '.join(steps), [python, '-W', 'ignore', '-c', code], given=b'')
        self._asked.update(dict.fromkeys(steps, (group, steps)))

    def __call__(self, step: str) -> Facts:
        if step not in self._asked:
            self._start(step)
        while step not in self._found:
            self._listen(step)
        return self._found[step]

    def _listen(self, step: str) -> None:
        """Note what a process finds, up to this; the steps after one that ended it get one each."""
        group, steps = self._asked[step]
        left, deadline = [each for each in steps if each not in self._found], self._deadline()
        if step in TRAININGS:
            stdin = group.members[0].process.stdin
            assert stdin is not None  # it was given something
            with contextlib.suppress(OSError):  # it has ended, which will be told
                stdin.write(b'\n')
                stdin.flush()

        def listen(_: str, line: str) -> bool:
            nonlocal deadline
            if line.startswith(MARK):
                self._found[left.pop(0)] = json.loads(line[len(MARK) :])
                deadline = self._deadline()
            return line.startswith(MARK) or not line.strip()

        def check() -> None:
            if step in self._found:
                raise InterruptedError
            if time.monotonic() > deadline:
                raise TimeoutError

        end = 'its process said nothing'
        try:
            group.wait(on_line=listen, check=check)
        except InterruptedError:  # by ourselves: it may go on
            return
        except TimeoutError:
            end = f'did not end within {self._limit:.0f} s'
            group.stop()
        except ProcessFailed as failure:
            words = str(failure).split('\n')[0].removeprefix(failure.name).strip()
            said = [line.strip() for line in group.members[0].lines]
            # A signal has no last words of its own; an exit status has a traceback's last line.
            last = f': {said[-1]}' if failure.status > 0 and said else ''
            end = f'its process {words}{last}'
        if left:
            self._found[left[0]] = {'error': end, 'missing': None}
        for each in left[1:]:
            self._start(each)

    def _deadline(self) -> float:
        return time.monotonic() + self._limit
