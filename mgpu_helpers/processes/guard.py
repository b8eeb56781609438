"""Ends a process, and all that it started, when the one who started it is gone.

``Leash.command`` puts a few lines of Python in front of a command. They leave a guard behind in the
process group of the command and then become the command. The guard waits at a pipe, of which only
the starter holds the other end: when that closes, by whatever end of the starter, the guard kills
the process group, and (on Linux) what the command started in other groups.
"""

from __future__ import annotations

import contextlib
import os
import sys
import weakref
from collections.abc import Sequence
from typing import IO

# 16 ms before the command begins. Without fork (Windows) there is no guard here.
LEASH = """
import os, signal, sys
pipe, nothing = int(sys.argv[1]), os.open(os.devnull, os.O_RDWR)
try:
    if os.fork() == 0:
        if os.fork():  # the guard's parent ends: else a command could wait for the guard, its child
            os._exit(0)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # it stays as long as one of the group does
        pipe = os.dup(pipe)
        for fd in range(3):
            os.dup2(nothing, fd)  # or who reads the command's output would wait for the guard, too
        while os.read(pipe, 4096):  # nothing ever comes; the end comes when the other side closes
            pass
        parents, below = {}, [os.getpgrp()]  # the command, which has begun the group
        for number in filter(str.isdigit, os.listdir('/proc') if os.path.isdir('/proc') else []):
            try:
                with open(f'/proc/{number}/stat') as stat:
                    parents[int(number)] = int(stat.read().rpartition(')')[2].split()[1])
            except OSError:  # it has just ended
                pass
        for pid in below:  # what it has started in groups of their own: a notebook's kernel
            below += [child for child, parent in parents.items() if parent == pid]
        # Not itself, while its parent is still there (seen once in 800, the starter gone at once).
        for pid in set(below[1:]) - {os.getpid()}:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        os.killpg(0, signal.SIGKILL)
    unguarded = os.wait()[1]
except OSError as error:
    unguarded = True
    print(f'{sys.argv[2]} was not started: could not start its watchdog ({error.strerror}). End '
        'other processes, or raise the limit (ulimit -u; in a container, that of pids)',
        file=sys.stderr)
if unguarded:
    os._exit(126)
os.close(pipe)
try:
    os.execvp(sys.argv[2], sys.argv[2:])
except OSError as error:
    print(f'{sys.argv[2]}: {error.strerror}', file=sys.stderr)
    os._exit(127)
"""


class Leash:
    """The starter's end of the pipe; as long as it is open, the guards wait.

    ``others`` are more pipes whose closing tells somebody that the starter is gone.
    """

    def __init__(self) -> None:
        self.others: list[IO[bytes]] = []
        self._here: int | None = None
        self._there: int | None = None
        if hasattr(os, 'fork'):
            # Neither end goes to programs that we start: Python's pipes close on exec.
            self._there, self._here = os.pipe()
        _leashes.add(self)

    @property
    def fds(self) -> tuple[int, ...]:
        """What the command's process must inherit."""
        return () if self._there is None else (self._there,)

    def command(self, command: Sequence[str]) -> list[str]:
        """Put the guard in front of a command, for a session of its own with ``fds`` passed on."""
        if not hasattr(os, 'fork'):
            return list(command)
        if not self.fds:
            raise RuntimeError('this group has been stopped, and guards nobody: make another one')
        # Isolated (-I) and without site (-S): nothing of the user's runs in there, and it is fast.
        return [sys.executable, '-I', '-S', '-c', LEASH, str(self._there), *command]

    def close(self) -> None:
        """Let go: what still runs in the groups is killed."""
        for fd in (self._here, self._there):
            if fd is not None:
                with contextlib.suppress(OSError):
                    os.close(fd)
        self._here = self._there = None

    def ends(self) -> list[int]:
        """List the open files whose closing tells that we are gone."""
        others = [pipe.fileno() for pipe in self.others if not pipe.closed]
        return others if self._here is None else [*others, self._here]


_leashes: weakref.WeakSet[Leash] = weakref.WeakSet()


def _in_forked_child() -> None:
    """Let a child that the starter forks, and that may outlive it, hold no leash."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for leash in _leashes:
        for fd in leash.ends():
            os.dup2(nothing, fd, inheritable=False)
    os.close(nothing)


if hasattr(os, 'register_at_fork'):
    os.register_at_fork(after_in_child=_in_forked_child)
