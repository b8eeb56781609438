"""LocalCluster: ranks, outputs, and what happens when a role of a real cluster dies or hangs."""

import contextlib
import os
import signal
import socket
import sys
import threading
import time

import psutil
import pytest
from launching import Started

from mgpu_helpers.cluster import LocalCluster
from mgpu_helpers.processes import ProcessFailed
from mgpu_helpers.processes.guard import LEASH

pytestmark = pytest.mark.usefixtures('started')


def joined():
    """Become a worker; return MXNet and a store with one array in it."""
    import mxnet as mx

    store = mx.kv.create('dist_sync')
    store.init('x', mx.nd.zeros(3))
    return mx, store


def step(mx, store):
    """Push and pull, which waits for the other workers; return the pulled array."""
    value = mx.nd.ones(3)
    store.push('x', value)
    store.pull('x', out=value)
    return value.asnumpy()


def say():
    """Say something, and tell the rank and the address."""
    _, store = joined()
    print('rank', store.rank)
    print('on stderr', file=sys.stderr)
    return store.rank, store.num_workers, int(os.environ['PORT'])


@pytest.fixture(scope='module')
def three():
    """A run of three workers and two servers, and its lines."""
    lines, cluster = [], LocalCluster(workers=3, servers=2)
    results = cluster.run(say, on_line=lambda *line: lines.append(line), show=False)
    return cluster, results, lines


def test_results_come_in_order_of_rank_and_lines_with_the_name_of_who_printed_them(three):
    cluster, results, lines = three
    ranks, sizes, ports = zip(*results)
    assert ranks == (0, 1, 2) and set(sizes) == {3} and ports == tuple(sorted(set(ports)))
    table = cluster.output
    assert table.headers == 'scheduler,server 0,server 1,worker 0,worker 1,worker 2'.split(',')
    for i in range(3):
        said = sorted(row[3 + i] for row in table.rows)
        assert said == ['on stderr', f'rank {i}']
        assert said == sorted(text for name, text in lines if name == f'worker {i}')
    # The scheduler reports every message that it sees, and none of it is for the reader.
    assert {cell for row in table.rows for cell in row[:3]} == {''} and len(lines) == 6


def test_without_a_store_the_functions_results_come_back_all_the_same(monkeypatch, capsys):
    monkeypatch.setattr('mgpu_helpers.processes.group.GRACE', 0.1)  # nobody ends the servers
    assert LocalCluster(2, 1).run(lambda: print('here') or 8) == [8, 8]
    assert sorted(capsys.readouterr().out.splitlines()) == ['[worker 0] here', '[worker 1] here']


def at_work():
    mx, store = joined()
    while True:
        step(mx, store)
        print('at work')
        time.sleep(0.02)


def one_step_more():
    """Worker 1 continues after worker 0 has exited."""
    mx, store = joined()
    for _ in range(1 + store.rank):
        step(mx, store)
    print('done')


def test_unequal_numbers_of_steps_are_talked_about_and_end_in_a_timeout(monkeypatch, capsys):
    monkeypatch.setattr('mgpu_helpers.cluster.registration.PATIENCE', 0.5)
    cluster, words = LocalCluster(2, 1), 'worker 0, worker 1 still at work after .* seconds'
    with pytest.raises(TimeoutError, match=words):
        cluster.run(one_step_more, timeout=5, show=False)
    # It waits for worker 1 to leave the store with it.
    assert [row[2:] for row in cluster.output.rows] == [['done', '']]
    words = 'waiting for all, at the end or in init: worker 0; still at work: worker 1'
    assert capsys.readouterr().out.count(words) == 1


