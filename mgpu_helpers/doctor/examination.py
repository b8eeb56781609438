"""Takes the checks one after the other, while the processes that they ask work side by side."""

from __future__ import annotations

import contextlib
import platform
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

from . import files, hardware, settings, software, training
from .asking import Questions
from .child import last_line
from .report import FAILED, Report, Row


class Check(NamedTuple):
    """A function that yields rows, and the questions that it is certain to ask."""

    rows: Callable[[Questions], Iterator[Row]]
    questions: tuple = ()


# By the word that chooses it, in the order of the table. The training comes last: it alone.
CHECKS = {
    'python': Check(software.python),
    'numpy': Check(software.numpy, ('mxnet',)),
    'mxnet': Check(software.mxnet, ('mxnet',)),
    'torch': Check(software.torch, ('torch',)),
    'packages': Check(software.packages, ('packages',)),
    'jupyter': Check(software.jupyter, ('jupyter',)),
    'kernel': Check(software.kernel, ('kernel',)),
    'driver': Check(hardware.driver, ('driver',)),
    'gpus': Check(hardware.gpus, ('driver',)),
    'cuda': Check(hardware.cuda),
    'cores': Check(hardware.cores, ('cores',)),
    'settings': Check(settings.settings),
    'data': Check(files.data),
    'training': Check(training.training, ('mxnet',)),
}
PACKAGES = (
    'mgpu-helpers', 'numpy', 'mxnet', 'mxnet-cu112', 'd2l', 'torch', 'matplotlib', 'scikit-learn',
    'jupyterlab', 'ipykernel', 'nbval',
)  # fmt: skip


def examine(only: list[str] | None = None, progress: Callable[[str], None] | None = None) -> Report:
    """Find out what this machine can do, and what is wrong.

    Parameters
    ----------
    only : list of str, optional
        Words from ``CHECKS``; by default all of them.
    progress : callable, optional
        Called with the word of each check when it begins, and with ``''`` at the end. In a
        notebook, a line shows it by default.

    Returns
    -------
    Report
        A table; ``.failed`` lists what failed.

    Raises
    ------
    ValueError
        If there is no such check.

    Examples
    --------
    >>> report = examine(['python', 'settings'])
    >>> [row.name for row in report.rows], report.failed
    (['Python', 'settings', 'allocator'], [])
    """
    for word in only or ():
        if word not in CHECKS:
            raise ValueError(f'there is no check {word!r}; there are {", ".join(CHECKS)}')
    chosen = {word: check for word, check in CHECKS.items() if not only or word in only}
    progress = progress or _line()
    began, rows = time.monotonic(), []
    with Questions() as ask:
        for question in {q: None for check in chosen.values() for q in check.questions}:
            with contextlib.suppress(OSError):  # no more processes: the check itself will say so
                ask.start(question)
        for word, check in chosen.items():
            progress(word)
            rows += _take(word, check, ask)
        progress('')
    return Report(rows, _versions(), time.monotonic() - began)


def _take(word: str, check: Check, ask: Questions) -> list[Row]:
    """The rows of a check; an error inside it is a row, too."""
    rows = []
    try:
        for row in check.rows(ask):
            rows.append(row)
    except Exception as error:
        rows.append(Row(word, FAILED, f'this check itself failed: {last_line(error)}'))
    return rows


def _versions() -> dict[str, str]:
    found = {'python': platform.python_version(), 'system': platform.platform()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _line() -> Callable[[str], None]:
    """In a notebook, a line that says what is being looked at."""
    from ..display import Line, in_notebook

    if not in_notebook():
        return lambda word: None
    line = Line()
    return lambda word: line.show(f'looking at: {word}' if word else '')
