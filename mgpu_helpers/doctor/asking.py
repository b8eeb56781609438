"""Starts the processes that answer questions, and reads what they say."""

from __future__ import annotations

import json
import sys
import time

from ..processes import Group, ProcessFailed
from .child import MARK, Facts

# The slowest, on a busy machine: 14 s were seen for JupyterLab, which takes 2.5 s by itself. One
# that takes longer than this hangs.
PATIENCE = 60.0


class Answers:
    """What one process found, step by step, and how it ended.

    Parameters
    ----------
    steps : dict
        What was found by the steps that came to an end, by name.
    end : str
        How the process ended before its last step, if it did.

    Examples
    --------
    >>> answers = Answers({'numpy': {'version': '1.23.5'}}, 'was killed by signal 11 (SIGSEGV)')
    >>> answers['numpy']['version'], answers['mxnet']['error']
    ('1.23.5', 'was killed by signal 11 (SIGSEGV)')
    """

    def __init__(self, steps: dict[str, Facts], end: str = '') -> None:
        self._steps, self._end = steps, end

    def __getitem__(self, step: str) -> Facts:
        found = self._steps.get(step)
        return found or {'error': self._end or 'said nothing', 'missing': None}


class Questions:
    """Processes that answer at the same time; leaving the ``with`` block stops them.

    Examples
    --------
    >>> with Questions() as ask:
    ...     ask.start('cores')
    ...     ask('cores')['cores']['usable'] >= 1
    True
    """

    def __init__(self) -> None:
        self._running: dict[str, tuple[Group, float]] = {}
        self._answers: dict[str, Answers] = {}

    def __enter__(self) -> Questions:
        return self

    def __exit__(self, *error: object) -> None:
        for group, _ in self._running.values():
            group.stop()

    def start(self, question: str) -> None:
        """Start the process of a question, unless it was started before.

        Parameters
        ----------
        question : str
            One of ``child.QUESTIONS``.
        """
        if question in self._running:
            return
        # The same search path as here: what is broken here shall be broken there.
        code = (
            f'import sys; sys.path[:] = {sys.path!r}; '
            f'from mgpu_helpers.doctor import child; child.main({question!r})'
        )
        group = Group()
        group.start(question, [sys.executable, '-W', 'ignore', '-c', code])
        self._running[question] = group, time.monotonic() + PATIENCE

    def __call__(self, question: str) -> Answers:
        """Wait for an answer; the process is started now, if it was not before.

        Parameters
        ----------
        question : str
            One of ``child.QUESTIONS``.

        Returns
        -------
        Answers
        """
        if question not in self._answers:
            self.start(question)
            self._answers[question] = self._wait(*self._running[question])
        return self._answers[question]

    def _wait(self, group: Group, deadline: float) -> Answers:
        steps: dict[str, Facts] = {}

        def listen(_: str, line: str) -> bool:
            if line.startswith(MARK):
                step, facts = json.loads(line[len(MARK) :])
                steps[step] = facts
                return True
            return not line.strip()

        try:
            group.wait(on_line=listen, timeout=max(0.1, deadline - time.monotonic()))
        except ProcessFailed as failure:
            said = [line.strip() for line in group.members[0].lines]
            end = str(failure).split('\n')[0].removeprefix(f'{failure.name} ')
            # A signal has no last words of its own; an exit status has a traceback's last line.
            if failure.status > 0 and said:
                end = f'{end}: {said[-1]}'
            return Answers(steps, f'its process {end}')
        except TimeoutError:
            return Answers(steps, f'did not end within {PATIENCE:.0f} s')
        return Answers(steps)
