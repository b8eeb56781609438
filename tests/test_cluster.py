"""LocalCluster: ranks, outputs, and what happens when a role of a real cluster dies or hangs."""

import os
import signal
import sys
import threading
import time

import pytest
from launching import Started

from mgpu_helpers.cluster import LocalCluster
from mgpu_helpers.processes import ProcessFailed

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
    """Say something, and tell the rank and the number of workers."""
    _, store = joined()
    print('rank', store.rank)
    print('on stderr', file=sys.stderr)
    return store.rank, store.num_workers


def test_results_come_in_order_of_rank_and_lines_with_the_name_of_who_printed_them():
    lines, cluster = [], LocalCluster(workers=3, servers=2)
    results = cluster.run(say, on_line=lambda *line: lines.append(line), show=False)
    assert results == [(0, 3), (1, 3), (2, 3)]
    table = cluster.output
    assert table.headers == 'scheduler,server 0,server 1,worker 0,worker 1,worker 2'.split(',')
    for i in range(3):
        said = sorted(row[3 + i] for row in table.rows)
        assert said == ['on stderr', f'rank {i}']
        assert said == sorted(text for name, text in lines if name == f'worker {i}')


def at_work():
    mx, store = joined()
    while True:
        step(mx, store)
        print('at work')
        time.sleep(0.02)


def test_a_killed_worker_is_named_and_unequal_steps_end_in_a_timeout():
    def kill(name, text):
        cluster.kill('worker 1')

    cluster = LocalCluster(2, 1)
    with pytest.raises(ProcessFailed, match='^worker 1 was killed by signal 9') as caught:
        cluster.run(at_work, on_line=kill, show=False, settle=0.1)
    assert caught.value.others == {'scheduler': None, 'server 0': None, 'worker 0': None}

    def uneven():
        mx, store = joined()
        for _ in range(1 + store.rank):
            step(mx, store)
        print('done')

    words = 'worker 0, worker 1 still at work after 1 seconds'
    with pytest.raises(TimeoutError, match=words):
        cluster.run(uneven, timeout=1, show=False)
    assert [row[2:] for row in cluster.output.rows] == [['done', '']]


LOCK = threading.Lock()
NO_CLUSTERS = [
    ({'workers': 0}, 'the number of workers must be at least 1, not 0'),
    ({'workers': 2.5}, 'the number of workers must be an integer.*2.5'),
    ({'workers': 2, 'servers': 3}, '3 servers for 2 workers: take at most as many'),
    ({'workers': 5000}, '1 servers for 5000 workers: .* at most 256 of both'),
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


def test_after_ctrl_c_the_cluster_can_be_run_again():
    cluster = LocalCluster(2, 1)
    with pytest.raises(KeyboardInterrupt):
        cluster.run(at_work, show=False, on_line=lambda *line: signal.raise_signal(signal.SIGINT))
    assert cluster.run(say, show=False) == [(0, 2), (1, 2)]


def test_all_roles_end_with_their_starter():
    code = 'from test_cluster import LocalCluster, at_work; LocalCluster(2, 1).run(at_work)'
    folder = os.path.dirname(__file__)
    with Started(sys.executable, '-uc', code, cwd=folder) as starter:
        starter.line_with('at work')
        assert len(starter.living()) >= 4
        starter.process.kill()
        assert starter.end()[0] == -signal.SIGKILL
