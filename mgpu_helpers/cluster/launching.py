"""Starts a cluster, here or on several machines, and ends it; or becomes one process of it."""

from __future__ import annotations

import ipaddress
import os
import shlex
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import checks
from ..processes import Group
from . import preflight
from .hosts import THIS, Host, read_hosts, resolve
from .placement import NODE, Role, check_numbers, environment, plan, with_ports
from .registration import Registration
from .ssh import Way

# sshd turns connections away at random when more than 10 are logging in (its MaxStartups).
BETWEEN_LOGINS = 0.1
# Where `mgpu_helpers` lies, so that schedulers and servers find it, whatever folder this is.
PACKAGE = str(Path(__file__).parents[2])


@dataclass(frozen=True)
class Cluster:
    """What has been checked and can be started; ``prepare`` makes it."""

    roles: list[Role]  # who, where, at which port
    hosts: dict[str, Host]  # by IP address
    gpus: dict[str, dict[str, str]]  # by name of a worker: the variables that say which it has
    command: list[str]  # what workers run
    timeout: float | None
    way: Way  # to other machines

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
    check_numbers(workers, servers, port)
    hosts = {host.ip: host for host in (read_hosts(hostfile) if hostfile else [THIS])}
    roles = plan(workers, servers, {ip: host.slots for ip, host in hosts.items()})
    way = Way(ssh, python or sys.executable, connect_timeout)
    here: dict[str, dict[str, Any]] = {}  # by name of the host: the arguments of preflight.look
    others: dict[str, dict[str, Any]] = {}
    for ip in {role.host: None for role in roles}:
        host, mine = hosts[ip], [i for i, role in enumerate(roles) if role.host == ip]
        ports = len(mine) if port is None else [port + i for i in mine]
        number = sum(roles[i].kind == 'worker' for i in mine)
        program = program_of(command, sys.executable if host.here else way.python)[0]
        question = dict(ip=ip, ports=ports, workers=number, program=program)
        (here if host.here else others)[host.name] = question
    # What is wrong here is found before anybody is asked.
    answers = {question['ip']: preflight.look(**question) for question in here.values()}
    if others:
        program = next(iter(shlex.split(ssh)), '')
        advice = 'other machines are reached through it; --ssh names another'
        preflight.find_program(program, advice)
        answers |= way.ask(others)
    roles = with_ports(roles, {ip: answer['ports'] for ip, answer in answers.items()})
    shares = {ip: iter(answer['gpus']) for ip, answer in answers.items()}
    gpus = {role.name: next(shares[role.host]) for role in roles if role.kind == 'worker'}
    return Cluster(roles, hosts, gpus, list(command), timeout, way)


def run(cluster: Cluster, on_line: Callable[[str, str], object]) -> bool:
    """Start a cluster, wait until its workers have ended, and tell whether the store was ever up.

    Workers that never make a store may end well, too. ``on_line`` is called with a role's name and
    a line that it printed. If a process fails (``ProcessFailed``), if not all have registered in
    time, or if some still run at the end of the time (``TimeoutError``), all have been stopped.
    """
    with Group() as group:
        registration = Registration(cluster.roles, cluster.way.connect_timeout)
        for role in cluster.roles:
            host, is_worker = cluster.hosts[role.host], role.kind == 'worker'
            env = environment(role, cluster.roles) | cluster.gpus.get(role.name, {})
            python = sys.executable if host.here else cluster.way.python
            command = program_of(cluster.command, python) if is_worker else [python, *NODE]
            if not host.here:
                cluster.way.start(group, role.name, host.name, command, env, not is_worker)
                time.sleep(BETWEEN_LOGINS)
            elif is_worker:
                group.start(role.name, command, env)
            else:
                start_node(group, role, env)
        try:
            registration.wait(group, on_line, timeout=cluster.timeout)
        except TimeoutError as error:
            if registration.up_since or len(cluster.hosts) == 1:
                raise
            raise TimeoutError(
                f'{error} Or does a firewall stand between the machines? --port P says which '
                f'{len(cluster.roles)} ports it must let through: P and those that follow.'
            ) from error
    return registration.up_since is not None


def start_node(group: Group, role: Role, env: dict[str, str]) -> None:
    """Start a scheduler or a server here; it also ends when its standard input does."""
    search = os.pathsep.join([PACKAGE, *filter(None, [os.environ.get('PYTHONPATH')])])
    command = [sys.executable, *NODE, 'held']
    group.start(role.name, command, env | {'PYTHONPATH': search}, service=True, given=b'')


def joined(
    command: Sequence[str],
    workers: int,
    servers: int,
    index: int,
    root: str,
    port: int,
    connect_timeout: float = 60,
) -> tuple[list[str], dict[str, str]]:
    """Find out which command this process has to run, and the variables to add to its environment.

    Index 0 is the scheduler, then come servers, then workers; index i takes the port ``port + i``.
    ``command`` is what workers run, ``root`` the name or address of the machine of index 0; an
    unknown name is asked for again for ``connect_timeout`` seconds.
    """
    check_numbers(workers, servers, port)
    checks.whole_number('index', index)
    checks.not_negative('connect_timeout', connect_timeout)
    kinds = ['scheduler', *['server'] * servers, *['worker'] * workers]
    if index >= len(kinds):
        raise ValueError(
            f'index {index} stands for nobody: scheduler, servers and workers have the indices 0 '
            f'to {servers + workers}; start no more processes than that'
        )
    is_worker = kinds[index] == 'worker'
    program = program_of(command, sys.executable) if is_worker else [sys.executable, *NODE]
    preflight.find_program(program[0])
    address = resolve(root, connect_timeout)
    if ipaddress.ip_address(address).is_loopback and root not in (address, 'localhost'):
        raise ValueError(
            f'{root} is {address} on this machine (see its file of hosts), where no other machine '
            'reaches it: give its IP address to --root'
        )
    if index == 0 and not preflight.is_here(address):
        raise ValueError(
            f'index 0 is the scheduler, which must run on {root}, but {address} is no address of '
            'this machine: give --root the name of the machine where index 0 runs (in Kubernetes, '
            'of its pod, through a Service without an address of its own: clusterIP: None)'
        )
    own = _own_address(address) if index else address
    preflight.check_port(own, port + index)
    # Of the others only the number counts, and of the scheduler where it is.
    roles = [Role(kind, 0, address, port) for kind in kinds]
    env = environment(Role(kinds[index], index, own, port + index), roles)
    env.pop('PS_VERBOSE', None)  # nobody reads here who has registered
    return program, env


def _own_address(root: str) -> str:
    """Find the IPv4 address of this machine from which it reaches another, or itself."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect((root, 9))  # sends nothing, but the kernel chooses the way
        except OSError as error:
            raise OSError(error.errno, error.strerror, f'from here to {root}') from error
        return s.getsockname()[0]