@pytest.mark.parametrize(
    'role,index,error,words',
    [
        ('scheduler', 0, ProcessFailed, 'port {port} at 127.0.0.1, at which the scheduler should'),
        ('worker', 1, RuntimeError, 'a worker has registered from port .* took its own port'),
    ],
)
def test_a_port_that_another_program_takes_in_between(started, role, index, error, words):
    """A node loads MXNet, for most of a second, before it opens its port."""
    taken = []

    def take():
        deadline = time.monotonic() + 20
        while not taken and time.monotonic() < deadline:
            with contextlib.suppress(psutil.Error):
                environments = [process.environ() for process in started()]
                ports = {int(e['PORT']) for e in environments if e.get('DMLC_ROLE') == role}
                if len(ports) > index:
                    taken.append(socket.create_server(('127.0.0.1', sorted(ports)[index])))

    thread = threading.Thread(target=take)
    thread.start()
    try:
        with pytest.raises(error) as caught:
            LocalCluster(2, 1).run(say, show=False)
    finally:
        thread.join()
        (server,) = taken
        port = server.getsockname()[1]
        server.close()
    assert caught.match(words.format(port=port))


LOCK = threading.Lock()
NO_CLUSTERS = [
    ({'workers': 0}, 'the number of workers must be at least 1, not 0'),
    ({'workers': 2.5}, 'the number of workers must be an integer.*2.5'),
    ({'workers': 2, 'servers': 3}, '3 servers for 2 workers: .*at most 2'),
    ({'workers': 5000}, '5001 workers and servers are too many for 1 machine'),
]
NO_RUNS = [
    ('train', {}, "function must be a function for every worker, not 'train'"),
    (lambda: LOCK, {}, 'cannot be sent to another process.*lock'),
    (print, {'on_line': 'print'}, 'on_line must be a function of a name and a line, not'),
    (print, {'timeout': 0}, 'timeout must be a number above 0, not 0'),
    (print, {'settle': -1}, 'settle must be a number above 0, not -1'),
]


def test_what_cannot_be_starts_nothing(popened):
    for arguments, words in NO_CLUSTERS:
        with pytest.raises((TypeError, ValueError), match=words):
            LocalCluster(**arguments)
    cluster = LocalCluster(2, 1)
    for function, options, words in NO_RUNS:
        with pytest.raises((TypeError, ValueError), match=words):
            cluster.run(function, **options)
        with pytest.raises(RuntimeError, match='no run to kill anything in'):
            cluster.kill('worker 0')  # nor does it believe to be in a run
    assert popened == []


def test_during_a_run():
    """No second cluster, no unknown role to kill; an error in the caller's callback stops it."""

    def interfere(name, text):
        with pytest.raises(RuntimeError, match='is in a run; wait for it, or make another'):
            cluster.run(print)
        cluster.kill('worker 7')

    with LocalCluster(2, 1) as cluster:
        with pytest.raises(ValueError, match="named 'worker 7' is running.*worker 0, worker 1"):
            cluster.run(at_work, show=False, on_line=interfere)
        with pytest.raises(RuntimeError, match='no run to kill anything in'):
            cluster.kill('worker 0')


def test_after_ctrl_c_the_cluster_can_be_run_again():
    cluster = LocalCluster(2, 1)
    with pytest.raises(KeyboardInterrupt):
        cluster.run(at_work, show=False, on_line=lambda *line: signal.raise_signal(signal.SIGINT))
    assert [rank for rank, *_ in cluster.run(say, show=False)] == [0, 1]


def test_all_roles_end_with_their_starter_though_their_guards_were_killed_before():
    """test_processes covers workers; without them, servers and scheduler must exit as well."""
    code = 'from test_cluster import LocalCluster, at_work; LocalCluster(2, 1).run(at_work)'
    folder = os.path.dirname(__file__)
    with Started(sys.executable, '-uc', code, cwd=folder) as starter:
        starter.line_with('at work')
        guards = [process for process in starter.living() if LEASH in process.cmdline()]
        assert len(guards) == 4
        for process in (*guards, starter.process):
            process.kill()
        assert starter.end()[0] == -signal.SIGKILL
