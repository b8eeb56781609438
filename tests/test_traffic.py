"""Bytes over TCP: the count is what went through real sockets, and counting changes nothing."""

import os
import resource
import socket
import sys
import threading
import time

import pytest

from mgpu_helpers.cluster import Traffic, socket_bytes, traffic

if sys.platform != 'linux':
    pytest.skip('asks the Linux kernel', allow_module_level=True)
LOOPBACK = [(socket.AF_INET, '127.0.0.1')]
if socket.has_dualstack_ipv6():
    LOOPBACK.append((socket.AF_INET6, '::1'))


class Pair:
    """Two ends of a connection: ``a`` has opened it, to ``b``."""

    def __init__(self, family=socket.AF_INET, address='127.0.0.1'):
        with socket.create_server((address, 0), family=family) as server:
            self.a = socket.create_connection(server.getsockname()[:2])
            self.b, _ = server.accept()

    def __enter__(self):
        return self.a, self.b

    def __exit__(self, *error):
        self.a.close()
        self.b.close()


@pytest.fixture(autouse=True)
def nothing_is_left_open():
    before = os.listdir('/proc/self/fd')
    yield
    assert os.listdir('/proc/self/fd') == before


def send(one, other, size):
    """Send ``size`` bytes, while the other end reads them all."""
    sender = threading.Thread(target=one.sendall, args=[bytes(size)])
    sender.start()
    while size:
        size -= len(other.recv(min(size, 1 << 16)))
    sender.join()


@pytest.mark.parametrize(('family', 'address'), LOOPBACK, ids=str)
def test_every_byte_counts_once(family, address):
    for size in (0, 1, 1000, 10_000_001):
        with Pair(family, address) as (a, b):
            before = socket_bytes()
            send(a, b, size)
            assert socket_bytes() - before == Traffic(size, size)
            send(b, a, 77)
            assert socket_bytes() - before == Traffic(size + 77, size + 77)


def test_only_what_left_for_a_slow_receiver_counts():
    """Buffers are not counted: what we wrote is more than what was sent."""
    with Pair() as (a, b):
        before = socket_bytes()
        a.setblocking(False)
        written = 0
        try:
            while True:
                written += a.send(bytes(1 << 16))
        except BlockingIOError:
            pass
        arrived = stable()
        sent = (arrived - before).sent
        assert 0 < sent < written
        # What is sent again and again to a closed window is not counted again.
        assert (arrived - before).received <= sent
        a.setblocking(True)
        left = written
        while left:
            left -= len(b.recv(1 << 16))
        assert socket_bytes() - before == Traffic(written, written)


def stable():
    """Wait until nothing changes for 50 ms."""
    last = None
    while last != (last := socket_bytes()):
        time.sleep(0.05)
    return last


def test_what_is_not_a_connection_of_tcp_is_passed_over(tmp_path):
    with Pair() as (a, b):
        send(a, b, 10)
        expected = socket_bytes()
        kinds = [socket.socketpair(socket.AF_UNIX, kind) for kind in (1, 2, 5)]
        for one, other in kinds:
            one.send(b'x' * 100)
            other.recv(100)
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(('127.0.0.1', 0))
        udp.sendto(b'x' * 100, udp.getsockname())
        netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)
        listening = socket.create_server(('127.0.0.1', 0))
        fresh = socket.socket()
        pipe = os.pipe()
        os.write(pipe[1], b'x' * 100)
        file = open(tmp_path / 'file', 'w')
        try:
            assert socket_bytes() == expected
        finally:
            for one in (*sum(kinds, ()), udp, netlink, listening, fresh, file):
                one.close()
            os.close(pipe[0]), os.close(pipe[1])


def test_a_closed_connection_no_longer_counts():
    before = socket_bytes()
    with Pair() as (a, b):
        send(a, b, 1000)
        assert socket_bytes() - before == Traffic(1000, 1000)
        a.shutdown(socket.SHUT_WR)  # the end of one direction is no byte
        assert b.recv(1) == b''
        send(b, a, 50)
        assert socket_bytes() - before == Traffic(1050, 1050)
        a.close()
        assert socket_bytes() - before == Traffic(50, 1000)
        b.sendall(b'x')  # answered with a reset: an error of the connection, none of ours
        time.sleep(0.05)
        assert socket_bytes().received >= 1000
    assert socket_bytes() - before == Traffic(0, 0)


def test_a_connection_with_several_descriptors_counts_once():
    with Pair() as (a, b):
        before = socket_bytes()
        copies = [a.dup(), a.dup(), b.dup()]
        send(a, b, 1000)
        assert socket_bytes() - before == Traffic(1000, 1000)
        a.close()  # it is still open
        assert socket_bytes() - before == Traffic(1000, 1000)
        for copy in copies:
            copy.close()


def test_the_sockets_stay_as_they_are():
    """With a default timeout, Python makes each socket that it wraps non-blocking, for all."""
    with Pair() as (a, b):
        flags = [(os.get_blocking(s.fileno()), os.get_inheritable(s.fileno())) for s in (a, b)]
        assert flags == [(True, False)] * 2
        socket.setdefaulttimeout(5)
        try:
            socket_bytes()
        finally:
            socket.setdefaulttimeout(None)
        assert flags == [(os.get_blocking(s.fileno()), False) for s in (a, b)]
        send(a, b, 10)


def test_descriptors_that_come_and_go_while_we_look():
    stop, errors, opened = threading.Event(), [], 0

    def churn():
        nonlocal opened
        try:
            while not stop.is_set():
                with Pair() as (a, b):
                    send(a, b, 10)
                opened += 1
        except OSError as error:
            errors.append(error)

    with Pair() as (a, b):
        send(a, b, 500)
        thread = threading.Thread(target=churn)
        thread.start()
        for _ in range(1000):
            assert 500 <= socket_bytes().sent <= 530  # of theirs, one a descriptor at most
        stop.set()
        thread.join()
    assert not errors and opened > 20


def test_no_descriptor_is_free():
    """An error, and not a sum from which some connections are missing."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Pair() as (a, b):
        descriptors = []
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (max(map(int, os.listdir('/proc/self/fd'))), hard)
        )
        try:
            with pytest.raises(OSError, match='Too many open files'):
                while True:
                    descriptors.append(os.dup(a.fileno()))
            with pytest.raises(OSError, match='Too many open files'):
                socket_bytes()
            os.close(descriptors.pop())  # enough for the list of descriptors, and then for each
            assert socket_bytes().sent == 0
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for descriptor in descriptors:
                os.close(descriptor)


def test_difference():
    assert Traffic(5, 7) - Traffic(1, 2) == Traffic(4, 5)
    assert Traffic(1, 2) - Traffic(5, 7) == Traffic(-4, -5)
    with pytest.raises(TypeError):
        Traffic(1, 2) - 1
    with pytest.raises(AttributeError):
        Traffic(1, 2).sent = 3


def test_no_linux(monkeypatch):
    monkeypatch.setattr(sys, 'platform', 'darwin')
    with pytest.raises(NotImplementedError, match='asks the Linux kernel, and this is darwin'):
        socket_bytes()


def test_a_kernel_that_is_too_old():
    """Linux 4.15 answers with 192 bytes."""
    with pytest.raises(RuntimeError, match='needs Linux 4.19 or newer.*in 192 bytes'):
        traffic._counts(bytes(192))
    assert traffic._counts(bytes(216)) == Traffic(0, 0)
