"""What a process writes, read until it has ended: no stranger keeps its reader waiting.

A pipe ends when nobody holds its other side any more. What a process started in a session of its
own may hold that for ever, and cannot be reached by signals to the process group.
"""

from __future__ import annotations

import io
import os
import select
import sys
import threading
import warnings
from pathlib import Path
from typing import IO, Any

PATIENCE = 1000  # milliseconds for those that were killed to let go of the pipe


class _Output(io.RawIOBase):
    """The reading side of a pipe, until the process that writes has ended."""

    def __init__(self, pipe: IO[bytes], ended: threading.Event) -> None:
        self._fd, self._ended = pipe.fileno(), ended
        self._left: int | None = None  # from the end on, bytes that the process itself has written
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            if self._left is None and self._ended.is_set():
                self._left = _waiting(self._fd)
            if self._left:
                count = os.readv(self._fd, [memoryview(buffer)[: self._left]])
                self._left -= count
                return count
            events = self._poll.poll(PATIENCE)
            if self._left is not None:
                return 0
            if events:
                return os.readv(self._fd, [buffer])


def read_until(pipe: IO[bytes], ended: threading.Event) -> IO[bytes]:
    """Give a pipe that ends when its process has: when ``ended`` is set, and all that is read."""
    return io.BufferedReader(_Output(pipe, ended)) if hasattr(select, 'poll') else pipe


def _waiting(fd: int) -> int:
    """Count the bytes that wait in a pipe."""
    import fcntl  # Windows has neither
    import termios

    return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, bytes(4)), sys.byteorder)


def strangers(pipe: IO[bytes], group: int) -> list[str]:
    """Name those outside a process group that can write to a pipe, where /proc tells."""
    if not hasattr(select, 'poll'):
        return []
    poll = select.poll()
    poll.register(pipe.fileno(), 0)
    if poll.poll(0):  # it is closed on the other side
        return []
    found = []
    name = f'pipe:[{os.fstat(pipe.fileno()).st_ino}]'
    for process in Path('/proc').glob('[0-9]*'):
        try:
            mine = int(process.name) == os.getpid() or os.getpgid(int(process.name)) == group
            for fd in () if mine else (process / 'fd').iterdir():
                if os.readlink(fd) == name and fd.lstat().st_mode & 0o200:
                    found.append(f'{process.name} ({(process / "comm").read_text().strip()})')
                    break
        except OSError:
            continue  # it has ended, or is not ours to look into
    return found


def tell_of(strangers: list[str], name: str) -> None:
    """Warn of those that one who has ended left behind, once."""
    if strangers:
        warnings.warn(
            f'{name} has ended, but not what it started in a session of its own, which holds its '
            f'output and cannot be stopped from here: process {", ".join(strangers)}. End it with '
            'kill',
            RuntimeWarning,
            stacklevel=3,
        )
        strangers.clear()
