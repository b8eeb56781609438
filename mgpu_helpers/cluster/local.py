"""A cluster on this machine, for notebooks: every role a process of its own, all on loopback."""

from __future__ import annotations

import gc
import itertools
import signal
import sys
from collections.abc import Callable
from typing import Any, Self

from .. import arguments
from ..data import environment_for_children
from ..display import Table
from ..processes import SETTLE, Group, start_workers
from .launching import place, start_node
from .placement import THIS, environment, plan
from .registration import Registration


class LocalCluster:
    """Scheduler, servers and workers on this machine, started anew for each ``run``.

    At most as many servers as workers; within a minute all must have registered.
    """

    def __init__(self, workers: int = 2, servers: int = 1) -> None:
        self._roles = plan(workers, servers, [THIS])
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
        each line that it prints; ``show`` prints them. All end ``timeout`` seconds after the store
        is up, or ``settle`` seconds after a first failure (``ProcessFailed``). Each run starts
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
        roles = place(self._roles, [sys.executable])
        # That CPU cores stand in is for the notebook to say, and not for every worker once more.
        shared = environment_for_children() | {'MGPU_SAID': 'stand-ins crowded'}
        envs = {role.name: environment(role, roles) for role in roles}
        names = [role.name for role in roles if role.kind == 'worker']
        worker_envs = [shared | envs[name] for name in names]
        call: Any = (function, args, kwargs), {}
        self._lines = {role.name: [] for role in roles}

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
                registration = Registration(roles, lasting=timeout)
                # Workers first: a function that cannot be sent is found before anything starts.
                members = start_workers(group, _in_worker, [call] * len(names), names, worker_envs)
                for role in roles:
                    if role.kind != 'worker':
                        start_node(group, role, envs[role.name])
                registration.wait(group, read, settle=settle)
            finally:
                self._group = None
        return [member.result for member in members]

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


def _in_worker(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    result = function(*args, **kwargs)
    # A store waits for the other workers when it is freed, and the scheduler and the servers end
    # after that; a Trainer is part of a cycle that keeps its store.
    gc.collect()
    return result
