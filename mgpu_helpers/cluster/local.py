"""A cluster on this machine, for notebooks: every role a process of its own, all on loopback."""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import random
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any, Self

from .. import arguments
from ..devices.driver import driver_gpus
from ..display import Table
from ..processes import SETTLE, Group, start_workers

LOOPBACK = '127.0.0.1'
MOST_ROLES = 256  # one takes 0.13 to 0.42 GiB; 5,000 started for minutes, in silence
# Below those that the kernel gives to anybody's connections: a role loads MXNet before it takes its
# port, and on a busy machine another program had it by then.
OWN_PORTS = range(12000, 32768)
# MXNet takes up its role as it is loaded: the import serves until the workers are done.
SERVE = f'import sys; sys.path[:] = {sys.path!r}; import mgpu_helpers, mxnet'


class LocalCluster:
    """Scheduler, servers and workers on this machine, started anew for each ``run``.

    At most as many servers as workers: more gain nothing, as the workers' own links limit then.
    """

    def __init__(self, workers: int = 2, servers: int = 1) -> None:
        arguments.positive_int('the number of workers', workers)
        arguments.positive_int('the number of servers', servers)
        if servers > workers or workers + servers > MOST_ROLES:
            raise ValueError(
                f'{servers} servers for {workers} workers: take at most as many servers as '
                f'workers, and at most {MOST_ROLES} of both, as each is a process that loads MXNet'
            )
        self._workers, self._servers = workers, servers
        self._group: Group | None = None
        self._lines: dict[str, list[str]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._group:
            self._group.stop()

    def run(
        self,
        function: Callable[..., Any],
        *args: Any,
        on_line: Callable[[str, str], object] | None = None,
        show: bool = True,
        timeout: float | None = None,
        settle: float = SETTLE,
        **kwargs: Any,
    ) -> list[Any]:
        """Call a function in every worker; give back what each returned, in order of rank.

        It travels by value, also from a notebook. ``on_line`` is called with a process's name and
        each line that it prints; ``show`` prints them. All end ``timeout`` seconds after the first
        line, or ``settle`` seconds after a first failure (``ProcessFailed``). Each run starts
        processes of its own, as a job does: 2.5 s on two cores, most of them to load MXNet.
        """
        arguments.function('function', function, 'for every worker')
        if on_line is not None:
            arguments.function('on_line', on_line, 'of a name and a line')
        if timeout is not None:
            arguments.positive_number('timeout', timeout)
        arguments.positive_number('settle', settle)
        if self._group:
            raise RuntimeError('this cluster is in a run; wait for it, or make another cluster')
        roles = self._environments()
        workers = [name for name in roles if name.startswith('worker')]
        self._lines = {name: [] for name in roles}
        deadline = float('inf')

        def read(name: str, text: str) -> None:
            nonlocal deadline
            if timeout:
                deadline = min(deadline, time.monotonic() + timeout)
            if show:
                print(f'[{name}] {text}')
            self._lines[name].append(text)
            if on_line:
                on_line(name, text)

        with Group() as group:

            def check() -> None:
                if time.monotonic() > deadline:
                    late = ', '.join(group.at_work)
                    raise TimeoutError(f'{late} still at work after {timeout} seconds: stopped')

            try:
                self._group = group
                # Workers first: a function that cannot be sent is found before anything starts.
                call: Any = (function, args, kwargs), {}
                calls, envs = [call] * len(workers), [roles[name] for name in workers]
                members = start_workers(group, _in_worker, calls, workers, envs)
                for name in roles.keys() - set(workers):
                    group.start(name, [sys.executable, '-c', SERVE], roles[name], service=True)
                group.wait(read, settle=settle, check=check)
            finally:
                self._group = None
        return [member.result for member in members]

    def _environments(self) -> dict[str, dict[str, str]]:
        """Give each process, by name, the variables that MXNet reads when it is loaded.

        The scheduler gives out ranks by port, ascending, so worker i has rank i.
        """
        names = ['scheduler', *(f'server {i}' for i in range(self._servers))]
        names += [f'worker {i}' for i in range(self._workers)]
        ports = free_ports(len(names))
        shared = {
            'DMLC_PS_ROOT_URI': LOOPBACK,
            'DMLC_PS_ROOT_PORT': str(ports[0]),
            'DMLC_NUM_SERVER': str(self._servers),
            'DMLC_NUM_WORKER': str(self._workers),
            'DMLC_NODE_HOST': LOOPBACK,
            # Each line is printed at once, also the last one before a process is killed.
            'PYTHONUNBUFFERED': os.environ.get('PYTHONUNBUFFERED', '1'),
            # That CPU cores stand in is for the notebook to say, and not for every worker.
            'MGPU_SAID': 'stand-ins crowded',
        }
        gpus = iter(share_gpus(self._workers))
        return {
            name: shared
            | {'DMLC_ROLE': name.split()[0], 'PORT': str(port)}
            | (next(gpus) if name.startswith('worker') else {'CUDA_VISIBLE_DEVICES': ''})
            for name, port in zip(names, ports)
        }

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Send a signal, by default one that no process can refuse, to a process of the run.

        Names are ``'scheduler'``, ``'server 0'``, ``'worker 1'``, ...; call it from ``on_line``.
        """
        if not self._group:
            raise RuntimeError('no run to kill anything in: call kill while run(...) is at work')
        self._group.kill(name, number)

    @property
    def output(self) -> Table:
        """What each process of the last run printed, side by side."""
        return Table(itertools.zip_longest(*self._lines.values(), fillvalue=''), list(self._lines))


def free_ports(count: int) -> list[int]:
    """Find TCP ports of this machine that are free now, ascending."""
    ports: set[int] = set()
    while len(ports) < count:
        port = random.choice(OWN_PORTS)
        with contextlib.suppress(OSError), socket.socket() as s:
            s.bind((LOOPBACK, port))
            ports.add(port)
    return sorted(ports)


def share_gpus(workers: int) -> list[dict[str, str]]:
    """Give each worker its part of this machine's GPUs, by ``CUDA_VISIBLE_DEVICES``; {} without.

    If there are fewer GPUs than workers, nobody gets one, so that all compute alike.
    """
    count = len(driver_gpus())
    if not count:
        return [{}] * workers
    given = os.environ.get('CUDA_VISIBLE_DEVICES')
    names = given.split(',')[:count] if given else [str(i) for i in range(count)]
    cuts = [count * i // workers if count >= workers else 0 for i in range(workers + 1)]
    return [{'CUDA_VISIBLE_DEVICES': ','.join(names[a:b])} for a, b in zip(cuts, cuts[1:])]


def _in_worker(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    result = function(*args, **kwargs)
    # A store waits for the other workers when it is freed, and the scheduler and the servers end
    # after that; a Trainer is part of a cycle that keeps its store.
    gc.collect()
    return result
