"""The terminal of ``launch``: lines with the name of who printed them, and the signals that end."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

import click

if TYPE_CHECKING:
    from types import FrameType

COLOURS = {'scheduler': 'yellow', 'server': 'magenta', 'worker': 'cyan'}
SIGNALS = ('SIGINT', 'SIGTERM', 'SIGHUP')


class Ended(BaseException):
    """A signal, ``number``, asked us to end; no ``except Exception`` on the way may keep it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def show(name: str, text: str) -> None:
    """Print a line of a process after its name, in a colour where there is a terminal.

    Of a bar that was drawn over and over in one line, only the last one remains.
    """
    colour = None if 'NO_COLOR' not in os.environ else False
    label = click.style(f'[{name}]', fg=COLOURS.get(name.split()[0]))
    click.echo(f'{label} {text.rpartition(chr(13))[2]}', color=colour)


@contextlib.contextmanager
def signals_end() -> Iterator[None]:
    """Within this block, SIGINT, SIGTERM and SIGHUP raise ``Ended``, so that all is cleaned up.

    A signal that is ignored remains so: ``nohup`` means it.
    """

    def end(number: int, frame: FrameType | None) -> NoReturn:
        raise Ended(number)

    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (getattr(signal, name) for name in SIGNALS if hasattr(signal, name)):
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
