"""LocalCluster: ranks, outputs, and what happens when a role of a real cluster dies or hangs."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time

import psutil
import pytest
from launching import ROOT, SECONDS

from mgpu_helpers.cluster import LocalCluster, train
from mgpu_helpers.cluster.roles import check_kind
from mgpu_helpers.processes import ProcessFailed

pytestmark = pytest.mark.usefixtures('started')


def say():
    """Become a worker, say something, and tell the rank and the address."""
    import mxnet as mx

    store = mx.kv.create('dist_sync')
    print('rank', store.rank)
    print('on stderr', file=sys.stderr)
    return store.rank, store.num_workers, int(os.environ['PORT'])


def soon_gone(started, but=0):
    """Wait for the end of what was killed; a guard may need a moment."""
    deadline = time.monotonic() + 10
    while len(started()) > but and time.monotonic() < deadline:
        time.sleep(0.05)
    return len(started()) == but


@pytest.fixture(scope='module')
def three():
    """A run of three workers and two servers, its lines, and the seconds that it took."""
    lines = []
    before = time.monotonic()
    with LocalCluster(workers=3, servers=2) as cluster:
        results = cluster.run(say, on_line=lambda *line: lines.append(line), show=False)
    return cluster, results, lines, time.monotonic() - before


def test_results_come_in_order_of_rank(three):
    ranks, sizes, ports = zip(*three[1])
    assert ranks == (0, 1, 2) and set(sizes) == {3} and ports == tuple(sorted(set(ports)))


def test_what_each_process_prints_comes_with_its_name_and_stands_side_by_side(three):
    cluster, _, lines, _ = three
    table = cluster.output
    assert table.headers == 'scheduler,server 0,server 1,worker 0,worker 1,worker 2'.split(',')
    for i in range(3):
        said = sorted(row[3 + i] for row in table.rows)
        assert said == ['on stderr', f'rank {i}']
        assert said == sorted(text for name, text in lines if name == f'worker {i}')
    # The scheduler reports every message that it sees, and none of it is for the reader.
    assert {cell for row in table.rows for cell in row[:3]} == {''} and len(lines) == 6
    assert 'worker 2' in repr(table) and '<table>' in table._repr_html_()


def test_without_a_store_the_functions_results_come_back_all_the_same(monkeypatch, capsys):
    monkeypatch.setattr('mgpu_helpers.processes.group.GRACE', 0.1)  # nobody ends the servers
    assert LocalCluster(2, 1).run(lambda: print('here') or 8) == [8, 8]
    assert sorted(capsys.readouterr().out.splitlines()) == ['[worker 0] here', '[worker 1] here']


def first_fails():
    import mxnet as mx

    store = mx.kv.create('dist_sync')
    store.init('x', mx.nd.zeros(3))
    if store.rank == 1:
        raise ArithmeticError('worker 1 has had enough')
    value = mx.nd.ones(3)
    store.push('x', value)
    store.pull('x', out=value)
    return value.asnumpy()  # waits for worker 1's push, for ever


def test_an_error_comes_with_its_own_traceback_while_the_others_hang_in_the_store():
    with pytest.raises(ProcessFailed) as caught, LocalCluster(2, 1) as cluster:
        cluster.run(first_fails, show=False)
    assert caught.value.name == 'worker 1'
    assert str(caught.value).startswith('worker 1 failed with ArithmeticError: worker 1 has had')
    assert 'in first_fails' in str(caught.value)
    assert caught.value.others == dict.fromkeys(['scheduler', 'server 0', 'worker 0'])


def at_work():
    """Push and pull for ever."""
    import mxnet as mx

    store = mx.kv.create('dist_sync')
    store.init('x', mx.nd.zeros(3))
    value = mx.nd.ones(3)
    while True:
        store.push('x', value)
        store.pull('x', out=value)
        value.wait_to_read()
        print('at work')
        time.sleep(0.02)


ROLES = ['scheduler', 'server 0', 'worker 1']
SIGNALS = [signal.SIGKILL, signal.SIGTERM, signal.SIGABRT]
# Each role and each signal in the short run of the tests, all nine pairs in the long one.
PAIRS = [
    pytest.param(role, number, marks=[] if i == j else pytest.mark.slow)
    for i, role in enumerate(ROLES)
    for j, number in enumerate(SIGNALS)
]


def never_comes():
    print('here')
    time.sleep(600)


@pytest.mark.parametrize(
    'function,line',
    [
        (at_work, 'at work'),
        pytest.param(train, 'epoch 1', marks=pytest.mark.slow),
        pytest.param(never_comes, 'here', marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize('role,number', PAIRS)
def test_a_killed_role_is_named(started, function, line, role, number):
    """During training and before the store is up; without us, the others would wait for ever."""
    killed = []

    def watch(name, text):
        if line in text and not killed:
            killed.append(time.monotonic())
            cluster.kill(role, number)

    options = {'num_examples': 512, 'num_epochs': 1000} if function is train else {}
    with LocalCluster(2, 1) as cluster:
        with pytest.raises(ProcessFailed) as caught:
            cluster.run(function, on_line=watch, show=False, settle=0.5, **options)
        assert time.monotonic() - killed[0] < SECONDS
        assert soon_gone(started)  # when run is over, not only when the block is
    assert (caught.value.name, caught.value.status) == (role, -number)
    names = ['scheduler', 'server 0', 'worker 0', 'worker 1']
    assert caught.value.others == {name: None for name in names if name != role}
    assert f'was killed by signal {int(number)} ({number.name})' in str(caught.value)


@pytest.mark.parametrize('stays', [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_worker_that_never_connects_is_named(three, tmp_path, stays):
    """Also one that returns, without an error, while the other one waits for it."""

    def function():
        try:
            os.close(os.open(tmp_path / 'first', os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            at_work()
        print('not me')
        time.sleep(600 if stays else 0)

    who, before, patience = [], time.monotonic(), 1.5 * three[-1]  # five had ended by then
    with LocalCluster(2, 1, connect_timeout=patience) as cluster:
        with pytest.raises(TimeoutError) as caught:
            cluster.run(
                function,
                show=False,
                on_line=lambda name, text: who.append(name) if text == 'not me' else None,
            )
    assert patience < time.monotonic() - before
    assert f'not up after {patience:g} seconds: {who[0]} has not registered' in str(caught.value)


def one_step_more():
    """Worker 1 goes on where worker 0 has ended."""
    import mxnet as mx

    store = mx.kv.create('dist_sync')
    store.init('x', mx.nd.zeros(3))
    for _ in range(1 + store.rank):
        store.push('x', mx.nd.ones(3))
        out = mx.nd.zeros(3)
        store.pull('x', out=out)
        out.wait_to_read()
    print('done')


def test_unequal_numbers_of_steps_end_in_a_timeout():
    lines = []
    with LocalCluster(2, 1) as cluster:
        with pytest.raises(TimeoutError, match='worker 0, worker 1 still at work after .* seconds'):
            cluster.run(
                one_step_more, timeout=1, show=False, on_line=lambda *line: lines.append(line)
            )
    assert lines == [('worker 0', 'done')]  # which waits for worker 1 to leave the store with it


def take_port(role, index, taken):
    """Be the other program: as soon as such a process has been started, take its port."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        ports = set()
        for process in psutil.Process().children():
            try:
                environment = process.environ()
            except psutil.Error:
                continue
            if environment.get('DMLC_ROLE') == role:
                ports.add(int(environment['PORT']))
        if len(ports) > index:
            taken.append(socket.create_server(('127.0.0.1', sorted(ports)[index])))
            return


