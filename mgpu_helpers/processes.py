"""Processes that start, run and end together: no hang, no orphan.

``Group`` watches any commands; ``run_workers`` calls a function in several new processes and gives
back what it returned in each. When one process fails, the others are stopped, and the error names
the one that failed first, with its own last words.
"""

import collections
import contextlib
import importlib
import io
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
import types

# After a first failure we listen this long for others: a process that lost its partner often
# speaks first, and a moment later the partner's own end arrives (0.1 s seen).
SETTLE = 1.0
# A process that is told to end gets this long before it is killed.
GRACE = 3.0
LAST_LINES = 15
_NOTHING = object()  # no result has come, which is not the same as None


class ProcessFailed(RuntimeError):
    """One process of a group failed, and the others were stopped.

    Attributes
    ----------
    name : str
        Which.
    status : int
        Its exit status; negative: the signal that killed it.
    """

    def __init__(self, name, status, summary, details=''):
        super().__init__(f'{name} {summary}' + (f'\n\n{details.rstrip()}' if details else ''))
        self.name, self.status = name, status


class Member:
    """One process of a group: its name, its ``Popen``, its last lines, what it sent."""

    def __init__(self, name, process):
        self.name, self.process = name, process
        self.lines = collections.deque(maxlen=LAST_LINES)
        self.status = None  # until it has ended
        self.error = None  # (time, summary, traceback), as worker.py sends it
        self.result = _NOTHING

    def failure(self):
        """Put its end into words: a ``ProcessFailed``."""
        if self.error:
            _, summary, trace = self.error
            return ProcessFailed(self.name, self.status, f'failed with {summary}', trace)
        words = f'ended with status {self.status}'
        if self.status < 0:
            words = f'was killed by signal {-self.status} ({_signal_name(-self.status)})'
        last = '\n'.join(self.lines)
        return ProcessFailed(self.name, self.status, words, last and f'Its last lines:\n{last}')


def _signal_name(number):
    try:
        return signal.Signals(number).name
    except ValueError:
        return 'unknown'


class Group:
    """Processes that live and die together; leaving the ``with`` block stops what still runs.

    Examples
    --------
    >>> with Group() as group:
    ...     _ = group.start('hello', [sys.executable, '-c', 'print("from another process")'])
    ...     group.wait(on_line=lambda name, line: print(f'{name}: {line}'))
    hello: from another process
    """

    def __init__(self):
        self.members = []
        self._events = queue.SimpleQueue()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.stop()

    def start(self, name, command, env=None, payload=None):
        """Start one process, in a session of its own, so that Ctrl-C reaches us and not it.

        Parameters
        ----------
        name : str
            What it is called in messages.
        command : list of str
            Program and arguments.
        env : dict, optional
            Environment variables to add to ours.
        payload : bytes, optional
            For a worker (see ``worker.py``): what it reads first. Its standard output is then
            taken for messages.

        Returns
        -------
        Member

        Raises
        ------
        OSError
            If the program cannot be started.
        """
        is_worker = payload is not None
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE if is_worker else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if is_worker else subprocess.STDOUT,
            env=os.environ | (env or {}),
            start_new_session=True,
        )
        member = Member(name, process)
        self.members.append(member)
        text = process.stderr if is_worker else process.stdout
        jobs = [(self._read_lines, text)]
        if is_worker:
            jobs += [(self._read_messages, process.stdout), (self._feed, payload)]
        readers = [threading.Thread(target=f, args=(member, x), daemon=True) for f, x in jobs]
        watcher = threading.Thread(target=self._watch, args=(member, readers), daemon=True)
        for thread in (*readers, watcher):
            thread.start()
        return member

    def _read_lines(self, member, pipe):
        for line in pipe:
            self._events.put((member, 'line', line.decode(errors='replace').rstrip('\r\n')))

    def _read_messages(self, member, pipe):
        try:
            while True:
                self._events.put((member, *pickle.load(pipe)))
        except (EOFError, pickle.UnpicklingError):  # it ended, perhaps in the middle of a message
            pass

    def _feed(self, member, payload):
        try:
            member.process.stdin.write(len(payload).to_bytes(8, 'big') + payload)
            member.process.stdin.flush()  # and left open: its closing tells the worker of our end
        except BrokenPipeError:
            pass  # it has ended; its status says how

    def _watch(self, member, readers):
        if hasattr(os, 'waitid'):
            # While the dead process is not yet waited for, its number cannot belong to another.
            os.waitid(os.P_PID, member.process.pid, os.WEXITED | os.WNOWAIT)
            _signal_group(member.process, signal.SIGKILL)  # what it started must not outlive it
        status = member.process.wait()
        for reader in readers:
            reader.join()
        self._events.put((member, 'end', status))

    def wait(self, on_line=None, on_message=None, timeout=None):
        """Wait until all have ended; when one fails, stop the others and raise.

        Parameters
        ----------
        on_line : callable, optional
            Called with a process's name and a line that it printed.
        on_message : callable, optional
            Called with a worker's name, the kind of its message, and the value.
        timeout : float, optional
            Seconds; then all are stopped.

        Raises
        ------
        ProcessFailed
            If a process ended with another status than 0, or by a signal.
        TimeoutError
            If some still run after ``timeout`` seconds.
        """
        deadline = time.monotonic() + timeout if timeout else float('inf')
        settled, failed = float('inf'), []
        while len(self._running()) and time.monotonic() < min(deadline, settled):
            try:
                member, kind, value = self._events.get(timeout=0.1)
            except queue.Empty:
                continue
            if kind == 'end':
                member.status = value
                if value:
                    failed.append(member)
                    settled = min(settled, time.monotonic() + SETTLE)
            elif kind == 'line':
                member.lines.append(value)
                if on_line:
                    on_line(member.name, value)
            elif kind in ('result', 'error'):
                setattr(member, kind, value)
            elif on_message:
                on_message(member.name, kind, value)
        late = [member.name for member in self._running()]
        self.stop()
        if failed:
            # A signal kills without a word and is never the consequence of another's error here;
            # of errors, the first one is the cause.
            raise min(failed, key=lambda m: m.error[0] if m.error else 0).failure()
        if late:
            raise TimeoutError(f'{", ".join(late)} still at work after {timeout} seconds: stopped')

    def _running(self):
        return [member for member in self.members if member.status is None]

    def stop(self):
        """End every process that still runs: ask, and after ``GRACE`` seconds kill."""
        try:
            for member in self._running():
                _signal_group(member.process, signal.SIGTERM)
            deadline = time.monotonic() + GRACE
            while self._running() and time.monotonic() < deadline:
                self._note_an_end()
        finally:  # also when the user is impatient and presses Ctrl-C again
            for member in self._running():
                _signal_group(member.process, getattr(signal, 'SIGKILL', signal.SIGTERM))
            while self._running():
                self._note_an_end()
            for member in self.members:
                for pipe in (member.process.stdin, member.process.stdout, member.process.stderr):
                    if pipe:
                        with contextlib.suppress(OSError):  # what was not sent has nobody to go to
                            pipe.close()

    def _note_an_end(self):
        try:
            member, kind, value = self._events.get(timeout=0.1)
        except queue.Empty:
            return
        if kind == 'end':
            member.status = value


