"""What was found: rows with a verdict and the command that mends it; as a table, HTML or JSON."""

from __future__ import annotations

import json
import re
import shutil
import textwrap
from dataclasses import dataclass
from typing import Any, NamedTuple

import click
from tabulate import tabulate

OK, WARNING, FAILED, NOT_NEEDED = 'ok', 'warning', 'failed', 'not needed'
COLOURS = {OK: 'green', WARNING: 'yellow', FAILED: 'red', NOT_NEEDED: None}
HEADERS = ('check', 'verdict', 'what was found')
WIDEST, NARROWEST = 100, 60  # columns of a table, also where the terminal has more, or fewer
PADDING = 2  # what tabulate adds to a title, at least
WORD = re.compile(r"""(?:[^\s'"]|'[^']*'|"[^"]*")+""")  # of a shell


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
                        fix: make setup
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

    def text(self, width: int | None = None, colours: bool = False) -> str:
        """Give the table in ``width`` columns at most, by default the terminal's, up to 100.

        A command that is too long for its column is continued as a shell continues it, so that its
        lines can be pasted together.
        """
        if not self.rows:
            return 'There is nothing to look at here.'
        there = shutil.get_terminal_size((WIDEST, 24)).columns
        width = width or min(WIDEST, max(NARROWEST, there))
        names, verdicts = (
            max(len(title) + PADDING, *map(len, column))
            for title, column in zip(HEADERS, zip(*(row[:2] for row in self.rows)))
        )
        room = width - names - verdicts - 4

        def paint(text: str, **style: Any) -> str:
            return click.style(text, **style) if colours else text

        cells = []
        for row in self.rows:
            lines = textwrap.wrap(row.found, room, break_on_hyphens=False)
            lines += [paint(line, bold=True) for line in _fix_lines(row.fix, room)]
            cells.append([row.name, paint(row.verdict, fg=COLOURS[row.verdict]), '\n'.join(lines)])
        return tabulate(cells, HEADERS, disable_numparse=True)

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


def _fix_lines(fix: str, room: int) -> list[str]:
    """The commands, each begun on a line of its own; a long one continued by a backslash."""
    lines: list[str] = []
    for command in fix.splitlines():
        # No line may end inside quotes.
        whole = WORD.sub(lambda word: word[0].replace(' ', '\0'), command)
        parts = textwrap.wrap(
            whole,
            room - len(' \\'),
            initial_indent='     ' if lines else 'fix: ',
            subsequent_indent='       ',
            break_long_words=False,
            break_on_hyphens=False,
        )
        parts = [part.replace('\0', ' ') for part in parts]
        lines += [part + ' \\' for part in parts[:-1]] + parts[-1:]
    return lines
