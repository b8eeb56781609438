"""Bytes over TCP: the count is what went through real sockets. Chapter 4 counts the store's."""

import contextlib
import os
import socket
import sys
import threading

import pytest

from mgpu_helpers.cluster import socket_bytes

if sys.platform != 'linux':
    pytest.skip('asks the Linux kernel', allow_module_level=True)


@contextlib.contextmanager
def pair(address='127.0.0.1'):
    """Two ends of a connection: the first has opened it."""
    family = socket.AF_INET6 if ':' in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as server:
        a = socket.create_connection(server.getsockname()[:2])
        b, _ = server.accept()
    with a, b:
        yield a, b


def since(before):
    """Count again; return the difference."""
    return tuple(now - then for now, then in zip(socket_bytes(), before))


@pytest.fixture(autouse=True)
def nothing_is_left_open():
    before = os.listdir('/proc/self/fd')
    yield
    assert os.listdir('/proc/self/fd') == before


def receive(end, size):
    while size:
        size -= len(end.recv(min(size, 1 << 16)))


def send(one, other, size):
    """Send ``size`` bytes, while the other end reads them all."""
    sender = threading.Thread(target=one.sendall, args=[bytes(size)])
    sender.start()
    receive(other, size)
    sender.join()


@pytest.mark.parametrize('address', ['127.0.0.1'] + ['::1'] * socket.has_dualstack_ipv6())
def test_every_byte_counts_once_until_its_connection_is_closed(address):
    start = socket_bytes()
    for size in (0, 1, 10_000_001):
        with pair(address) as (a, b):
            before = socket_bytes()
            send(a, b, size)
            assert since(before) == (size, size)
            a.shutdown(socket.SHUT_WR)  # the end of one direction is no byte
            assert b.recv(1) == b''
            send(b, a, 77)
            assert since(before) == (size + 77, size + 77)
            a.close()
            assert since(before) == (77, size)
    assert since(start) == (0, 0)


def test_what_is_not_a_connection_of_tcp_is_passed_over(tmp_path):
    with pair() as (a, b), contextlib.ExitStack() as others:
        send(a, b, 10)
        expected = socket_bytes()
        one, other = map(others.enter_context, socket.socketpair())
        one.send(b'x' * 100)
        others.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        others.enter_context(socket.create_server(('127.0.0.1', 0)))
        others.enter_context(socket.socket())  # not connected
        others.enter_context(open(tmp_path / 'file', 'w'))
        assert socket_bytes() == expected


def test_a_connection_with_several_descriptors_counts_once_and_stays_as_it_is():
    with pair() as (a, b):
        # With a default timeout, Python makes each socket that it wraps non-blocking, for all.
        socket.setdefaulttimeout(5)
        try:
            before = socket_bytes()
        finally:
            socket.setdefaulttimeout(None)
        assert os.get_blocking(a.fileno()) and not os.get_inheritable(a.fileno())
        with a.dup(), a.dup(), b.dup():
            send(a, b, 1000)
            a.close()  # it is still open
            assert since(before) == (1000, 1000)


def test_another_system_is_refused(monkeypatch):
    monkeypatch.setattr(sys, 'platform', 'darwin')
    with pytest.raises(NotImplementedError, match='needs the Linux kernel, not darwin'):
        socket_bytes()
