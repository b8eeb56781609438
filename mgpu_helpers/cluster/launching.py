"""Starts a cluster, here or on several machines, watches it, and ends it."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import checks
from ..processes import Group
from . import probe
from . import ssh as remote
from .hosts import THIS, Host, read_hosts
from .roles import NODE, Role, check_first_port, environment, plan, with_ports
from .watch import Watch

# sshd turns connections away at random when more than 10 are logging in (its MaxStartups).
BETWEEN_LOGINS = 0.1


@dataclass(frozen=True)
class Cluster:
    """What has been checked and can be started; ``prepare`` makes it."""

    roles: list[Role]  # who, where, at which port
    hosts: dict[str, Host]  # by IP address
    gpus: list[dict[str, str]]  # for each role the variables that say which GPUs it has
    command: list[str]  # what workers run
    connect_timeout: float
    timeout: float | None
    ssh: str
    python: str  # on other machines

    def place(self, name: str) -> str:
        """Say where a role is, if there are several places: ``' on b'``, or nothing."""
        where = {role.name: self.hosts[role.host].name for role in self.roles}
        return f' on {where[name]}' if len(self.hosts) > 1 and name in where else ''


def program_of(command: Sequence[str], python: str) -> list[str]:
    """Let ``python`` in a command be a certain Python: that of the launcher, wherever it is."""
    return [python if command[0] in ('python', 'python3') else command[0], *command[1:]]


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
    checks.positive_number('connect_timeout', connect_timeout)
    if timeout is not None:
        checks.positive_number('timeout', timeout)
    if port is not None:
        check_first_port(port, workers + servers)
    hosts = {host.ip: host for host in (read_hosts(hostfile) if hostfile else [THIS])}
    roles = plan(workers, servers, {ip: host.slots for ip, host in hosts.items()})
    python = python or sys.executable
    questions: dict[Host, dict[str, Any]] = {}  # see probe.look
    for ip, host in hosts.items():
        mine = [i for i, role in enumerate(roles) if role.host == ip]
        number = sum(roles[i].kind == 'worker' for i in mine)
        program = program_of(command, sys.executable if host.here else python)[0]
        ports = len(mine) if port is None else [port + i for i in mine]
        if mine:
            questions[host] = dict(ip=ip, ports=ports, workers=number, program=program)
    # What is wrong here is found before anybody is asked.
    answers = {host.ip: probe.look(**q) for host, q in questions.items() if host.here}
    others = {host.name: q for host, q in questions.items() if not host.here}
    if others:
        program = next(iter(shlex.split(ssh)), '')
        probe.find_program(program, 'other machines are reached through it; --ssh names another')
        answers |= remote.ask(others, ssh, python, connect_timeout)
    roles = with_ports(roles, {ip: answer['ports'] for ip, answer in answers.items()})
    shares = {ip: iter(answer['gpus']) for ip, answer in answers.items()}
    gpus = [next(shares[r.host]) if r.kind == 'worker' else {} for r in roles]
    return Cluster(roles, hosts, gpus, list(command), connect_timeout, timeout, ssh, python)


def run(cluster: Cluster, on_line: Callable[[str, str], object]) -> bool:
    """Start a cluster, wait until its workers have ended, and tell whether the store was ever up.

    Workers that never make a store may end well, too. ``on_line`` is called with a role's name and
    a line that it printed. If a process fails (``ProcessFailed``), if not all have registered in
    time, or if some still run at the end of the time (``TimeoutError``), all have been stopped.
    """
    with Group() as group:
        watch = Watch(cluster.roles, cluster.connect_timeout)
        for role, gpus in zip(cluster.roles, cluster.gpus):
            _start(group, role, gpus, cluster)
        try:
            watch.wait(group, on_line, timeout=cluster.timeout)
        except TimeoutError as error:
            if watch.up_since or len(cluster.hosts) == 1:
                raise
            raise TimeoutError(
                f'{error} Or does a firewall stand between the machines? --port P says which '
                f'{len(cluster.roles)} ports it must let through: P and those that follow.'
            ) from error
    return watch.up_since is not None


def _start(group: Group, role: Role, gpus: dict[str, str], cluster: Cluster) -> None:
    host, is_worker = cluster.hosts[role.host], role.kind == 'worker'
    python = sys.executable if host.here else cluster.python
    command = program_of(cluster.command, python) if is_worker else [python, *NODE]
    env = environment(role, cluster.roles) | gpus
    if host.here:
        group.start(role.name, command, env, service=not is_worker)
        return
    there = remote.command_on(host.name, command, cluster.ssh, python, cluster.connect_timeout)
    given = remote.sent_first(remote.passed_on() | env)
    group.start(role.name, there, service=not is_worker, given=given)
    time.sleep(BETWEEN_LOGINS)
