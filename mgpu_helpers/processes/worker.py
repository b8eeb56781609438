"""The inside of a worker process: gets a function, calls it, sends back what came out.

``processes.run_workers`` is the other end. Three pipes connect the two. Standard input brings the
call and then stays open: its closing says that the starter is gone, and the worker ends, also where
there is no guard (see ``processes.guard``) or no longer. Standard output carries messages, each
after a line that tells its kind, type and length; what the function prints goes to standard error
instead, which the starter reads line by line.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from typing import IO, Any, BinaryIO, NoReturn

_messages: BinaryIO | None = None  # the pipe to the starter, where this process is a worker


def send(kind: str, value: object) -> None:
    """Send the starter a result, or an error."""
    assert _messages is not None  # _main opened it
    import cloudpickle  # for values of a notebook's own classes

    message = cloudpickle.dumps(value)  # first, as a whole: what cannot be sends nothing
    _messages.write(json.dumps([kind, type(value).__name__, len(message)]).encode() + b'\n')
    _messages.write(message)
    _messages.flush()


def receive(pipe: IO[bytes]) -> Iterator[tuple[str, Any]]:
    """Yield the kind and the value of each message that ``send`` sends through a pipe.

    A value that cannot be loaded here is an error of the one who sent it, and ends this.
    """
    while (header := pipe.readline()).endswith(b'\n'):
        kind, name, size = json.loads(header)
        try:
            message = pipe.read(size)
            if len(message) < size:
                return  # the sender ended in the middle of it
            value = pickle.loads(message)
        except BaseException as error:  # whatever the code of somebody's class raises
            what = (
                f'{_summary(error)}: what it sent, of type {name}, can be pickled, but not '
                'unpickled; return numbers, lists or NumPy arrays'
            )
            yield 'error', (time.monotonic(), what, traceback.format_exc())
            while pipe.read(2**20):  # or the sender would wait until somebody reads
                pass
            return
        yield kind, value


def end_with_starter(pipe: int) -> None:
    """End this process, and all that it has started, when the other side of a pipe closes."""
    threading.Thread(target=_wait_and_end, args=[pipe], daemon=True).start()


def _wait_and_end(pipe: int) -> NoReturn:
    if hasattr(signal, 'pthread_sigmask'):  # signals are for the thread that works
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    while os.read(pipe, 4096):
        pass
    if hasattr(os, 'killpg'):
        os.killpg(0, signal.SIGKILL)  # with what the function has started
    os._exit(1)


def _main() -> None:
    """Be a worker: what ``processes.run_workers`` runs in the new process."""
    global _messages
    _messages = os.fdopen(os.dup(1), 'wb')
    os.dup2(2, 1)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # nobody has replaced it
    call = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # `input()` in the function ends at once instead of eating our pipe
    try:
        size = int.from_bytes(_exactly(call, 8), 'big')
        payload = _exactly(call, size)
        # Where there is fork, the guard does this, too, also while C code holds the lock. But it
        # may have been killed itself.
        end_with_starter(call)
        function, args, kwargs = pickle.loads(payload)
        result = function(*args, **kwargs)
        _send_back(result)
    except BaseException as error:
        # The time tells cause from consequence: one worker's end is the other workers' next error.
        # All are on this machine, whose processes have this clock in common.
        send('error', (time.monotonic(), _summary(error), traceback.format_exc()))
        # Here, while the error still holds the function's values: MXNet's store, when it is freed,
        # waits for the other workers, which wait for this one.
        _end(1)
    _end(0)


def _send_back(result: object) -> None:
    try:
        send('result', result)
    except (TypeError, ValueError, AttributeError, pickle.PicklingError) as error:
        raise TypeError(
            f'{error}: what the function returned cannot be sent back; return numbers, lists or '
            'NumPy arrays'
        ) from error


def _summary(error: BaseException) -> str:
    """Put an error into one line."""
    lines = traceback.format_exception_only(error)[-1].strip().splitlines()
    if len(lines) > 1 and lines[0].endswith('(most recent call last):'):
        # MXNet's errors begin with a traceback of their own, and end with what was wrong.
        return f'{type(error).__name__}: {lines[-1].strip()}'
    return '\n'.join(lines)


def _end(status: int) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: threads of a process group that lost a member may never end by themselves.
    os._exit(status)


def _exactly(file: int, size: int) -> bytes:
    """Read ``size`` bytes, or leave if the starter is gone before it has sent them."""
    parts = []
    while size:
        part = os.read(file, min(size, 2**20))
        if not part:
            os._exit(1)
        parts.append(part)
        size -= len(part)
    return b''.join(parts)
