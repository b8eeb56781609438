"""Takes the checks one after the other, while the processes that they ask work side by side."""

from __future__ import annotations

import contextlib
import platform
import sys
import time
from collections.abc import Callable, Collection, Iterator
from importlib.metadata import PackageNotFoundError, version

import click

from . import conditions, hardware, software
from .asking import Questions
from .probes import JUPYTER, KERNELS, MODULES, last_line
from .report import FAILED, Report, Row

# By the word that chooses each, in the order of the table: a function that yields rows, and the
# steps that it is certain to ask for.
CHECKS: dict[str, tuple[Callable[[Questions], Iterator[Row]], tuple[str, ...]]] = {
    'python': (software.python, ()),
    'numpy': (software.numpy, ('numpy',)),
    'mxnet': (software.mxnet, ('mxnet', 'd2l')),
    'torch': (software.torch, ('torch', 'train torch')),
    'packages': (software.packages, MODULES),
    'jupyter': (software.jupyter, JUPYTER),
    'kernel': (software.kernel, tuple(KERNELS)),
    'driver': (hardware.driver, ('driver',)),
    'gpus': (hardware.gpus, ('driver',)),
    'cuda': (hardware.cuda, ()),
    'cores': (conditions.cores, ('cores',)),
    'settings': (conditions.settings, ()),
    'data': (conditions.data, ()),
    'training': (conditions.training, ('mxnet', 'train mxnet')),
}
PACKAGES = (
    'mgpu-helpers', 'numpy', 'mxnet', 'mxnet-cu112', 'd2l', 'torch', 'matplotlib', 'scikit-learn',
    'jupyterlab', 'ipykernel', 'nbval',
)  # fmt: skip


def examine(only: Collection[str] = ()) -> Report:
    """Find out what this machine can do, and what is wrong; ``.failed`` lists what failed.

    ``only`` takes words of ``CHECKS``. A line shows what is being looked at.
    """
    for word in only:
        if word not in CHECKS:
            raise ValueError(f'there is no check {word!r}; there are {", ".join(CHECKS)}')
    chosen = {word: check for word, check in CHECKS.items() if not only or word in only}
    show, began, rows = _line(), time.monotonic(), list[Row]()
    with Questions() as ask:
        ask.start(step for _, steps in chosen.values() for step in steps)
        for i, (word, (look, _)) in enumerate(chosen.items(), 1):
            show(f'looking at: {word} ({i} of {len(chosen)})')
            try:
                rows += look(ask)
            except Exception as error:  # of a check itself is a row, too
                rows.append(Row(word, FAILED, f'this check itself failed: {last_line(error)}'))
        show('')
    return Report(rows, _versions(), time.monotonic() - began)


def _versions() -> dict[str, str]:
    found = {'python': platform.python_version(), 'system': platform.platform()}
    for name in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _line() -> Callable[[str], None]:
    """Something that shows a line, in a notebook and on a terminal."""
    try:
        from ..display import Line
    except Exception:  # tqdm is not there, or broken, as a row will say
        return lambda text: None
    return Line().show


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
    report = examine(only)
    if as_json:
        click.echo(report.as_json())
    else:
        click.echo(report.text(colours=sys.stdout.isatty()))
        click.echo(report.summary())
    sys.exit(1 if report.failed else 0)