@pytest.mark.parametrize(
    'role,index,error,words',
    [
        ('scheduler', 0, ProcessFailed, 'port {port} at 127.0.0.1, at which the scheduler should'),
        ('worker', 1, RuntimeError, 'a worker has registered from port .* took its own port'),
    ],
)
def test_a_port_that_another_program_takes_in_between(role, index, error, words):
    """A node loads MXNet, for most of a second, before it opens its port."""
    taken = []
    thread = threading.Thread(target=take_port, args=(role, index, taken))
    thread.start()
    try:
        with LocalCluster(2, 1) as cluster, pytest.raises(error) as caught:
            cluster.run(say, show=False)
    finally:
        thread.join()
        (server,) = taken
        port = server.getsockname()[1]
        server.close()
    assert caught.match(words.format(port=port))


NUMBERS = [
    ({'workers': 0}, ValueError, 'the number of workers must be at least 1, not 0'),
    ({'servers': 0}, ValueError, 'the number of servers must be at least 1, not 0'),
    ({'workers': 2.5}, TypeError, 'the number of workers must be an integer.*2.5'),
    ({'workers': None}, TypeError, 'the number of workers must be an integer.*None'),
    ({'workers': 2, 'servers': 3}, ValueError, '3 servers for 2 workers: .*at most 2'),
    ({'connect_timeout': 0}, ValueError, 'connect_timeout must be a number above 0, not 0'),
    ({'connect_timeout': None}, TypeError, 'connect_timeout must be a number above 0, not None'),
]


