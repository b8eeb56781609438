"""How many bytes this process has sent and received over TCP, as the kernel counted them.

Nothing has to be built into the program that is measured, nor into the libraries that it uses: the
kernel keeps these counters for every connection anyway.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import platform
import socket
import stat
import struct
import sys
from collections.abc import Iterable, Set
from dataclasses import dataclass

from .. import checks

Peer = tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]  # an address and a port

# Places in Linux's `struct tcp_info` (include/uapi/linux/tcp.h), which only ever grows at its end.
# Not `tcpi_bytes_acked`: it is late by the time of an acknowledgement, and counts the opening and
# the closing of a connection as a byte each (measured: 1,001 for 1,000 on the side that connects).
RECEIVED, SENT, SENT_AGAIN = 128, 200, 208
NEEDED = 216
# States in which the other end has closed its direction, which `tcpi_bytes_received` counts as a
# byte: CLOSE_WAIT, LAST_ACK, CLOSING.
OTHER_END_CLOSED = (8, 9, 11)


@dataclass(frozen=True)
class Traffic:
    """Bytes sent and received; one ``Traffic`` minus an earlier one is what came in between.

    Examples
    --------
    >>> Traffic(sent=4000, received=10) - Traffic(sent=1000, received=10)
    Traffic(sent=3000, received=0)
    """

    sent: int
    received: int

    def __sub__(self, earlier: Traffic) -> Traffic:
        if not isinstance(earlier, Traffic):
            return NotImplemented
        return Traffic(self.sent - earlier.sent, self.received - earlier.received)


def socket_bytes(peers: Iterable[tuple[str, int]] | None = None) -> Traffic:
    """Count the bytes that went through this process's TCP connections, those of libraries too.

    Parameters
    ----------
    peers : iterable of (str, int), optional
        Count only connections whose other end is one of these, IP address and port. By default all.

    Returns
    -------
    Traffic
        Sum over the connections that are open in this process now, each since its beginning (and
        once, however many file descriptors it has). A connection that was closed since is no
        longer counted, so that the difference of two may even be negative: open what is to be
        measured before the first call, and close it after the second.

    Raises
    ------
    NotImplementedError
        Where there is no Linux.
    RuntimeError
        If the kernel is older than Linux 4.19, and does not count what we need.
    TypeError, ValueError
        If ``peers`` is not as described.

    Notes
    -----
    What programs handed over, without the headers of TCP and IP and without what had to be sent
    again. ``sent`` has left for the other end, and may still be on its way; ``received`` has
    arrived, and may not yet have been read. What still waits in this process, or in its sockets
    for a receiver that is slow, counts for neither. Exact, except that a connection that both ends
    have closed, but this process still holds, may have one byte too many received.

    The kernel's ``getsockopt(TCP_INFO)``, see tcp(7). A call takes 0.6 ms where 100 connections
    are open.

    Examples
    --------
    >>> server = socket.create_server(('127.0.0.1', 0))
    >>> with socket.create_connection(server.getsockname()) as a, server.accept()[0] as b:
    ...     before = socket_bytes()
    ...     a.sendall(bytes(1000))
    ...     _ = b.recv(1000, socket.MSG_WAITALL)
    ...     socket_bytes() - before
    Traffic(sent=1000, received=1000)
    >>> server.close()
    """
    if sys.platform != 'linux':
        raise NotImplementedError(
            f'socket_bytes asks the Linux kernel, and this is {sys.platform}: on Windows use '
            'WSL 2, on a Mac a virtual machine or a container with Linux'
        )
    wanted = None if peers is None else check_peers(peers)
    found = {}  # by the number of the socket: several descriptors can have the same one
    for descriptor in os.listdir('/proc/self/fd'):
        found.update(_ask(int(descriptor), wanted))
    return Traffic(sum(t.sent for t in found.values()), sum(t.received for t in found.values()))


def _ask(descriptor: int, wanted: Set[Peer] | None) -> dict[int, Traffic]:
    """Give ``{number of the socket: its Traffic}``, and ``{}`` where there is none that counts."""
    try:
        copy = os.dup(descriptor)  # so that nobody can close it, and open another, while we ask
    except OSError as error:
        if error.errno != errno.EBADF:
            raise
        return {}  # closed since it was listed
    view = None
    try:
        status = os.fstat(copy)
        if not stat.S_ISSOCK(status.st_mode):
            return {}
        # SOCK_NONBLOCK is no setting here. Without it, where there is socket.setdefaulttimeout,
        # Python would turn the process's own socket, not only this view of it, non-blocking.
        view = socket.socket(type=socket.SOCK_STREAM | socket.SOCK_NONBLOCK, fileno=copy)
        answer = view.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        if wanted is None or _plain(*view.getpeername()[:2]) in wanted:
            return {status.st_ino: _counts(answer)}
        return {}
    except OSError as error:
        # The kinds of sockets that are not TCP's say one of the first two; who asks for the other
        # end of one that has none gets the third.
        if error.errno not in (errno.EOPNOTSUPP, errno.ENOPROTOOPT, errno.ENOTCONN):
            raise
        return {}
    finally:
        if view is not None:
            view.detach()  # else it would close the copy, too
        os.close(copy)


def _counts(answer: bytes) -> Traffic:
    """Read a ``struct tcp_info``."""
    if len(answer) < NEEDED:
        raise RuntimeError(
            f'socket_bytes needs Linux 4.19 or newer: here, {platform.release()} describes a '
            f'connection in {len(answer)} bytes, and what was sent stands in the {NEEDED}th'
        )
    received, sent, again = (
        struct.unpack_from('=Q', answer, at)[0] for at in (RECEIVED, SENT, SENT_AGAIN)
    )
    return Traffic(sent - again, received - (answer[0] in OTHER_END_CLOSED))


def check_peers(peers: Iterable[tuple[str, int]]) -> set[Peer]:
    """Give ``peers`` as a set of IP addresses and ports, each in one way of writing.

    Raises
    ------
    TypeError
        If it is not an iterable of (str, int).
    ValueError
        If an address is not one, or a port cannot be.

    Examples
    --------
    >>> check_peers([('127.0.0.1', 9000)])
    {(IPv4Address('127.0.0.1'), 9000)}
    """
    way_out = "give IP addresses and ports, such as [('127.0.0.1', 9000)]"
    try:
        pairs = [(address, port) for address, port in peers]
    except (TypeError, ValueError):
        raise TypeError(f'peers is {checks.shown(peers)}: {way_out}') from None
    for address, port in pairs:
        checks.whole_number('a port in peers', port, least=1)
        if not isinstance(address, str):
            raise TypeError(f'peers has the address {checks.shown(address)}: {way_out}')
        try:
            _plain(address, port)
        except ValueError:
            raise ValueError(
                f'peers has {address!r}, which is no IP address: {way_out}; '
                'socket.gethostbyname finds the address of a name'
            ) from None
    return {_plain(*pair) for pair in pairs}


def _plain(address: str, port: int) -> Peer:
    """Write an address in one way: of IPv4, also where a socket of IPv6 speaks to one of IPv4."""
    address = ipaddress.ip_address(address)
    return getattr(address, 'ipv4_mapped', None) or address, int(port)
