"""A group of processes: started, watched and stopped together."""

from __future__ import annotations

import collections
import contextlib
import os
import queue
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, Self

from . import worker
from .guard import Leash

# After a first failure we listen this long for others: a process that lost its partner often
# speaks first, and a moment later the partner's own end arrives (0.1 s seen).
SETTLE = 1.0
# A process that is told to end gets this long before it is killed.
GRACE = 3.0
# How long after a process's end we still read its output: what it started in a session of its own,
# where no signal of ours reaches, may hold the pipe open.
PATIENCE = 1.0
LAST_LINES = 15
# A longer line is cut, and who prints faster than its lines are taken waits: 300 MB without an end,
# or 200 MB while nobody read, would otherwise lie in our memory.
LONGEST_LINE, MOST_EVENTS = 2**16, 1000
NOTHING = object()  # no result has come, which is not the same as None
KILL = getattr(signal, 'SIGKILL', signal.SIGTERM)  # Windows has the second only


class ProcessFailed(RuntimeError):
    """Process ``name`` of a group failed, and the others were stopped.

    ``status`` is its exit status, or minus the signal that killed it. ``others`` has, by name, the
    exit status of each other process that ended by itself, and None for one that was stopped.
    """

    def __init__(self, name: str, status: int, summary: str, details: str = '') -> None:
        super().__init__(f'{name} {summary}' + (f'\n\n{details.rstrip()}' if details else ''))
        self.name, self.status = name, status
        self.others: dict[str, int | None] = {}


@dataclass(eq=False)
class Member:
    """One process of a group: what it said, how it ended."""

    name: str
    process: subprocess.Popen[bytes]
    service: bool = False
    is_worker: bool = False  # one that owes a result
    status: int | None = None  # until it has ended
    error: tuple[float, str, str] | None = None  # time, summary, traceback, as worker.py sends it
    result: Any = NOTHING
    watcher: threading.Thread | None = None  # notes its end
    lines: collections.deque[str] = field(
        default_factory=lambda: collections.deque(maxlen=LAST_LINES)
    )

    def failure(self) -> ProcessFailed:
        """Put its end into words."""
        assert self.status is not None  # it has ended
        if self.error:
            _, summary, trace = self.error
            return ProcessFailed(self.name, self.status, f'failed with {summary}', trace)
        words = 'ended before its function had returned'
        if self.status > 0:
            words = f'ended with status {self.status}'
        elif self.status < 0:
            number = -self.status
            signal_name = signal.Signals(number).name if number in set(signal.Signals) else '?'
            words = f'was killed by signal {number} ({signal_name})'
        last = '\n'.join(self.lines)
        return ProcessFailed(self.name, self.status, words, last and f'Its last lines:\n{last}')


