"""Ask Linux how many bytes this process has sent and received over TCP."""

from __future__ import annotations

import contextlib
import os
import platform
import socket
import struct
import sys
from pathlib import Path
from typing import NamedTuple

# Offsets in Linux's `struct tcp_info` (include/uapi/linux/tcp.h), which only grows at its end.
# Not `tcpi_bytes_acked`: it lags until the acknowledgement arrives, and counts opening and closing
# a connection as one byte each (measured: 1,001 for 1,000 on the side that connects).
RECEIVED, SENT, SENT_AGAIN, NEEDED = 128, 200, 208, 216
# States in which the other end has closed its direction; `tcpi_bytes_received` counts that as one
# byte: CLOSE_WAIT, LAST_ACK, CLOSING.
OTHER_END_CLOSED = (8, 9, 11)


class SocketBytes(NamedTuple):
    """Bytes sent and received."""

    sent: int
    received: int


def socket_bytes() -> SocketBytes:
    """Count the bytes of this process's open TCP connections, libraries' included.

    Counting starts when a connection opens: open all, call this twice, and subtract. Headers and
    retransmissions are excluded, and bytes waiting for a slow receiver count on neither side. The
    count is exact, except for one extra received byte after both ends have closed. It uses Linux's
    ``getsockopt(TCP_INFO)`` and takes 0.6 ms for 100 connections.
    """
    if sys.platform != 'linux':
        raise NotImplementedError(
            f'socket_bytes needs the Linux kernel, not {sys.platform}: on Windows use '
            'WSL 2, on a Mac a virtual machine or a container with Linux'
        )
    counts = {}  # by socket name, as several descriptors may share a socket
    for descriptor in Path('/proc/self/fd').iterdir():
        with contextlib.suppress(OSError):  # closed since it was listed, or not a TCP socket
            name = os.readlink(descriptor)
            if name.startswith('socket:'):
                counts[name] = _counts(int(descriptor.name))
    return SocketBytes(*map(sum, zip((0, 0), *counts.values())))


def _counts(descriptor: int) -> SocketBytes:
    # SOCK_NONBLOCK does not change the socket here. Without it, socket.setdefaulttimeout would
    # make the process's own socket non-blocking, not only this view of it.
    kind = socket.SOCK_STREAM | socket.SOCK_NONBLOCK
    # A copy, so that the descriptor cannot be closed and reused meanwhile.
    with socket.socket(type=kind, fileno=os.dup(descriptor)) as view:
        answer = view.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    if len(answer) < NEEDED:
        raise RuntimeError(f'socket_bytes needs Linux 4.19 or newer, not {platform.release()}')
    received, sent, again = (
        struct.unpack_from('=Q', answer, at)[0] for at in (RECEIVED, SENT, SENT_AGAIN)
    )
    return SocketBytes(sent - again, received - (answer[0] in OTHER_END_CLOSED))
