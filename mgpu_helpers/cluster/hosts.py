"""The machines of a cluster: a hostfile read, names turned into addresses."""

from __future__ import annotations

import ipaddress
import re
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from .roles import LOOPBACK

# A name that begins with '-' would be an option to ssh.
LINE = re.compile(r'(?:([\w.-]+)@)?(\w[\w.-]*)(?:\s+slots\s*=\s*(\d+))?')


@dataclass(frozen=True)
class Host:
    """One machine.

    Parameters
    ----------
    name : str
        As in the hostfile: what ssh is told.
    ip : str
        IPv4 address at which the others reach it.
    slots : int or None
        How many workers it takes at most; None: any number.
    here : bool
        Whether we start its processes ourselves, or through ssh.

    Examples
    --------
    >>> Host('me@b', '192.168.1.7', slots=2, here=False).ip
    '192.168.1.7'
    """

    name: str
    ip: str
    slots: int | None
    here: bool


THIS = Host('localhost', LOOPBACK, None, True)


def resolve(name: str, patience: float = 0) -> str:
    """Turn a host name into an IPv4 address (MXNet's store knows no other kind).

    Parameters
    ----------
    name : str
        Or an address, which is given back.
    patience : float
        Seconds for which an unknown name is asked for again: in a cluster that is being started,
        names may come later than processes.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If nobody knows the name.

    Examples
    --------
    >>> resolve('127.0.0.1')
    '127.0.0.1'
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            found = socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)
            return str(found[0][4][0])
        except (OSError, UnicodeError) as error:
            if time.monotonic() >= deadline:
                waited = f' after {patience:g} seconds' if patience else ''
                raise ValueError(
                    f'the host name {name!r} leads to no IPv4 address{waited} '
                    f'({getattr(error, "strerror", None) or error}): is it spelled right? An '
                    'address such as 192.168.1.7 works without a name server'
                ) from error
        time.sleep(min(1, max(0, deadline - time.monotonic())))


def is_here(ip: str) -> bool:
    """Tell whether an address is one of this machine.

    Parameters
    ----------
    ip : str
        IPv4.

    Returns
    -------
    bool

    Examples
    --------
    >>> is_here('127.0.0.1'), is_here('203.0.113.1')  # the second is reserved for documentation
    (True, False)
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.bind((ip, 0))
        except OSError:
            return False
    return True


def read_hosts(path: str | Path) -> list[Host]:
    """Read a hostfile: in each line ``name`` or ``name slots=N``, and comments after ``#``.

    A name may be an address, and ``user@`` may stand before it.

    Parameters
    ----------
    path : str or pathlib.Path

    Returns
    -------
    list of Host
        In the order of the file. If all are loopback addresses, each of them is 127.0.0.1.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If a line cannot be understood, if a name is unknown or two mean the same machine, if there
        is no host, or if 127.0.0.1 stands beside a machine that could not reach it.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile('w') as file:
    ...     _ = file.write('localhost slots=2  # this machine')
    ...     file.flush()
    ...     read_hosts(file.name)
    [Host(name='localhost', ip='127.0.0.1', slots=2, here=True)]
    """
    hosts: dict[str, Host] = {}
    for number, line in enumerate(Path(path).read_text(errors='replace').splitlines(), 1):
        line = line.partition('#')[0].strip()
        if not line:
            continue
        where = f'{path}, line {number}'
        match = LINE.fullmatch(line)
        if not match:
            raise ValueError(f"{where}: expected 'name' or 'name slots=N', not {line!r}")
        user, name, slots = match.groups()
        if slots is not None and int(slots) < 1:
            raise ValueError(
                f'{where}: {name} takes {slots} workers; leave the line out, or take at least 1'
            )
        try:
            ip = resolve(name)
        except ValueError as error:
            raise ValueError(f'{where}: {error}') from error
        full = f'{user}@{name}' if user else name
        if ipaddress.ip_address(ip).is_loopback:
            ip = LOOPBACK
        # Another user's processes are started through ssh, also on this machine.
        host = Host(full, ip, int(slots) if slots else None, is_here(ip) and not user)
        if host.ip in hosts:
            raise ValueError(
                f'{where}: {name} is {host.ip}, and so is {hosts[host.ip].name} in an earlier '
                'line: name each machine once, and with slots=N how many workers it takes'
            )
        hosts[host.ip] = host
    if not hosts:
        raise ValueError(f'{path} names no host: write one per line, or leave --hostfile out')
    if LOOPBACK in hosts and len(hosts) > 1:
        other = next(host for host in hosts.values() if host.ip != LOOPBACK)
        raise ValueError(
            f'{path}: {hosts[LOOPBACK].name} is {LOOPBACK}, the address by which every machine '
            f'reaches only itself, so {other.name} cannot reach it: write the address that this '
            'machine has in their network'
        )
    return list(hosts.values())
