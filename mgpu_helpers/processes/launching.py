"""``launch``: call a function in several new processes at the same time."""

from __future__ import annotations

import collections
import contextlib
import importlib
import io
import os
import pickle
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from .. import arguments
from .engines import JOIN, KILL, MOST, environment, kill_all, leashed

# After the first failure, wait this long for others: a rank that lost its partner often fails
# first, and the partner's own error arrives a moment later (0.1 s, measured). Once all have ended,
# wait no longer than this for their last lines, because child processes may hold the pipe open.
SETTLE = 1.0
# Longer lines are cut, and a rank that prints too fast must wait: otherwise a line of 300 MB would
# fill our memory.
LONGEST_LINE, MOST_LINES = 2**16, 1000
Process: TypeAlias = subprocess.Popen[bytes]
Lines: TypeAlias = queue.Queue[tuple[int, str | None]]  # rank and line; None: end of output
CANNOT_TRAVEL = TypeError, ValueError, AttributeError, pickle.PicklingError
ADVICE = (
    '\nThe ranks may have made different calls. Every rank must make the same collective calls '
    'in the same order;\nwith TORCH_DISTRIBUTED_DEBUG=DETAIL in the environment, PyTorch '
    'reports the difference.'
)


class RankFailed(RuntimeError):
    """Raised when a rank failed or died and all were stopped; the message has its traceback."""


def dumps(value: Any) -> bytes:
    """Pickle a value for another process, including a notebook's own functions and classes."""
    import cloudpickle

    class Pickler(cloudpickle.Pickler):
        def reducer_override(self, value: Any) -> Any:
            # Modules travel by name. cloudpickle only recognizes the exact type ModuleType, and
            # lazy_loader's modules, such as `mgpu`, have their own type.
            if isinstance(value, types.ModuleType) and sys.modules.get(value.__name__) is value:
                return importlib.import_module, (value.__name__,)
            return super().reducer_override(value)

    file = io.BytesIO()
    Pickler(file).dump(value)
    return file.getvalue()


def launch(
    function: Callable[..., Any],
    k: int,
    *args: Any,
    group: bool = True,
    labels: bool = True,
    envs: Sequence[Mapping[str, str]] | None = None,
    timeout: float | None = None,
    **kwargs: Any,
) -> list[Any]:
    """Call a function on ``k`` new ranks, one per device; return the results in rank order.

    The function may be defined in a notebook, and all ranks get the same arguments. With ``group``
    they are in a PyTorch process group. ``envs`` lists additional environment variables for each
    rank. The ranks' output is printed here; ``labels`` adds ``[rank i]``. If a rank fails, or after
    ``timeout`` seconds, all are stopped and ``RankFailed`` or ``TimeoutError`` is raised.
    """
    arguments.positive_int('the number of ranks', k, most=MOST)
    arguments.function('function', function, 'to call on each rank')
    if timeout is not None:
        arguments.positive_number('timeout', timeout)
    if envs is not None and len(envs) != k:
        raise ValueError(f'envs must have one entry per rank, {k}, not {len(envs)}')
    try:
        call = dumps((function, args, kwargs))
    except CANNOT_TRAVEL as error:
        raise TypeError(
            f'the function, or an object that it uses, cannot be sent to another process: {error}. '
            'Create or open it inside the function.'
        ) from error
    with tempfile.TemporaryDirectory(prefix='mgpu-') as name:
        folder = Path(name)
        (folder / 'call').write_bytes(call)
        run = 'from mgpu_helpers.processes.launching import _run'
        code = f'import sys; sys.path[:] = {sys.path!r}; {run}; _run({name!r}, {group})'
        processes: list[Process] = []
        lines: Lines = queue.Queue(MOST_LINES)
        try:
            for rank in range(k):
                process = subprocess.Popen(
                    leashed([sys.executable, '-c', code], KILL),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    env=os.environ | environment(rank, k) | dict(envs[rank] if envs else {}),
                    start_new_session=True,  # Ctrl-C reaches us only
                )
                processes.append(process)
                threading.Thread(
                    target=_read, args=(rank, process.stdout, lines), daemon=True
                ).start()
            _wait(folder, processes, lines, labels, timeout)
        finally:
            kill_all(process.pid for process in processes)
            for process in processes:
                with contextlib.suppress(OSError, AttributeError):  # no killpg: Windows
                    os.killpg(process.pid, KILL)  # its children, even if it has ended
                process.wait()
        return [pickle.loads((folder / f'result {rank}').read_bytes()) for rank in range(k)]


