"""Who is who in a cluster, how each is told, and which GPUs it sees."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from .. import checks
from ..devices.driver import driver_gpus

LOOPBACK = '127.0.0.1'
LAST_PORT = 65535
# Below those that the kernel gives to anybody's connections: a role loads MXNet before it takes its
# port, and on a busy machine another program had it by then.
OWN_PORTS = range(12000, 32768)
MOST_ROLES = 256  # of a machine; one takes 0.13 to 0.42 GiB. 5,000 started for minutes, in silence
NODE = ('-m', 'mgpu_helpers.cluster.node')  # what Python runs as the scheduler or a server


@dataclass(frozen=True)
class Role:
    """One process of a cluster."""

    kind: str  # 'scheduler', 'server' or 'worker'
    index: int  # its number among those of its kind; a worker's is its rank
    host: str  # IP address at which the others reach it
    port: int = 0  # TCP port at which they do

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return self.kind if self.kind == 'scheduler' else f'{self.kind} {self.index}'


def check_numbers(workers: int, servers: int) -> None:
    """Raise unless so many workers and servers make a cluster."""
    checks.positive_int('the number of workers', workers)
    checks.positive_int('the number of servers', servers)
    if servers > workers:
        raise ValueError(
            f'{servers} servers for {workers} worker{"s" * (workers > 1)}: more servers than '
            "workers gain nothing, because then the workers' own links are what limits; take at "
            f'most {workers}'
        )


def check_kind(kind: str) -> None:
    """Raise unless this is a kind of store, and one that can be opened here."""
    checks.store('kind', kind)
    if kind.startswith('dist_') and os.environ.get('DMLC_ROLE') != 'worker':
        raise RuntimeError(
            f'{kind!r} needs a cluster, and this process is no worker of one: call the function '
            "with LocalCluster(...).run, start the script with 'python -m mgpu_helpers launch', or "
            "take the kind 'local'"
        )


def plan(workers: int, servers: int, room: Mapping[str, int | None]) -> list[Role]:
    """Place the roles of a cluster, without ports yet: scheduler first, then servers, then workers.

    Roles go round the hosts. ``room`` says, by IP address, how many workers each takes at most;
    None is any number. MXNet's scheduler gives ranks by address: IP addresses as text, descending,
    then ports, ascending; no variable changes that (``DMLC_RANK`` is ignored). So workers are
    numbered as the scheduler will: worker i has rank i.
    """
    hosts = list(room)
    check_numbers(workers, servers)
    if workers + servers > MOST_ROLES * len(hosts):
        raise ValueError(
            f'{workers + servers} workers and servers are too many for {len(hosts)} '
            f'machine{"s" * (len(hosts) > 1)}: each is a process that loads MXNet; take at most '
            f'{MOST_ROLES} on each'
        )
    if None not in room.values() and (most := sum(filter(None, room.values()))) < workers:
        listed = ', '.join(f'{host} takes {n}' for host, n in room.items())
        raise ValueError(
            f'{workers} workers are more than the hosts take ({listed}): name more hosts or slots, '
            f'or take at most {most} workers'
        )
    of_workers: list[str] = []
    while len(of_workers) < workers:
        of_workers += [h for h, n in room.items() if n is None or of_workers.count(h) < n]
    roles = [Role('scheduler', 0, hosts[0])]
    roles += [Role('server', i, hosts[i % len(hosts)]) for i in range(servers)]
    by_rank = sorted(of_workers[:workers], reverse=True)
    return roles + [Role('worker', i, host) for i, host in enumerate(by_rank)]


def with_ports(roles: Iterable[Role], ports: Mapping[str, Iterable[int]]) -> list[Role]:
    """Give each role the next one of its host's ports, which are ascending."""
    free = {host: iter(there) for host, there in ports.items()}
    return [replace(role, port=next(free[role.host])) for role in roles]


def free_ports(host: str, count: int) -> list[int]:
    """Find TCP ports at an address of this machine that are free now, ascending."""
    with contextlib.ExitStack() as opened:
        found: list[int] = []
        while len(found) < count:
            s = opened.enter_context(socket.socket())
            try:
                s.bind((host, port := random.choice(OWN_PORTS)))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
            else:
                found.append(port)
        return sorted(found)


def check_port(host: str, port: int) -> None:
    """Raise if another program has a port at an address of this machine."""
    with socket.socket() as s:
        # As MXNet does: a port whose last connection is still fading away can be had.
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind((host, port))
        except OSError as error:
            raise OSError(
                error.errno,
                f'port {port} at {host} cannot be used ({error.strerror}): name another one, or '
                'none, and a free one is found',
            ) from error


def check_first_port(port: int, others: int) -> None:
    """Raise unless a port and the ``others`` that follow it exist."""
    checks.positive_int('port', port)
    if port + others > LAST_PORT:
        raise ValueError(
            f'port {port} and the {others} after it go beyond {LAST_PORT}, the last that there is: '
            f'take at most {LAST_PORT - others}'
        )


def environment(role: Role, roles: Sequence[Role]) -> dict[str, str]:
    """Tell a process its role: the environment variables that MXNet reads when it is loaded.

    ``roles`` are those of the whole cluster.
    """
    scheduler = next(r for r in roles if r.kind == 'scheduler')
    told = {
        'DMLC_ROLE': role.kind,
        'DMLC_PS_ROOT_URI': scheduler.host,
        'DMLC_PS_ROOT_PORT': str(scheduler.port),
        'DMLC_NUM_SERVER': str(sum(r.kind == 'server' for r in roles)),
        'DMLC_NUM_WORKER': str(sum(r.kind == 'worker' for r in roles)),
        'DMLC_NODE_HOST': role.host,
        'PORT': str(role.port),
        # Each line is printed at once, also the last one before a process is killed.
        'PYTHONUNBUFFERED': os.environ.get('PYTHONUNBUFFERED', '1'),
    }
    if role.kind != 'worker':
        told['CUDA_VISIBLE_DEVICES'] = ''  # it would only take memory there
    if role.kind == 'scheduler':
        told['PS_VERBOSE'] = '2'  # it says who has registered; launch and LocalCluster read it
    return told


def share_gpus(workers: int) -> list[dict[str, str]]:
    """Give each worker its part of this machine's GPUs, by ``CUDA_VISIBLE_DEVICES``; {} without.

    If there are fewer GPUs than workers here, nobody gets one, so that all compute alike.
    """
    count = len(driver_gpus())
    if not count:
        return [{}] * workers
    given = os.environ.get('CUDA_VISIBLE_DEVICES')
    names = given.split(',')[:count] if given else [str(i) for i in range(count)]
    cuts = [count * i // workers if count >= workers else 0 for i in range(workers + 1)]
    return [{'CUDA_VISIBLE_DEVICES': ','.join(names[a:b])} for a, b in zip(cuts, cuts[1:])]
