"""``doctor`` on the command line: a bar while it looks, then the table; the exit status tells."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

import click

from .examination import CHECKS, examine


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
