"""Be one process of a cluster whose processes another system starts: Slurm, Kubernetes, a hand."""

from __future__ import annotations

import ipaddress
import socket
import sys
from collections.abc import Sequence

from .. import checks
from .gpus import NO_GPU
from .hosts import is_here, resolve
from .launching import program_of, unbuffered
from .probe import find_program
from .roles import NODE, Role, check_first_port, check_numbers, check_port, environment


def role_of(index: int, workers: int, servers: int) -> tuple[str, int]:
    """Tell which role an index stands for, as its kind and its number among those of this kind.

    >>> [role_of(i, workers=2, servers=1) for i in range(4)]
    [('scheduler', 0), ('server', 0), ('worker', 0), ('worker', 1)]
    """
    check_numbers(workers, servers)
    checks.whole_number('index', index)
    if index > servers + workers:
        raise ValueError(
            f'index {index} stands for nobody: 1 scheduler, {servers} server{"s" * (servers > 1)} '
            f'and {workers} worker{"s" * (workers > 1)} have the indices 0 to {servers + workers}; '
            'start no more processes than that'
        )
    if index == 0:
        return 'scheduler', 0
    if index <= servers:
        return 'server', index - 1
    return 'worker', index - 1 - servers


def own_address(root: str) -> str:
    """Find the IPv4 address of this machine from which it reaches another, or itself.

    A UDP socket that is connected sends nothing, but the kernel chooses the way.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect((root, 9))
        except OSError as error:
            raise OSError(
                error.errno, f'there is no way from this machine to {root} ({error.strerror})'
            ) from error
        return s.getsockname()[0]


def _find_root(root: str, index: int, patience: float) -> str:
    """Resolve the root's name, and raise if it cannot be the root's address."""
    if not root.strip():
        raise ValueError('--root is empty: name the machine on which index 0 runs')
    ip = resolve(root, patience)
    if ipaddress.ip_address(ip).is_loopback and root not in (ip, 'localhost'):
        raise ValueError(
            f'{root} is {ip} on this machine (see its file of hosts), where no other machine '
            'reaches it: give its IP address to --root'
        )
    if index == 0 and not is_here(ip):
        raise ValueError(
            f'index 0 is the scheduler, which must run on {root}, but {ip} is no address of this '
            'machine: give --root the name of the machine where index 0 runs (in Kubernetes, of '
            'its pod, through a Service without an address of its own: clusterIP: None)'
        )
    return ip


def prepare(
    command: Sequence[str],
    workers: int,
    servers: int,
    index: int,
    root: str,
    port: int,
    patience: float = 60,
) -> tuple[list[str], dict[str, str]]:
    """Find out which command this process has to run, and the variables to add to its environment.

    ``command`` is what workers run, ``root`` the name or address of the machine of index 0, which
    is waited for ``patience`` seconds; index i takes the port ``port + i``.

    >>> command, env = prepare(['hostname'], 2, 1, index=3, root='localhost', port=23450)
    >>> command, env['DMLC_ROLE'], env['PORT'], env['DMLC_NODE_HOST']
    (['hostname'], 'worker', '23453', '127.0.0.1')
    """
    kind, number = role_of(index, workers, servers)
    check_first_port(port, workers + servers)
    checks.not_negative('patience', patience)
    if kind == 'worker':
        program = program_of(list(command), sys.executable)
        find_program(program[0])
    else:
        program = [sys.executable, *NODE]
    address = _find_root(root, index, patience)
    own = own_address(address) if index else address
    check_port(own, port + index)
    role = Role(kind, number, own, port + index)
    # Of the others only the number counts, and of the scheduler where it is.
    others = (role_of(i, workers, servers) for i in range(servers + workers + 1))
    roles = [Role(k, i, address, port) for k, i in others]
    env = environment(role, roles) | unbuffered() | ({} if kind == 'worker' else NO_GPU)
    env.pop('PS_VERBOSE', None)  # nobody reads here who has registered
    return program, env
