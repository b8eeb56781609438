"""What was found: rows with a verdict and the command that mends it; as a table, HTML or JSON."""

from __future__ import annotations

import json
import shutil
import textwrap
from dataclasses import dataclass
from typing import NamedTuple

import click
from tabulate import tabulate

OK, WARNING, FAILED, NOT_NEEDED = 'ok', 'warning', 'failed', 'not needed'
COLOURS = {OK: 'green', WARNING: 'yellow', FAILED: 'red', NOT_NEEDED: None}
HEADERS = ('check', 'verdict', 'what was found')
WIDEST, NARROWEST = 100, 60  # columns of a table, also where the terminal has more, or fewer
PADDING = 2  # what tabulate adds to a title, at least


class Row(NamedTuple):
    """One thing that was looked at."""

    name: str  # such as 'MXNet' or 'data mnist'
    verdict: str  # 'ok', 'warning', 'failed' or 'not needed'
    found: str  # what is the case, in a sentence or two
    fix: str = ''  # the command that mends it, to be pasted into a shell


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
        names, verdicts = (
            max(len(title) + PADDING, *map(len, column))
            for title, column in zip(HEADERS, zip(*(row[:2] for row in self.rows)))
        )
        room = min(WIDEST, max(NARROWEST, there)) - names - verdicts - 4
        cells = []
        for name, verdict, found, _ in self.rows:
            painted = click.style(verdict, fg=COLOURS[verdict]) if colours else verdict
            cells.append([name, painted, textwrap.fill(found, room, break_on_hyphens=False)])
        table = tabulate(cells, HEADERS, disable_numparse=True)
        fixes = [[row.name, row.fix] for row in self.rows if row.fix]
        return table + f'\n\nWhat mends it:\n{tabulate(fixes, tablefmt="plain")}' * bool(fixes)

    def summary(self) -> str:
        """Say in a sentence how many things are wrong, and how long it took."""
        failed, warnings = len(self.failed), len(self.warnings)
        bad = [f'{failed} failed'] * bool(failed)
        bad += [f'{warnings} warning{"s" * (warnings > 1)}'] * bool(warnings)
        checks = f'{len(self.rows)} check{"s" * (len(self.rows) != 1)}'
        return f'{checks} in {self.seconds:.1f} s: {", ".join(bad) or "nothing is wrong"}.'

    def as_json(self) -> str:
        """Give an object with ``ok`` (nothing failed), ``seconds``, ``versions`` and ``checks``."""
        found = {
            'ok': not self.failed,
            'seconds': round(self.seconds, 2),
            'versions': self.versions,
            'checks': [row._asdict() for row in self.rows],
        }
        return json.dumps(found, indent=2, ensure_ascii=False)
