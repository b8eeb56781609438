"""The machines of a cluster: a hostfile read, names turned into addresses."""

from __future__ import annotations

import ipaddress
import re
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from .placement import LOOPBACK
from .preflight import is_here

# To ssh, what begins with '-' is an option, be it a user or a machine. ASCII: other letters look
# like these, and ssh and we would make different names of them. No name is over 253 letters long.
LINE = re.compile(r'(?:(\w[\w.-]{0,63})@)?(\w[\w.-]{0,252})(?:\s+slots\s*=\s*(\d{1,6}))?', re.ASCII)


@dataclass(frozen=True)
class Host:
    """One machine."""

    name: str  # as in the hostfile: what ssh is told
    ip: str  # IPv4 address at which the others reach it
    slots: int | None  # how many workers it takes at most; None: any number
    here: bool  # we start its processes ourselves, not through ssh


THIS = Host('localhost', LOOPBACK, None, True)


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