def _signal_group(process, number):
    """Signal a process and all that it started, where there are process groups."""
    with contextlib.suppress(ProcessLookupError):
        if hasattr(os, 'killpg'):
            os.killpg(process.pid, number)
        else:
            process.terminate()


def _payloads(function, calls):
    """Pickle a call for each process; one that stands in the list several times only once."""
    import cloudpickle

    class Pickler(cloudpickle.Pickler):
        def reducer_override(self, value):
            # Modules travel by name. cloudpickle knows those of the very type ModuleType, and
            # lazy_loader gives ours, such as `mgpu`, a type of its own.
            if isinstance(value, types.ModuleType) and sys.modules.get(value.__name__) is value:
                return importlib.import_module, (value.__name__,)
            return super().reducer_override(value)

    done = {}
    for args, kwargs in calls:
        key = id(args), id(kwargs)
        if key not in done:
            file = io.BytesIO()
            try:
                Pickler(file).dump((function, args, kwargs))
            except (TypeError, AttributeError, pickle.PicklingError) as error:
                raise TypeError(
                    f'the function, or something that it uses, cannot be sent to another process: '
                    f'{error}. Make or open it inside the function.'
                ) from error
            done[key] = file.getvalue()
    return [done[id(args), id(kwargs)] for args, kwargs in calls]


def run_workers(function, calls, names, envs=None, on_line=None, on_message=None, timeout=None):
    """Call a function in several new processes at the same time; give back what each returned.

    Parameters
    ----------
    function : callable
        Also one that was defined in a notebook: it travels by value (cloudpickle).
    calls : list of tuple
        For each process, ``(args, kwargs)``.
    names : list of str
        What each is called in messages.
    envs : list of dict, optional
        Environment variables to add, for each.
    on_line, on_message, timeout
        See ``Group.wait``.

    Returns
    -------
    list
        In the order of ``calls``.

    Raises
    ------
    ProcessFailed
        If the function raised in one of them, or one ended otherwise; the others are stopped. The
        message has that worker's own traceback.
    TimeoutError
        See ``Group.wait``.

    Examples
    --------
    >>> run_workers(pow, [((2, 3), {}), ((3, 2), {})], ['worker 0', 'worker 1'])
    [8, 9]
    """
    payloads = _payloads(function, calls)
    # The same search path as here, so that what can be imported here can be imported there.
    code = (
        f'import sys; sys.path[:] = {sys.path!r}; from mgpu_helpers import worker; worker._main()'
    )
    with Group() as group:
        for name, payload, env in zip(names, payloads, envs or [{}] * len(names)):
            group.start(name, [sys.executable, '-c', code], env, payload)
        group.wait(on_line, on_message, timeout)
    for member in group.members:
        if member.result is _NOTHING:
            raise ProcessFailed(member.name, 0, 'ended before its function had returned')
    return [member.result for member in group.members]