def _run(folder: str, group: bool) -> None:
    """Call the function in a rank; write its result, or its error and the time, into a file."""
    path, rank = Path(folder), os.environ['RANK']
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # it is Python's own
    try:
        function, args, kwargs = pickle.loads((path / 'call').read_bytes())
        if group:
            method = f'file://{path / "store"}'
            exec(JOIN.format(options=f'init_method={method!r}'), {})
        result = function(*args, **kwargs)
        try:
            (path / f'result {rank}').write_bytes(dumps(result))
        except CANNOT_TRAVEL as error:
            what = 'the result cannot be sent back; return numbers, lists or arrays'
            raise TypeError(f'{error}: {what}') from error
    except BaseException as error:  # including sys.exit
        # The time separates cause from consequence: one rank's end causes the other ranks' errors.
        failed = time.time(), f'{_summary(error)}\n\n{traceback.format_exc()}'
        (path / f'error {rank}').write_bytes(pickle.dumps(failed))
    sys.stdout.flush()
    sys.stderr.flush()
    # sys.exit could hang: threads of a process group that has lost a member may never end.
    os._exit(not (path / f'result {rank}').exists())


def _summary(error: BaseException) -> str:
    """Summarize an error in one line."""
    lines = traceback.format_exception_only(error)[-1].strip().splitlines()
    # MXNet's errors begin with their own traceback, and end with the message.
    return f'{type(error).__name__}: {lines[-1].strip()}' if len(lines) > 1 else lines[0]


def _read(rank: int, pipe: Any, lines: Lines) -> None:
    with pipe:
        while line := pipe.readline(LONGEST_LINE):
            lines.put((rank, line.decode(errors='replace').rstrip('\r\n')))
    lines.put((rank, None))


def _wait(
    folder: Path, processes: list[Process], lines: Lines, labels: bool, timeout: float | None
) -> None:
    """Print the ranks' output until all have ended; raise if one fails or times out."""
    late, end = time.monotonic() + (timeout or float('inf')), float('inf')
    speaking = running = set(range(len(processes)))
    last: list[collections.deque[str]] = [collections.deque(maxlen=15) for _ in processes]
    while (speaking or running) and (time.monotonic() < end or not lines.empty()):
        with contextlib.suppress(queue.Empty):
            rank, line = lines.get(timeout=0.05)
            if line is None:
                speaking = speaking - {rank}
            else:
                last[rank].append(line)
                print(f'[rank {rank}] ' * labels + line)
        statuses = [process.poll() for process in processes]
        running = {rank for rank, status in enumerate(statuses) if status is None}
        failures = [_failure(folder, *of) for of in enumerate(statuses)]
        if not running or any(failures):
            end = min(end, time.monotonic() + SETTLE)
            if running and time.monotonic() > end:  # even if they still print
                break
        elif time.monotonic() > late:
            names = ', '.join(f'rank {rank}' for rank in running)
            raise TimeoutError(f'{names} did not finish within {timeout} seconds{ADVICE}')
    if failed := [(*failure, rank) for rank, failure in enumerate(failures) if failure]:
        # A signal kills silently and is never the consequence of another rank's error here; among
        # errors, the first one is the cause.
        when, text, rank = min(failed)
        if not when and last[rank]:
            text = '\n'.join([f'{text}\n\nIts last lines:', *last[rank]])
        lost = re.search('by peer|Broken pipe|collective mismatch|imed out', text)
        raise RankFailed(f'rank {rank} {text.rstrip()}' + ADVICE * bool(lost))


def _failure(folder: Path, rank: int, status: int | None) -> tuple[float, str] | None:
    """Return when and how a rank failed, or None if it is running or has succeeded."""
    if status is None:
        return None
    if (said := folder / f'error {rank}').exists():
        when, text = pickle.loads(said.read_bytes())
        return when, f'failed with {text}'
    if (folder / f'result {rank}').exists():
        return None
    if status < 0:
        name = signal.Signals(-status).name if -status in set(signal.Signals) else '?'
        return 0.0, f'was killed by signal {-status} ({name})'
    return 0.0, f'ended with status {status} before its function had returned'
