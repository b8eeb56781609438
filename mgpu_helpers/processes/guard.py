"""Ends a process, and all that it started, when the one who started it is gone.

``Leash.command`` puts a few lines of Python in front of a command. They leave a guard behind in the
process group of the command and then become the command. The guard waits at a pipe, of which only
the starter holds the other end: when that closes, by whatever end of the starter, the guard kills
the process group.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence

# 16 ms before the command begins. Without fork (Windows) there is no guard here.
LEASH = """
import os, signal, sys
pipe = int(sys.argv[1])
if os.fork() == 0:
    if os.fork():  # the guard's parent ends: else a command could wait for the guard as its child
        os._exit(0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # it stays as long as one of the group does
    pipe, nothing = os.dup(pipe), os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(nothing, fd)  # or whoever reads the command's output would wait for the guard, too
    while os.read(pipe, 4096):  # nothing ever comes; the end comes when the other side closes
        pass
    os.killpg(0, signal.SIGKILL)
os.wait()
os.close(pipe)
if pipe == 0:  # standard input was the leash, as it is behind ssh; now it is empty, not closed
    os.set_inheritable(os.open(os.devnull, os.O_RDONLY), True)
try:
    os.execvp(sys.argv[2], sys.argv[2:])
except OSError as error:
    print(f'{sys.argv[2]}: {error.strerror}', file=sys.stderr)
    os._exit(127)
"""


class Leash:
    """The starter's end of the pipe; as long as it is open, the guards wait."""

    def __init__(self) -> None:
        self._here: int | None = None
        self._there: int | None = None
        if hasattr(os, 'fork'):
            # Neither end goes to other processes by itself: Python's pipes close on exec.
            self._there, self._here = os.pipe()

    @property
    def fds(self) -> tuple[int, ...]:
        """What the command's process must inherit."""
        return () if self._there is None else (self._there,)

    def command(self, command: Sequence[str]) -> list[str]:
        """Put the guard in front of a command, for a session of its own with ``fds`` passed on."""
        if not self.fds:
            return list(command)
        # Isolated (-I) and without site (-S): nothing of the user's runs in there, and it is fast.
        return [sys.executable, '-I', '-S', '-c', LEASH, str(self._there), *command]

    def close(self) -> None:
        """Let go: what still runs in the groups is killed."""
        for fd in (self._here, self._there):
            if fd is not None:
                with contextlib.suppress(OSError):
                    os.close(fd)
        self._here = self._there = None
