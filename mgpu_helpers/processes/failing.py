"""A worker of a cluster that fails ends at once, instead of waiting for the others.

When a process ends, Python frees MXNet's distributed store, and that waits until all workers are
done. A worker that has failed would wait there for the others, and these for its gradients: for
ever, and no launcher would learn that it has failed.
"""

from __future__ import annotations

import atexit
import os
import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from types import TracebackType


class Leaving(SystemExit):
    """``sys.exit`` with a status other than 0; knows whether it ended the program.

    ``final`` is the status of the last one that nobody caught, or None.
    """

    final: object = None

    def __del__(self) -> None:
        # One that is caught is cleared away by the code that caught it. One that is not, by the
        # interpreter, when no Python code is running any more.
        if sys._getframe().f_back is None:
            Leaving.final = self.code


def end_without_waiting() -> None:
    """From now on, an error that nobody catches, or ``sys.exit`` with a status, ends at once.

    Called when the package is imported in a worker; calling it again changes nothing.
    """
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _end_at_once
    if sys.exit is not _leave:
        sys.exit = _leave


def _end_at_once(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Show an error, and leave without freeing anything."""
    sys.__excepthook__(kind, error, trace)
    _end(1)


def _leave(status: object = None, /) -> NoReturn:
    """Take the place of ``sys.exit``."""
    if status is None or status == 0:
        raise SystemExit(status)
    atexit.unregister(_at_exit)
    atexit.register(_at_exit)  # the last one to be registered runs first: before MXNet's own
    raise Leaving(status)


def _at_exit() -> None:
    if Leaving.final is not None:  # the message of one that is no number is printed by then
        _end(Leaving.final & 0xFF if isinstance(Leaving.final, int) else 1)


def _end(status: int) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)
