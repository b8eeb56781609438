"""Starts a cluster, here or on several machines, watches it, and ends it."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .. import checks
from ..processes import Group
from . import probe
from . import ssh as remote
from .gpus import NO_GPU
from .hosts import THIS, Host, read_hosts
from .roles import NODE, Role, check_first_port, check_numbers, environment, plan
from .watch import Watch

# sshd turns connections away at random when more than 10 are logging in (its MaxStartups).
BETWEEN_LOGINS = 0.1


@dataclass(frozen=True)
class Cluster:
    """What has been checked and can be started; ``prepare`` makes it."""

    roles: list[Role]  # who, where, at which port
    hosts: dict[str, Host]  # by IP address
    gpus: dict[str, dict[str, str]]  # by role, the variables that say which GPUs it has
    command: list[str]  # what workers run
    options: dict[str, Any]  # connect_timeout, timeout, ssh, python; see prepare

    def place(self, name: str) -> str:
        """Say where a role is, if there are several places: ``' on b'``, or nothing."""
        where = {role.name: self.hosts[role.host].name for role in self.roles}
        return f' on {where[name]}' if len(self.hosts) > 1 and name in where else ''


def program_of(command: Sequence[str], python: str) -> list[str]:
    """Let ``python`` in a command be a certain Python: that of the launcher, wherever it is.

    >>> program_of(['python', 'train.py'], '.venv/bin/python')
    ['.venv/bin/python', 'train.py']
    """
    return [python if command[0] in ('python', 'python3') else command[0], *command[1:]]


def unbuffered() -> dict[str, str]:
    """Let Python programs print each line at once, also the last ones before they are killed.

    Gives a variable to add; nothing, if the user has set it.
    """
    return {} if 'PYTHONUNBUFFERED' in os.environ else {'PYTHONUNBUFFERED': '1'}


def prepare(
    command: Sequence[str],
    workers: int,
    servers: int,
    hostfile: str | Path | None = None,
    port: int | None = None,
    connect_timeout: float = 60,
    timeout: float | None = None,
    ssh: str = 'ssh',
    python: str | None = None,
) -> Cluster:
    """Check everything that can be checked before a cluster is started, and place its roles.

    All run here, at 127.0.0.1, or on the machines of ``hostfile``. The scheduler has ``port`` and
    the others those that follow; free ones are found unless given. Within ``connect_timeout``
    seconds all must have registered; after ``timeout`` seconds all are stopped. ``ssh`` may have
    options in it; ``python`` is the path on other machines, the same as here unless given.
    """
    check_numbers(workers, servers)
    checks.positive_number('connect_timeout', connect_timeout)
    if timeout is not None:
        checks.positive_number('timeout', timeout)
    if port is not None:
        check_first_port(port, workers + servers)
    hosts = {host.ip: host for host in (read_hosts(hostfile) if hostfile else [THIS])}
    roles = plan(  # where everybody is; the ports come below
        workers,
        servers,
        hosts,
        ports=lambda ip, count: range(count),
        slots=[host.slots for host in hosts.values()],
    )
    if port is not None:
        roles = [replace(role, port=port + j) for j, role in enumerate(roles)]
    options = {'connect_timeout': connect_timeout, 'timeout': timeout, 'ssh': ssh}
    options['python'] = python or sys.executable
    cluster = Cluster(roles, hosts, {}, list(command), options)
    found = _look_at(cluster, chosen=port is not None)
    ports = {ip: iter(answer['ports']) for ip, answer in found.items()}
    roles = [replace(role, port=next(ports[role.host])) for role in roles]
    gpus = {ip: iter(answer['gpus']) for ip, answer in found.items()}
    gpus = {r.name: next(gpus[r.host]) if r.kind == 'worker' else NO_GPU for r in roles}
    return replace(cluster, roles=roles, gpus=gpus)


def _look_at(cluster: Cluster, chosen: bool) -> dict[str, dict[str, Any]]:
    """Ask each machine that gets a role whether it can take its part; see ``probe.look``."""
    options = cluster.options
    found: dict[str, dict[str, Any]] = {}
    questions: dict[str, dict[str, Any]] = {}
    for ip, host in cluster.hosts.items():
        mine = [role for role in cluster.roles if role.host == ip]
        if not mine:
            continue
        workers = sum(role.kind == 'worker' for role in mine)
        python = sys.executable if host.here else options['python']
        question: dict[str, Any] = {
            'ip': ip,
            'ports': [role.port for role in mine] if chosen else len(mine),
            'workers': workers,
            'program': program_of(cluster.command, python)[0] if workers else None,
        }
        if host.here:
            found[ip] = probe.look(**question)
        else:
            questions[host.name] = question
    if questions:
        program = next(iter(shlex.split(options['ssh'])), '')
        probe.find_program(program, 'other machines are reached through it; --ssh names another')
    answers = remote.ask(questions, options['ssh'], options['python'], options['connect_timeout'])
    return found | {questions[name]['ip']: answer for name, answer in answers.items()}


def run(cluster: Cluster, on_line: Callable[[str, str], object] | None = None) -> bool:
    """Start a cluster, wait until its workers have ended, and tell whether the store was ever up.

    Workers that never make a store may end well, too. ``on_line`` is called with a role's name and
    a line that it printed. If a process fails (``ProcessFailed``), if not all have registered in
    time, or if some still run at the end of the time (``TimeoutError``), all have been stopped.
    """
    options = cluster.options
    with Group() as group:
        watch = Watch(cluster.roles, options['connect_timeout'])
        for role in cluster.roles:
            _start(group, role, cluster)

        def take(name: str, text: str) -> bool:
            if watch.line(name, text):
                return True
            if on_line:
                on_line(name, text)
            return False

        def check() -> None:
            watch.check()
            sentence = watch.left_alone(
                group.at_work, 'Ctrl-C stops all, --timeout does so by itself'
            )
            if sentence and on_line:
                on_line('launch', sentence)

        try:
            group.wait(on_line=take, timeout=options['timeout'], check=check)
        except TimeoutError as error:
            if watch.up or len(cluster.hosts) == 1:
                raise
            raise TimeoutError(
                f'{error} Or does a firewall stand between the machines? --port P says which '
                f'{len(cluster.roles)} ports it must let through: P and those that follow.'
            ) from error
    return watch.up


def _start(group: Group, role: Role, cluster: Cluster) -> None:
    host, is_worker = cluster.hosts[role.host], role.kind == 'worker'
    python = sys.executable if host.here else cluster.options['python']
    command = program_of(cluster.command, python) if is_worker else [python, *NODE]
    env = environment(role, cluster.roles) | cluster.gpus[role.name] | unbuffered()
    if host.here:
        group.start(role.name, command, env, service=not is_worker)
        return
    there = remote.command_on(
        host.name,
        command,
        *(cluster.options[name] for name in ('ssh', 'python', 'connect_timeout')),
    )
    given = remote.sent_first(remote.passed_on() | env)
    group.start(role.name, there, service=not is_worker, given=given)
    time.sleep(BETWEEN_LOGINS)