@pytest.mark.parametrize('arguments,error,words', NUMBERS)
def test_clusters_that_cannot_be(arguments, error, words):
    with pytest.raises(error, match=words):
        LocalCluster(**arguments)


LOCK = threading.Lock()


@pytest.mark.parametrize(
    'function,options,words',
    [
        ('train', {}, "function must be a function for every worker, not 'train'"),
        (lambda: LOCK, {}, 'cannot be sent to another process.*lock'),
        (lambda lock: 1, {'lock': LOCK}, 'cannot be sent to another process.*lock'),
        (print, {'on_line': 'print'}, 'on_line must be a function of a name and a line, not'),
        (print, {'timeout': 0}, 'timeout must be a number above 0, not 0'),
        (print, {'timeout': 'soon'}, "timeout must be a number above 0, not 'soon'"),
        (print, {'settle': -1}, 'settle must be a number above 0, not -1'),
    ],
)
def test_runs_that_cannot_be_start_nothing(popened, function, options, words):
    cluster = LocalCluster(2, 1)
    with pytest.raises((TypeError, ValueError), match=words):
        cluster.run(function, **options)
    assert popened == []
    with pytest.raises(RuntimeError, match='no run to kill anything in'):
        cluster.kill('worker 0')  # nor does it believe to be in a run


def test_during_a_run(started):
    """No second one, no unknown victim; an error of the caller's own callback ends it."""

    def interfere(name, text):
        with pytest.raises(RuntimeError, match='is in a run; wait for it, or make another'):
            cluster.run(print)
        cluster.kill('worker 7')

    with LocalCluster(2, 1) as cluster:
        with pytest.raises(ValueError, match="named 'worker 7' is running.*worker 0, worker 1"):
            cluster.run(never_comes, show=False, on_line=interfere)
        assert soon_gone(started)
        with pytest.raises(RuntimeError, match='no run to kill anything in'):
            cluster.kill('worker 0')


STARTER = f"""
    import sys, time
    sys.path.insert(0, {str(ROOT)!r})  # not on the PYTHONPATH: the roles must find it themselves
    from mgpu_helpers.cluster import LocalCluster

    def hang():
        import mxnet as mx
        store = mx.kv.create('dist_sync')
        print('connected')
        if store.rank == 0:
            store._barrier()
        time.sleep(600)

    def rank():
        import mxnet as mx
        return mx.kv.create('dist_sync').rank

    cluster = LocalCluster(2, 1)
    try:
        cluster.run(hang, show=False, on_line=lambda name, line: print(line, flush=True))
    except KeyboardInterrupt:
        print('interrupted', flush=True)
        sys.stdin.readline()
        print(cluster.run(rank), flush=True)
"""


@pytest.mark.parametrize(
    'number',
    [signal.SIGINT, *(pytest.param(n, marks=pytest.mark.slow) for n in SIGNALS[:2])],
)
def test_nothing_is_left_when_the_starter_ends(started, tmp_path, number):
    """Ctrl-C, after which the cluster can be run again; a polite end; one without a last word."""
    starter = subprocess.Popen(
        [sys.executable, '-c', textwrap.dedent(STARTER)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path,
    )  # fmt: skip
    with starter:
        assert [starter.stdout.readline() for _ in range(2)] == ['connected\n'] * 2
        assert len(started()) >= 9  # four roles, a guard for each, and the starter
        starter.send_signal(number)
        again = number == signal.SIGINT
        assert soon_gone(started, but=again)
        if again:
            assert starter.stdout.readline() == 'interrupted\n'
            assert starter.communicate('\n', timeout=60)[0] == '[0, 1]\n'
            assert starter.returncode == 0
        else:
            assert starter.wait(timeout=10) == -number


def test_a_store_that_there_is_not_is_refused(monkeypatch):
    with pytest.raises(RuntimeError, match='this process is no worker of one: call.*LocalCluster'):
        check_kind('dist_sync')
    monkeypatch.setenv('DMLC_ROLE', 'worker')
    check_kind('dist_sync', {'type': '2bit', 'threshold': 0.5})
    for kind, compression, words in (
        ('dist_sync', '2bit', 'compression must be a dict such as'),
        ('dist_sync', {'type': '1bit', 'threshold': 0.5}, "compression's type must be one of 2bit"),
        ('dist_sync', {'type': '2bit', 'threshold': 0}, "compression's threshold must be"),
        ('local', {'type': '2bit', 'threshold': 0.5}, "whose kind begins with 'dist_'"),
        ('lokal', None, 'kind must be one of local, device'),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            check_kind(kind, compression)
