"""Who runs where in a cluster: its roles, their ranks, and the variables that tell each its own."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from .. import checks

LOOPBACK = '127.0.0.1'
LAST_PORT = 65535
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


def check_numbers(workers: int, servers: int, port: int | None = None) -> None:
    """Raise unless they make a cluster, and its roles have ports from ``port`` on."""
    checks.positive_int('the number of workers', workers)
    checks.positive_int('the number of servers', servers)
    if servers > workers:
        raise ValueError(
            f'{servers} servers for {workers} worker{"s" if workers > 1 else ""}: more servers '
            "than workers gain nothing, because then the workers' own links are what limits; take "
            f'at most {workers}'
        )
    if port is not None:
        checks.positive_int('port', port)
        if port + workers + servers > LAST_PORT:
            raise ValueError(
                f'port {port} and the {workers + servers} after it go beyond {LAST_PORT}, the last '
                f'that there is: take at most {LAST_PORT - workers - servers}'
            )


def plan(workers: int, servers: int, slots: Mapping[str, int | None]) -> list[Role]:
    """Place the roles of a cluster, without ports yet: scheduler first, then servers, then workers.

    Roles go round the hosts; ``slots`` says, by IP address, how many workers each takes at most
    (None: any number). MXNet's scheduler gives ranks by address: IP addresses as text, descending,
    then ports, ascending; no variable changes that (``DMLC_RANK`` is ignored). Workers are numbered
    as the scheduler will number them: worker i has rank i.
    """
    hosts = list(slots)
    check_numbers(workers, servers)
    if workers + servers > MOST_ROLES * len(hosts):
        raise ValueError(
            f'{workers + servers} workers and servers are too many for {len(hosts)} '
            f'machine{"s" if len(hosts) > 1 else ""}: each is a process that loads MXNet; take at '
            f'most {MOST_ROLES} on each'
        )
    rounds = range(workers)
    of_workers = [h for i in rounds for h, most in slots.items() if most is None or i < most]
    if len(of_workers) < workers:
        listed = ', '.join(f'{host} takes {most}' for host, most in slots.items())
        raise ValueError(
            f'{workers} workers are more than the hosts take ({listed}): name more hosts or slots, '
            f'or take at most {len(of_workers)} workers'
        )
    roles = [Role('scheduler', 0, hosts[0])]
    roles += [Role('server', i, hosts[i % len(hosts)]) for i in range(servers)]
    by_rank = sorted(of_workers[:workers], reverse=True)
    return roles + [Role('worker', i, host) for i, host in enumerate(by_rank)]


def with_ports(roles: Iterable[Role], ports: Mapping[str, Iterable[int]]) -> list[Role]:
    """Give each role the next one of its host's ports, which are ascending."""
    free = {host: iter(there) for host, there in ports.items()}
    return [replace(role, port=next(free[role.host])) for role in roles]


def environment(role: Role, roles: Sequence[Role]) -> dict[str, str]:
    """Tell a process its role among all ``roles``: the variables that MXNet reads when loaded."""
    kinds = [each.kind for each in roles]
    scheduler = roles[kinds.index('scheduler')]
    variables = {
        'DMLC_ROLE': role.kind,
        'DMLC_PS_ROOT_URI': scheduler.host,
        'DMLC_PS_ROOT_PORT': str(scheduler.port),
        'DMLC_NUM_SERVER': str(kinds.count('server')),
        'DMLC_NUM_WORKER': str(kinds.count('worker')),
        'DMLC_NODE_HOST': role.host,
        'PORT': str(role.port),
        # Each line is printed at once, also the last one before a process is killed.
        'PYTHONUNBUFFERED': os.environ.get('PYTHONUNBUFFERED', '1'),
    }
    if role.kind != 'worker':
        variables['CUDA_VISIBLE_DEVICES'] = ''  # it would only take memory there
    if role.kind == 'scheduler':
        variables['PS_VERBOSE'] = '2'  # it reports who has registered: see registration.py
    return variables
