"""Who runs where in a cluster: machines from a hostfile, roles and ranks, and their variables."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from .. import arguments
from .preflight import is_here

LOOPBACK = '127.0.0.1'
LAST_PORT = 65535
MOST_ROLES = 256  # of a machine; one takes 0.13 to 0.42 GiB. 5,000 started for minutes, in silence
NODE = ('-m', 'mgpu_helpers.cluster.node')  # what Python runs as the scheduler or a server
# To ssh, what begins with '-' is an option, be it a user or a machine. ASCII: other letters look
# like these, and ssh and we would make different names of them. No name is over 253 letters long.
LINE = re.compile(r'(?:(\w[\w.-]{0,63})@)?(\w[\w.-]{0,252})(?:\s+slots\s*=\s*(\d{1,6}))?', re.ASCII)


@dataclass(frozen=True)
class Host:
    """One machine."""

    name: str  # as in the hostfile: what ssh is told
    ip: str  # IPv4 address at which the others reach it
    slots: int | None = None  # how many workers it takes at most; None: any number
    here: bool = True  # we start its processes ourselves, not through ssh


THIS = Host('localhost', LOOPBACK)


@dataclass(frozen=True)
class Role:
    """One process of a cluster."""

    kind: str  # 'scheduler', 'server' or 'worker'
    index: int  # its number among those of its kind; a worker's is its rank
    host: Host
    port: int = 0  # TCP port at which the others reach it; 0: one that is free
    gpus: Mapping[str, str] = field(default_factory=dict)  # the variables that say which it has

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return self.kind if self.kind == 'scheduler' else f'{self.kind} {self.index}'


def check_numbers(workers: int, servers: int, port: int | None = None) -> None:
    """Raise unless they make a cluster, and its roles have ports from ``port`` on."""
    arguments.positive_int('the number of workers', workers)
    arguments.positive_int('the number of servers', servers)
    if servers > workers:
        raise ValueError(
            f'{servers} servers for {workers} worker{"s" if workers > 1 else ""}: more servers '
            "than workers gain nothing, because then the workers' own links are what limits; take "
            f'at most {workers}'
        )
    if port and port + workers + servers > LAST_PORT:
        raise ValueError(
            f'port {port} and the {workers + servers} after it go beyond {LAST_PORT}, the last '
            f'that there is: take at most {LAST_PORT - workers - servers}'
        )


def plan(workers: int, servers: int, hosts: Sequence[Host], port: int | None = None) -> list[Role]:
    """Distribute the roles of a cluster: scheduler first, then servers, then workers.

    The scheduler has ``port`` and the others those that follow; without, none has one yet. Workers
    go round the hosts, and worker i has rank i: MXNet's scheduler gives ranks by address, IP
    addresses as text, descending, then ports, ascending; no variable changes that (``DMLC_RANK`` is
    ignored).
    """
    check_numbers(workers, servers, port)
    if workers + servers > MOST_ROLES * len(hosts):
        raise ValueError(
            f'{workers + servers} workers and servers are too many for {len(hosts)} '
            f'machine{"s" if len(hosts) > 1 else ""}: each is a process that loads MXNet; take at '
            f'most {MOST_ROLES} on each'
        )
    rounds = range(workers)
    of_workers = [h for i in rounds for h in hosts if h.slots is None or i < h.slots]
    if len(of_workers) < workers:
        listed = ', '.join(f'{host.ip} takes {host.slots}' for host in hosts)
        raise ValueError(
            f'{workers} workers are more than the hosts take ({listed}): name more hosts or slots, '
            f'or take at most {len(of_workers)} workers'
        )
    roles = [Role('scheduler', 0, hosts[0])]
    roles += [Role('server', i, hosts[i % len(hosts)]) for i in range(servers)]
    by_rank = sorted(of_workers[:workers], key=lambda host: host.ip, reverse=True)
    roles += [Role('worker', i, host) for i, host in enumerate(by_rank)]
    return [replace(role, port=port + i) for i, role in enumerate(roles)] if port else roles


def environment(role: Role, roles: Sequence[Role]) -> dict[str, str]:
    """Tell a process its role among all ``roles``: the variables that MXNet reads when loaded."""
    kinds = [each.kind for each in roles]
    scheduler = roles[kinds.index('scheduler')]
    variables = {
        'DMLC_ROLE': role.kind,
        'DMLC_PS_ROOT_URI': scheduler.host.ip,
        'DMLC_PS_ROOT_PORT': str(scheduler.port),
        'DMLC_NUM_SERVER': str(kinds.count('server')),
        'DMLC_NUM_WORKER': str(kinds.count('worker')),
        'DMLC_NODE_HOST': role.host.ip,
        'PORT': str(role.port),
        # Each line is printed at once, also the last one before a process is killed.
        'PYTHONUNBUFFERED': os.environ.get('PYTHONUNBUFFERED', '1'),
        **role.gpus,
    }
    if role.kind != 'worker':
        variables['CUDA_VISIBLE_DEVICES'] = ''  # it would only take memory there
    if role.kind == 'scheduler':
        variables['PS_VERBOSE'] = '2'  # it reports who has registered: see registration.py
    return variables


def resolve(name: str, patience: float = 0) -> str:
    """Turn a host name into an IPv4 address (MXNet's store knows no other kind).

    An unknown name is asked for again for ``patience`` seconds: in a cluster that is being started,
    names may come later than processes.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            ip = ipaddress.IPv4Address(socket.gethostbyname(name))
            break
        except (OSError, UnicodeError) as error:
            if time.monotonic() >= deadline:
                waited = f' after {patience:g} seconds' if patience else ''
                raise ValueError(
                    f'the host name {name!r} leads to no IPv4 address{waited} '
                    f'({getattr(error, "strerror", None) or error}): is it spelled right? An '
                    'address such as 192.168.1.7 works without a name server'
                ) from error
        time.sleep(min(1, max(0, deadline - time.monotonic())))
    if ip.is_unspecified or ip.is_multicast or ip.is_reserved:
        raise ValueError(f'{name!r} is {ip}, which is no address of one machine: name one that is')
    return str(ip)


def read_hosts(path: str | Path) -> list[Host]:
    """Read a hostfile: in each line ``name`` or ``name slots=N``, and comments after ``#``.

    A name may be an address, and ``user@`` may stand before it. Hosts come in the order of the
    file; a loopback address becomes 127.0.0.1, which no other machine may stand beside.
    """
    hosts: dict[str, Host] = {}
    text = Path(path).read_text(encoding='utf-8-sig', errors='replace')
    for number, line in enumerate(text.split('\n'), 1):
        if not (line := line.partition('#')[0].strip()):
            continue
        try:
            host = _read_line(line)
            if host.ip in hosts:
                raise ValueError(
                    f'{host.name} is {host.ip}, and so is {hosts[host.ip].name} in an earlier '
                    'line: name each machine once, and with slots=N how many workers it takes'
                )
        except ValueError as error:
            raise ValueError(f'{path}, line {number}: {error}') from error
        hosts[host.ip] = host
    if not hosts:
        raise ValueError(f'{path} names no host: write one per line, or leave --hostfile out')
    if LOOPBACK in hosts and len(hosts) > 1:
        other = next(host.name for host in hosts.values() if host.ip != LOOPBACK)
        raise ValueError(
            f'{path}: {hosts[LOOPBACK].name} is {LOOPBACK}, by which every machine reaches only '
            f'itself, so {other} cannot reach it: write the address that this machine has in '
            'their network'
        )
    return list(hosts.values())


def _read_line(line: str) -> Host:
    match = LINE.fullmatch(line)
    if not match:
        short = ascii(line if len(line) <= 60 else f'{line[:57]}...')
        raise ValueError(f"expected 'name' or 'name slots=N', not {short}")
    user, name, slots = match.groups()
    if slots is not None and int(slots) < 1:
        raise ValueError(f'{name} takes {slots} workers; leave the line out, or take at least 1')
    ip = resolve(name)
    if ipaddress.ip_address(ip).is_loopback:
        ip = LOOPBACK
    # Another user's processes are started through ssh, also on this machine.
    here = is_here(ip) and not user
    return Host(f'{user}@{name}' if user else name, ip, int(slots) if slots else None, here)
