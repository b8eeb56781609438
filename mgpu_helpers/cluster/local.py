"""A cluster on this machine, for notebooks: every role a process of its own, all on loopback."""

from __future__ import annotations

import gc
import itertools
import os
import pathlib
import signal
import sys
from collections.abc import Callable
from typing import Any, Self

from .. import checks
from ..data import environment_for_children
from ..display import Table
from ..processes import SETTLE, Group, Member, start_workers
from .roles import LOOPBACK, NODE, Role, environment, free_ports, plan, share_gpus, with_ports
from .watch import Watch

# Where `mgpu_helpers` lies, so that schedulers and servers find it, whatever folder this is.
PACKAGE = str(pathlib.Path(__file__).parents[2])


class LocalCluster:
    """Scheduler, servers and workers on this machine, started anew for each ``run``.

    At most as many servers as workers. Within ``connect_timeout`` seconds from the start of a run
    all must have registered with the scheduler.
    """

    def __init__(self, workers: int = 2, servers: int = 1, connect_timeout: float = 60) -> None:
        checks.positive_number('connect_timeout', connect_timeout)
        self._roles, self._limit = plan(workers, servers, {LOOPBACK: None}), connect_timeout
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

        It travels by value, also from a notebook; in it ``mx.kv.create('dist_sync')`` is the store.
        ``on_line`` is called with a process's name and each line that it prints; ``show`` prints
        them. All end ``timeout`` seconds after the store is up, or ``settle`` seconds after a first
        failure (``ProcessFailed``). Each run starts processes of its own, as a job does: 2.5 s on
        two cores, most of them to load MXNet.
        """
        checks.function('function', function, 'for every worker')
        if on_line is not None:
            checks.function('on_line', on_line, 'of a name and a line')
        for name, seconds in (('timeout', timeout), ('settle', settle)):
            if seconds is not None:
                checks.positive_number(name, seconds)
        if self._group:
            raise RuntimeError('this cluster is in a run; wait for it, or make another cluster')
        roles = with_ports(self._roles, {LOOPBACK: free_ports(LOOPBACK, len(self._roles))})
        self._lines = {role.name: [] for role in roles}
        watch = Watch(roles, self._limit, timeout)

        def read(name: str, text: str) -> None:
            if show or name == 'cluster':  # which is ourselves
                print(f'[{name}] {text}')
            if name != 'cluster':
                self._lines[name].append(text)
                if on_line:
                    on_line(name, text)

        with Group() as group:
            try:
                self._group = group
                workers = _start(group, roles, (function, args, kwargs))
                watch.wait(group, read, settle=settle)
            finally:
                self._group = None
        return [worker.result for worker in workers]

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


def _start(group: Group, roles: list[Role], call: tuple[Any, ...]) -> list[Member]:
    """Start all roles; the workers are given back."""
    workers = [role for role in roles if role.kind == 'worker']
    # That CPU cores stand in is for the notebook to say, and not for every worker once more.
    shared = environment_for_children() | {'MGPU_SAID': 'stand-ins crowded'}
    gpus = share_gpus(len(workers))
    envs = [shared | environment(role, roles) | gpus[role.index] for role in workers]
    names = [role.name for role in workers]
    # Workers first: a function that cannot be sent is found out before anything has started.
    members = start_workers(group, _in_worker, [(call, {})] * len(workers), names, envs)
    search = os.pathsep.join([PACKAGE, *filter(None, [os.environ.get('PYTHONPATH')])])
    for role in roles:
        if role.kind != 'worker':
            env = environment(role, roles) | {'PYTHONPATH': search}
            command = [sys.executable, *NODE, 'held']
            group.start(role.name, command, env, service=True, given=b'')
    return members


def _in_worker(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    result = function(*args, **kwargs)
    # A store waits for the other workers when it is freed, and the scheduler and the servers end
    # after that; a Trainer is part of a cycle that keeps its store.
    gc.collect()
    return result
