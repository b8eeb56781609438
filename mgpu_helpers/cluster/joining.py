"""Be one process of a cluster whose processes another system starts: Slurm, Kubernetes, a hand."""

from __future__ import annotations

import ipaddress
import socket
import sys
from collections.abc import Sequence

from .. import checks
from .hosts import is_here, resolve
from .launching import program_of
from .probe import find_program
from .roles import NODE, Role, check_first_port, check_numbers, check_port, environment


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

    Index 0 is the scheduler, then come servers, then workers; index i takes the port ``port + i``.
    ``command`` is what workers run, ``root`` the name or address of the machine of index 0, which
    is waited for ``patience`` seconds.
    """
    check_numbers(workers, servers)
    checks.whole_number('index', index)
    kinds = ['scheduler', *['server'] * servers, *['worker'] * workers]
    if index >= len(kinds):
        raise ValueError(
            f'index {index} stands for nobody: 1 scheduler, {servers} server{"s" * (servers > 1)} '
            f'and {workers} worker{"s" * (workers > 1)} have the indices 0 to {servers + workers}; '
            'start no more processes than that'
        )
    check_first_port(port, workers + servers)
    checks.not_negative('patience', patience)
    is_worker = kinds[index] == 'worker'
    program = program_of(command, sys.executable) if is_worker else [sys.executable, *NODE]
    find_program(program[0])
    address = _find_root(root, index, patience)
    own = _own_address(address) if index else address
    check_port(own, port + index)
    # Of the others only the number counts, and of the scheduler where it is.
    roles = [Role(kind, 0, address, port) for kind in kinds]
    env = environment(Role(kinds[index], index, own, port + index), roles)
    env.pop('PS_VERBOSE', None)  # nobody reads here who has registered
    return program, env


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


def _own_address(root: str) -> str:
    """Find the IPv4 address of this machine from which it reaches another, or itself.

    A UDP socket that is connected sends nothing, but the kernel chooses the way.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect((root, 9))
        except OSError as error:
            raise OSError(error.errno, error.strerror, f'from here to {root}') from error
        return s.getsockname()[0]
