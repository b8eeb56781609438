"""What was found: rows with a verdict and the command that mends it; as a table, HTML or JSON."""

from __future__ import annotations

import json
import re
import shutil
import textwrap
from typing import Any, NamedTuple

import click
from tabulate import tabulate

OK, WARNING, FAILED, NOT_NEEDED = 'ok', 'warning', 'failed', 'not needed'
COLOURS = {OK: 'green', WARNING: 'yellow', FAILED: 'red', NOT_NEEDED: None}
WIDTH = 100  # columns of a table, also where the terminal has more
NARROWEST = 60
PADDING = 2  # what tabulate adds to a title, at least
WORD = re.compile(r"""(?:[^\s'"]|'[^']*'|"[^"]*")+""")  # of a shell


class Row(NamedTuple):
    """One thing that was looked at.

    Attributes
    ----------
    name : str
        What, for example 'MXNet' or 'data mnist'.
    verdict : str
        'ok', 'warning', 'failed' or 'not needed'.
    found : str
        What is the case, in a sentence or two.
    fix : str
        The command that mends it, to be pasted into a shell; empty if there is none.
    """

    name: str
    verdict: str
    found: str
    fix: str = ''


class Report:
    """The rows of an examination; prints as a table, and shows as one in a notebook.

    Parameters
    ----------
    rows : list of Row
        In the order in which they are shown.
    versions : dict of str to str
        Of what is installed.
    seconds : float
        How long it took.

    Attributes
    ----------
    failed : list of Row
        Those that fail; empty if the course can be worked through here.
    warnings : list of Row
        Those with which it can, but not as it should.

    Examples
    --------
    >>> report = Report([Row('NumPy', 'failed', 'it is missing', 'make setup')], {}, 0.1)
    >>> report
    check    verdict    what was found
    -------  ---------  ----------------
    NumPy    failed     it is missing
                        fix: make setup
    >>> [row.fix for row in report.failed]
    ['make setup']
    """

    def __init__(self, rows: list[Row], versions: dict[str, str], seconds: float) -> None:
        self.rows, self.versions, self.seconds = list(rows), dict(versions), seconds

    @property
    def failed(self) -> list[Row]:
        return [row for row in self.rows if row.verdict == FAILED]

    @property
    def warnings(self) -> list[Row]:
        return [row for row in self.rows if row.verdict == WARNING]

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        from ..display import Table

        return Table(self.rows, ['check', 'verdict', 'what was found', 'fix'])._repr_html_()

    def text(self, width: int | None = None, colours: bool = False) -> str:
        """Give the table as text.

        Parameters
        ----------
        width : int, optional
            Columns at most; by default those of the terminal, up to 100.
        colours : bool
            Whether verdicts and commands are coloured for a terminal.

        Returns
        -------
        str
            A command that is too long for its column is continued as a shell continues it, so
            that its lines can be pasted together.

        Examples
        --------
        >>> print(Report([Row('d2l', 'ok', '1.0.3')], {}, 0.1).text())
        check    verdict    what was found
        -------  ---------  ----------------
        d2l      ok         1.0.3
        """
        if not self.rows:
            return 'There is nothing to look at here.'
        width = width or min(WIDTH, max(NARROWEST, shutil.get_terminal_size((WIDTH, 24)).columns))
        headers = ['check', 'verdict', 'what was found']
        names, verdicts = (
            max(len(title) + PADDING, *map(len, column))
            for title, column in zip(headers, zip(*(row[:2] for row in self.rows)))
        )
        room = width - names - verdicts - 4

        def paint(text: str, **style: Any) -> str:
            return click.style(text, **style) if colours else text

        cells = [
            [
                row.name,
                paint(row.verdict, fg=COLOURS[row.verdict]),
                '\n'.join(
                    textwrap.wrap(row.found, room, break_on_hyphens=False)
                    + [paint(line, bold=True) for line in _fix_lines(row.fix, room)]
                ),
            ]
            for row in self.rows
        ]
        return tabulate(cells, headers, disable_numparse=True)

    def summary(self) -> str:
        """Say in a sentence how many things are wrong, and how long it took.

        Returns
        -------
        str

        Examples
        --------
        >>> Report([Row('d2l', 'ok', '1.0.3')], {}, 0.12).summary()
        '1 check in 0.1 s: nothing is wrong.'
        """
        bad = [
            f'{len(rows)} {word if len(rows) == 1 else words}'
            for rows, word, words in (
                (self.failed, 'failed', 'failed'),
                (self.warnings, 'warning', 'warnings'),
            )
            if rows
        ]
        checks = f'{len(self.rows)} check' + 's' * (len(self.rows) != 1)
        return f'{checks} in {self.seconds:.1f} s: {", ".join(bad) or "nothing is wrong"}.'

    def as_json(self) -> str:
        """Give all of it as JSON.

        Returns
        -------
        str
            An object with ``ok`` (whether nothing failed), ``seconds``, ``versions`` (name to
            version) and ``checks``, a list of objects with ``name``, ``verdict``, ``found`` and
            ``fix``, each a string.

        Examples
        --------
        >>> json.loads(Report([Row('d2l', 'ok', '1.0.3')], {}, 0.1).as_json())['ok']
        True
        """
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
