"""Takes the checks one after the other, while the processes that they ask work side by side."""

from __future__ import annotations

import contextlib
import platform
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

import click

from . import conditions, hardware, software
from .asking import Questions
from .probes import JUPYTER, MODULES, last_line
from .report import FAILED, Report, Row


class Check(NamedTuple):
    """A function that yields rows, and the steps that it is certain to ask for."""

    rows: Callable[[Questions], Iterator[Row]]
    steps: tuple[str, ...] = ()


# By the word that chooses it, in the order of the table.
CHECKS = {
    'python': Check(software.python),
    'numpy': Check(software.numpy, ('numpy',)),
    'mxnet': Check(software.mxnet, ('mxnet', 'd2l')),
    'torch': Check(software.torch, ('torch',)),
    'packages': Check(software.packages, MODULES),
    'jupyter': Check(software.jupyter, JUPYTER),
    'kernel': Check(software.kernel, ('kernel',)),
    'driver': Check(hardware.driver, ('driver',)),
    'gpus': Check(hardware.gpus, ('driver',)),
    'cuda': Check(hardware.cuda),
    'cores': Check(conditions.cores, ('cores',)),
    'settings': Check(conditions.settings),
    'data': Check(conditions.data),
    'training': Check(conditions.training, ('mxnet',)),
}
PACKAGES = (
    'mgpu-helpers', 'numpy', 'mxnet', 'mxnet-cu112', 'd2l', 'torch', 'matplotlib', 'scikit-learn',
    'jupyterlab', 'ipykernel', 'nbval',
)  # fmt: skip


def examine(only: list[str] | None = None, progress: Callable[[str], None] | None = None) -> Report:
    """Find out what this machine can do, and what is wrong; ``.failed`` lists what failed.

    ``only`` takes words of ``CHECKS``. ``progress`` is called with the word of each check when it
    begins, and with ``''`` at the end; in a notebook, a line shows it by default.
    """
    for word in only or ():
        if word not in CHECKS:
            raise ValueError(f'there is no check {word!r}; there are {", ".join(CHECKS)}')
    chosen = {word: check for word, check in CHECKS.items() if not only or word in only}
    progress = progress or _line()
    began, rows = time.monotonic(), list[Row]()
    with Questions() as ask:
        ask.start(step for check in chosen.values() for step in check.steps)
        for word, check in chosen.items():
            progress(word)
            try:
                rows += check.rows(ask)
            except Exception as error:  # of a check itself is a row, too
                rows.append(Row(word, FAILED, f'this check itself failed: {last_line(error)}'))
        progress('')
    return Report(rows, _versions(), time.monotonic() - began)


def _versions() -> dict[str, str]:
    found = {'python': platform.python_version(), 'system': platform.platform()}
    for name in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _line() -> Callable[[str], None]:
    """In a notebook, a line that says what is being looked at."""
    from ..display import Line, in_notebook

    line = Line() if in_notebook() else None
    return lambda word: line.show(f'looking at: {word}' if word else '') if line else None


@click.command()
@click.option(
    '--only',
    multiple=True,
    type=click.Choice(list(CHECKS)),
    metavar='WORD',
    help=f'Only this check, or these, if given several times: {", ".join(CHECKS)}.',
)
@click.option('--json', 'as_json', is_flag=True, help='The same for programs.')
def doctor(only: tuple[str, ...], as_json: bool) -> None:
    """Say what this machine can do, what is wrong, and which command mends it.

    The last check trains on one device and on two, to see what a second one brings. The exit
    status is 1 if something failed; a warning is no failure.
    """
    if hasattr(sys.stdout, 'reconfigure'):
        sys.stdout.reconfigure(errors='replace')  # a letter that the terminal does not know
    with _bar(len(set(only) or CHECKS)) as progress:
        report = examine(list(only), progress)
    if as_json:
        click.echo(report.as_json())
    else:
        click.echo(report.text(colours=sys.stdout.isatty()))
        click.echo(report.summary())
    sys.exit(1 if report.failed else 0)


@contextlib.contextmanager
def _bar(length: int) -> Iterator[Callable[[str], None]]:
    """On a terminal, a bar with the word of the check that is at work; elsewhere nothing."""
    if not sys.stderr.isatty():
        yield lambda word: None
        return
    with click.progressbar(
        length=length, label='looking', file=sys.stderr, item_show_func=str, show_eta=False
    ) as bar:
        steps = iter([0] + [1] * length)  # the first call begins the first check
        yield lambda word: bar.update(next(steps), word)
