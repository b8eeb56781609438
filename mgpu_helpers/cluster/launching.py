"""Starts a cluster, here or on several machines, and ends it; or becomes one process of it."""

from __future__ import annotations

import ipaddress
import os
import shlex
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..processes import Group
from . import preflight
from .placement import NODE, Host, Role, check_numbers, environment, resolve
from .registration import Registration
from .ssh import Way

# sshd turns connections away at random when more than 10 are logging in (its MaxStartups).
BETWEEN_LOGINS = 0.1
# Where `mgpu_helpers` lies, so that schedulers and servers find it, whatever folder this is.
PACKAGE = str(Path(__file__).parents[2])


def program_of(command: Sequence[str], python: str) -> list[str]:
    """Let ``python`` in a command be a certain Python: that of the launcher, wherever it is."""
    return [python if command[0] in ('python', 'python3') else command[0], *command[1:]]


def place(roles: Sequence[Role], command: Sequence[str], way: Way | None = None) -> list[Role]:
    """Ask each machine whether it can take part; give the roles with their ports and GPUs.

    ``command`` is what workers run. Other machines are reached by the ``way``.
    """
    questions: dict[Host, dict[str, Any]] = {}
    for host in {role.host: None for role in roles}:
        mine = [role for role in roles if role.host == host]
        questions[host] = dict(
            ip=host.ip,
            ports=[role.port for role in mine],
            workers=sum(role.kind == 'worker' for role in mine),
            program=program_of(command, way.python if way and not host.here else sys.executable)[0],
        )
    # What is wrong here is found before anybody is asked.
    answers = {host: preflight.look(**q) for host, q in questions.items() if host.here}
    others = {host: q for host, q in questions.items() if not host.here}
    if way and others:
        advice = 'other machines are reached through it; --ssh names another'
        preflight.find_program(next(iter(shlex.split(way.ssh)), ''), advice)
        answers |= way.ask(others)
    ports = {host: iter(answer['ports']) for host, answer in answers.items()}
    gpus = {host: iter(answer['gpus']) for host, answer in answers.items()}
    placed = [replace(role, port=next(ports[role.host])) for role in roles]
    return [replace(r, gpus=next(gpus[r.host])) if r.kind == 'worker' else r for r in placed]


def run(
    roles: Sequence[Role],
    command: Sequence[str],
    way: Way,
    timeout: float | None,
    on_line: Callable[[str, str], object],
) -> bool:
    """Start what ``place`` gave, wait until all workers have ended; was the store ever up?

    Workers that never make a store may end well, too. ``on_line`` is called with a role's name and
    a line that it printed. If a process fails (``ProcessFailed``), if not all have registered in
    time, or if some still run after ``timeout`` seconds (``TimeoutError``), all have been stopped.
    """
    with Group() as group:
        registration = Registration(roles, way.connect_timeout)
        for role in roles:
            is_worker, env = role.kind == 'worker', environment(role, roles)
            if not role.host.here:
                there = program_of(command, way.python) if is_worker else [way.python, *NODE]
                way.start(group, role.name, role.host.name, there, env, not is_worker)
                time.sleep(BETWEEN_LOGINS)
            elif is_worker:
                group.start(role.name, program_of(command, sys.executable), env)
            else:
                start_node(group, role, env)
        try:
            registration.wait(group, on_line, timeout=timeout)
        except TimeoutError as error:
            if registration.up_since or len({role.host for role in roles}) == 1:
                raise
            raise TimeoutError(
                f'{error} Or does a firewall stand between the machines? --port P says which '
                f'{len(roles)} ports it must let through: P and those that follow.'
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
    connect_timeout: float,
) -> tuple[list[str], dict[str, str]]:
    """Find out which command this process has to run, and the variables to add to its environment.

    Index 0 is the scheduler, then come servers, then workers; index i takes the port ``port + i``.
    ``command`` is what workers run, ``root`` the name or address of the machine of index 0; an
    unknown name is asked for again for ``connect_timeout`` seconds.
    """
    check_numbers(workers, servers, port)
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
    roles = [Role(kind, 0, Host(root, address), port) for kind in kinds]
    env = environment(Role(kinds[index], index, Host('', own), port + index), roles)
    env.pop('PS_VERBOSE', None)  # nobody reads here who has registered
    return program, env


def _own_address(root: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect((root, 9))  # sends nothing, but the kernel chooses the way
        except OSError as error:
            raise OSError(error.errno, error.strerror, f'from here to {root}') from error
        return s.getsockname()[0]
