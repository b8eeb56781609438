"""The inside of a worker process: gets a function, calls it, sends back what came out.

``processes.run_workers`` is the other end. Three pipes connect the two. Standard input brings the
call and then stays open: on a system without guards (see ``processes.guard``), its closing says
that the starter is gone, and the worker ends. Standard output carries messages; what the function
prints goes to standard error instead, which the starter reads line by line.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
import time
import traceback
from typing import BinaryIO, NoReturn

_messages: BinaryIO | None = None  # the pipe to the starter, where this process is a worker


def started_as_worker() -> bool:
    """Tell whether this process was started by ``processes.run_workers``."""
    return _messages is not None


def send(kind: str, value: object) -> None:
    """Send a message to the starter of this worker: of what kind, and a value that can be pickled.

    >>> send('bar', 'half of it')
    Traceback (most recent call last):
    RuntimeError: this process was not started as a worker: there is nobody to send to
    """
    if _messages is None:
        raise RuntimeError('this process was not started as a worker: there is nobody to send to')
    import cloudpickle  # for values of a notebook's own classes

    message = cloudpickle.dumps((kind, value))  # first, as a whole: what cannot be sends nothing
    _messages.write(message)
    _messages.flush()


def _wait_and_end(call: int) -> NoReturn:
    while os.read(call, 4096):
        pass
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
        # Where there is fork, the guard ends us, also while C code holds the lock.
        if not hasattr(os, 'fork'):
            threading.Thread(target=_wait_and_end, args=[call], daemon=True).start()
        function, args, kwargs = pickle.loads(payload)
        result = function(*args, **kwargs)
        _send_back(result)
    except BaseException as error:
        # The time tells cause from consequence: one worker's end is the other workers' next error.
        send('error', (time.time(), _summary(error), traceback.format_exc()))
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
