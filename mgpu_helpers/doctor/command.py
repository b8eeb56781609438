"""Takes the checks one after the other, while the processes that they ask work side by side."""

from __future__ import annotations

import contextlib
import json
import platform
import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import click
from tabulate import tabulate

from . import answers, machine
from .answers import FAILED, OK, WARNING, Row
from .questions import JUPYTER, KERNELS, MODULES, Questions, last_line

# By the word that chooses each, in the order of the table: a function that yields rows, and the
# steps that it is certain to ask for.
CHECKS: dict[str, tuple[Callable[[Questions], Iterator[Row]], tuple[str, ...]]] = {
    'python': (answers.python, ()),
    'numpy': (answers.numpy, ('numpy',)),
    'mxnet': (answers.mxnet, ('mxnet', 'd2l')),
    'torch': (answers.torch, ('torch',)),
    'packages': (answers.packages, MODULES),
    'jupyter': (answers.jupyter, JUPYTER),
    'kernel': (answers.kernel, KERNELS),
    'driver': (machine.driver, ('driver',)),
    'gpus': (machine.gpus, ('driver',)),
    'cuda': (machine.cuda, ()),
    'cores': (machine.cores, ('cores',)),
    'settings': (machine.settings, ()),
    'data': (machine.data, ()),
    'training': (machine.training, ('mxnet',)),
}
PACKAGES = 'mgpu-helpers numpy mxnet mxnet-cu112 d2l torch matplotlib scikit-learn jupyterlab nbval'
COLOURS = {OK: 'green', WARNING: 'yellow', FAILED: 'red'}
HEADERS = ('check', 'verdict', 'what was found')
WIDEST, NARROWEST = 100, 60  # columns of a table, also where the terminal has more, or fewer


@dataclass(repr=False)
class Report:
    """The rows of an examination; prints as a table, and shows as one in a notebook.

    >>> Report([Row('NumPy', 'failed', 'it is missing', 'make setup')], {}, 0.1)
    check    verdict    what was found
    -------  ---------  ----------------
    NumPy    failed     it is missing
    <BLANKLINE>
    What mends it:
    NumPy  make setup
    """

    rows: list[Row]
    versions: dict[str, str]  # of what is installed
    seconds: float  # that it took

    @property
    def failed(self) -> list[Row]:
        """What keeps one from working through the course here."""
        return [row for row in self.rows if row.verdict == FAILED]

    @property
    def warnings(self) -> list[Row]:
        """What works, but not as it should."""
        return [row for row in self.rows if row.verdict == WARNING]

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        from ..display import Table

        return Table(self.rows, [*HEADERS, 'fix'])._repr_html_()

    def text(self, colours: bool = False) -> str:
        """Give the table, as wide as the terminal, up to 100 columns, and the commands below it.

        These are not wrapped, so that they can be pasted.
        """
        if not self.rows:
            return 'There is nothing to look at here.'
        there = shutil.get_terminal_size((WIDEST, 24)).columns
        room = min(WIDEST, max(NARROWEST, there)) - max(len(row.name) for row in self.rows) - 16
        cells = []
        for name, verdict, text, _ in self.rows:
            painted = click.style(verdict, fg=COLOURS.get(verdict)) if colours else verdict
            cells.append([name, painted, text])
        table = tabulate(cells, HEADERS, disable_numparse=True, maxcolwidths=[None, None, room])
        fixes = tabulate([[row.name, row.fix] for row in self.rows if row.fix], tablefmt='plain')
        return f'{table}\n\nWhat mends it:\n{fixes}' if fixes else table

    def summary(self) -> str:
        """Say in a sentence how many things are wrong, and how long it took."""
        counts = {'failed': len(self.failed), 'warnings': len(self.warnings)}
        wrong = ', '.join(f'{count} {what}' for what, count in counts.items() if count)
        checks = f'{len(self.rows)} check{"s" if len(self.rows) != 1 else ""}'
        return f'{checks} in {self.seconds:.1f} s: {wrong or "nothing is wrong"}.'

    def as_json(self) -> str:
        """Give an object with ``ok`` (nothing failed), ``seconds``, ``versions`` and ``checks``."""
        about: dict[str, object] = {'ok': not self.failed, 'seconds': round(self.seconds, 2)}
        about |= {'versions': self.versions, 'checks': [row._asdict() for row in self.rows]}
        return json.dumps(about, indent=2, ensure_ascii=False)


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
        ask.start({step for _, steps in chosen.values() for step in steps})
        for i, (word, (look, _)) in enumerate(chosen.items(), 1):
            show(f'looking at: {word} ({i} of {len(chosen)})')
            try:
                rows += look(ask)
            except Exception as error:  # of a check itself is a row, too
                rows.append(Row(word, FAILED, f'this check itself failed: {last_line(error)}'))
        show('')
    versions = {'python': platform.python_version(), 'system': platform.platform()}
    for name in PACKAGES.split():
        with contextlib.suppress(PackageNotFoundError):
            versions[name] = version(name)
    return Report(rows, versions, time.monotonic() - began)


def _line() -> Callable[[str], None]:
    """Something that shows a line, in a notebook and on a terminal."""
    try:
        from ..display import Line
    except Exception:  # tqdm is not there, or broken, as a row will say
        return lambda text: None
    return Line().show


@click.command()
@click.option('--only', multiple=True, type=click.Choice(list(CHECKS)), metavar='WORD',
              help=f'Only this check; can be repeated: {", ".join(CHECKS)}.')  # fmt: skip
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
        click.echo(f'{report.text(colours=sys.stdout.isatty())}\n{report.summary()}')
    sys.exit(1 if report.failed else 0)