class Group:
    """Processes that live and die together; leaving the ``with`` block stops what still runs."""

    def __init__(self) -> None:
        self.members: list[Member] = []
        self._events: queue.Queue[tuple[Member, str, Any]] = queue.Queue(MOST_EVENTS)
        self._leash = Leash()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(
        self,
        name: str,
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
        payload: bytes | None = None,
        service: bool = False,
    ) -> Member:
        """Start one process, with ``env`` added to our environment; its end comes with ours.

        A ``payload`` makes it a worker (see ``worker.py``): it reads that first, and its standard
        output is taken for messages; all others have an empty standard input. A ``service`` only
        serves the others: when these have ended, it is stopped after ``GRACE`` seconds, which is no
        failure.
        """
        path = (env or {}).get('PATH', os.environ.get('PATH'))
        if shutil.which(command[0], path=path) is None:
            raise FileNotFoundError(f'there is no program {command[0]!r} to start as {name}')
        is_worker = payload is not None
        process = subprocess.Popen(
            self._leash.command(command),
            stdin=subprocess.PIPE if is_worker else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if is_worker else subprocess.STDOUT,
            env=os.environ | (env or {}),
            start_new_session=True,  # Ctrl-C reaches us and not it
            pass_fds=self._leash.fds,
        )
        member = Member(name, process, service, is_worker)
        self.members.append(member)
        if process.stdin:
            self._leash.others.append(process.stdin)
        text = process.stderr if is_worker else process.stdout
        jobs: list[tuple[Callable[..., None], Any]] = [(self._read_lines, text)]
        if payload is not None:
            jobs += [(self._read_messages, process.stdout), (self._feed, payload)]
        readers = [threading.Thread(target=f, args=(member, x), daemon=True) for f, x in jobs]
        member.watcher = threading.Thread(target=self._watch, args=(member, readers), daemon=True)
        for thread in (*readers, member.watcher):
            thread.start()
        return member

    def _read_lines(self, member: Member, pipe: IO[bytes]) -> None:
        with pipe:
            while line := pipe.readline(LONGEST_LINE):
                self._events.put((member, 'line', line.decode(errors='replace').rstrip('\r\n')))

    def _read_messages(self, member: Member, pipe: IO[bytes]) -> None:
        with pipe:
            for kind, value in worker.receive(pipe):
                self._events.put((member, kind, value))

    def _feed(self, member: Member, payload: bytes) -> None:
        stdin = member.process.stdin
        assert stdin is not None  # start gave it a pipe
        with contextlib.suppress(BrokenPipeError):  # it has ended; its status says how
            stdin.write(len(payload).to_bytes(8, 'big') + payload)
            stdin.flush()  # and left open: its closing tells the process of our end

    def _watch(self, member: Member, readers: Sequence[threading.Thread]) -> None:
        if hasattr(os, 'waitid'):
            # While the dead process is not yet waited for, its number cannot belong to another.
            os.waitid(os.P_PID, member.process.pid, os.WEXITED | os.WNOWAIT)
            _signal_group(member.process, KILL)  # what it started must not outlive it
        status, waited = member.process.wait(), 0.0
        lines, *others = readers
        for other in others:
            other.join()
        # All that it wrote is read before its end is told; while nobody takes lines, time stands.
        while waited < PATIENCE and lines.is_alive():
            lines.join(0.01)
            waited += 0 if self._events.full() else 0.01
        self._events.put((member, 'end', status))

    def wait(
        self,
        on_line: Callable[[str, str], object] | None = None,
        timeout: float | None = None,
        settle: float = SETTLE,
        check: Callable[[], object] | None = None,
    ) -> None:
        """Wait until all have ended; when one fails, stop the others ``settle`` seconds later.

        Then ``ProcessFailed`` is raised, or, after ``timeout`` seconds, ``TimeoutError``.
        ``on_line(name, line)`` gets what a process printed. ``check()`` is called about ten times a
        second; what it raises ends the wait.
        """
        deadline = time.monotonic() + timeout if timeout else float('inf')
        end = float('inf')
        failed: list[Member] = []
        late: list[str] = []
        while self._running() and time.monotonic() < end:
            if not self.at_work:
                end = min(end, time.monotonic() + GRACE)
            elif check and not failed:
                check()
            if self.at_work and time.monotonic() > deadline:
                late = self.at_work
                break
            try:
                member, kind, value = self._events.get(timeout=0.1)
            except queue.Empty:
                continue
            if kind == 'end':
                member.status = value
                # What it sent has been read by now: its readers ended before its end was noted.
                if value or (member.is_worker and member.result is NOTHING):
                    failed.append(member)
                    end = min(end, time.monotonic() + settle)
            elif kind == 'line':
                member.lines.append(value)
                if on_line:
                    on_line(member.name, value)
            else:  # a worker's result, or its error
                setattr(member, kind, value)
        statuses = {member.name: member.status for member in self.members}
        self.stop()
        if failed:
            # A signal kills without a word and is never the consequence of another's error here;
            # of errors, the first one is the cause.
            failure = min(failed, key=lambda m: m.error[0] if m.error else 0).failure()
            statuses.pop(failure.name)
            failure.others = statuses
            raise failure
        if late:
            raise TimeoutError(f'{", ".join(late)} still at work after {timeout} seconds: stopped')

    def kill(self, name: str, number: int = KILL) -> None:
        """Send a signal, by default one that cannot be refused, to a process and all it started."""
        running = {member.name: member for member in self._running()}
        if name not in running:
            known = ', '.join(running) or 'none'
            raise ValueError(f'no process named {name!r} is running; those that are: {known}')
        _signal_group(running[name].process, number)

    def _running(self) -> list[Member]:
        return [member for member in self.members if member.status is None]

    @property
    def at_work(self) -> list[str]:
        """The names of those that still run, services left out."""
        return [member.name for member in self._running() if not member.service]

    def stop(self) -> None:
        """End every process that still runs: ask, and after ``GRACE`` seconds kill."""
        try:
            for member in self._running():
                _signal_group(member.process, signal.SIGTERM)
            deadline = time.monotonic() + GRACE
            while self._running() and time.monotonic() < deadline:
                self._note_an_end()
        finally:  # also when the user is impatient and presses Ctrl-C again
            for member in self._running():
                _signal_group(member.process, KILL)
            while self._running():
                self._note_an_end()
            for member in self.members:
                if member.process.stdin:
                    with contextlib.suppress(OSError):  # what was not sent has nobody to go to
                        member.process.stdin.close()
            self._leash.close()

    def _note_an_end(self) -> None:
        try:
            member, kind, value = self._events.get(timeout=0.1)
        except queue.Empty:
            # Ctrl-C may have come before a member's watcher was started, or after the news of its
            # end was fetched and before it was noted: then we would wait for ever (seen, with a
            # signal 0.1 s after the start).
            for member in self._running():
                if not (member.watcher and member.watcher.is_alive()):
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        member.status = member.process.wait(timeout=0)
            return
        if kind == 'end':
            member.status = value


def _signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    """Signal a process and all that it started, where there are process groups."""
    with contextlib.suppress(ProcessLookupError):
        if hasattr(os, 'killpg'):
            os.killpg(process.pid, number)
        else:
            process.terminate()
