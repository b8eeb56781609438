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

from mgpu_helpers.cluster import LocalCluster, train
from mgpu_helpers.cluster.roles import check_kind
from mgpu_helpers.processes import ProcessFailed

pytestmark = pytest.mark.usefixtures('started')
HERE = os.path.dirname(os.path.dirname(__file__))


def join_and_say():
    """Become a worker, say something, and tell the rank and the address."""
    import mxnet as mx

    store = mx.kv.create('dist_sync')
    print('rank', store.rank)
    print('on stderr', file=sys.stderr)
    return store.rank, store.num_workers, int(os.environ['PORT'])


def hang():
    """Wait for ever in the store, as a worker does whose partner does not come."""
    import mxnet as mx

    store = mx.kv.create('dist_sync')
    print('connected', store.rank)
    if store.rank == 0:
        store._barrier()
    time.sleep(600)


def soon_gone(started, but=0):
    """Wait for the end of what was killed; a guard may need a moment."""
    deadline = time.monotonic() + 10
    while len(started()) > but and time.monotonic() < deadline:
        time.sleep(0.05)
    return len(started()) == but


@pytest.fixture(scope='module')
def three():
    """A run of three workers and two servers."""
    lines = []
    before = time.monotonic()
    with LocalCluster(workers=3, servers=2) as cluster:
        results = cluster.run(
            join_and_say, on_line=lambda name, text: lines.append((name, text)), show=False
        )
    return cluster, results, lines, time.monotonic() - before


@pytest.fixture
def patience(three):
    """Give the seconds that two workers and a server need here and now, and half as much more."""
    return 1.5 * three[-1]


def test_results_come_in_order_of_rank(three):
    _, results, *_ = three
    assert [rank for rank, _, _ in results] == [0, 1, 2]
    assert {size for _, size, _ in results} == {3}
    ports = [port for _, _, port in results]
    assert ports == sorted(set(ports))


@pytest.mark.slow
@pytest.mark.parametrize('time', range(9))
def test_ranks_every_time(time):
    """With ``three``, ten times: rank i is worker i, and the scheduler's reports stay out."""
    with LocalCluster(workers=3, servers=2) as cluster:
        results = cluster.run(join_and_say, show=False)
    assert [rank for rank, _, _ in results] == [0, 1, 2]
    assert [row[0] for row in cluster.output.rows] == ['', '']


def test_what_each_process_prints_stands_side_by_side(three):
    cluster, *_ = three
    table = cluster.output
    names = ['scheduler', 'server 0', 'server 1', 'worker 0', 'worker 1', 'worker 2']
    assert table.headers == names
    for i in range(3):
        column = [row[3 + i] for row in table.rows]
        assert sorted(column) == ['on stderr', f'rank {i}']
    # The scheduler reports every message that it sees, and none of it is for the reader.
    assert {cell for row in table.rows for cell in row[:3]} == {''}
    assert 'worker 2' in repr(table) and '<table>' in table._repr_html_()


def test_lines_come_with_their_names(three, capsys):
    _, _, lines, _ = three
    assert sorted(lines) == sorted(
        (f'worker {i}', text) for i in range(3) for text in (f'rank {i}', 'on stderr')
    )


SCRIPT = """
    import sys
    import mgpu_helpers as mgpu
    from mgpu_helpers.cluster import LocalCluster

    class Answer:
        def __init__(self, rank):
            self.rank = rank

    offset = 10

    def work(more, *, scale):
        import mxnet as mx
        store = mx.kv.create('dist_sync')
        value = mx.nd.ones(3) * (store.rank + 1)
        store.init('x', mx.nd.zeros(3))
        store.push('x', value)
        store.pull('x', out=value)
        print('the sum is', value.asscalar() if value.size == 1 else value.asnumpy().tolist())
        return Answer(offset + more + scale * store.rank)

    if __name__ == '__main__':
        cluster = LocalCluster(2, 1)
        answers = cluster.run(work, 5, scale=100)
        assert all(type(a) is Answer for a in answers)
        assert [a.rank for a in answers] == [15, 115], answers
"""


def test_functions_and_classes_of_a_script_travel(tmp_path):
    """As those of a notebook: they are in ``__main__``; the script is nowhere near the package."""
    script = tmp_path / 'script.py'
    script.write_text(textwrap.dedent(SCRIPT))
    found = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, cwd=tmp_path, env=with_package()
    )
    assert found.returncode == 0, found.stderr
    assert sorted(found.stdout.splitlines()) == [
        f'[worker {i}] the sum is [3.0, 3.0, 3.0]' for i in range(2)
    ]


def with_package():
    return os.environ | {'PYTHONPATH': HERE}


def test_without_a_store_the_functions_results_come_back_all_the_same():
    with LocalCluster(2, 1) as cluster:
        assert cluster.run(pow, 2, 3, show=False) == [8, 8]


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
    before = time.monotonic()
    with pytest.raises(ProcessFailed) as caught, LocalCluster(3, 1) as cluster:
        cluster.run(first_fails, show=False)
    assert time.monotonic() - before < 20
    assert caught.value.name == 'worker 1'
    assert str(caught.value).startswith('worker 1 failed with ArithmeticError: worker 1 has had')
    assert 'in first_fails' in str(caught.value)
    assert caught.value.others == dict.fromkeys(['scheduler', 'server 0', 'worker 0', 'worker 2'])


FAILING = """
    import mgpu_helpers
    import mxnet as mx

    store = mx.kv.create('dist_sync')
    store.init('x', mx.nd.zeros(3))
    if store.rank == 1:
        END
    value = mx.nd.ones(3)
    store.push('x', value)
    store.pull('x', out=value)
    print(value.asnumpy())
"""


@pytest.mark.parametrize(
    'end,status,words',
    [
        ("raise ArithmeticError('had enough')", 1, '[worker 1] ArithmeticError: had enough'),
        ("__import__('sys').exit('had enough')", 1, '[worker 1] had enough'),
        ("__import__('sys').exit(7)", 7, ''),
    ],
)
def test_a_script_that_fails_ends_though_its_store_would_wait(tmp_path, end, status, words):
    """Python frees a script's values when it ends, and a store then waits for all workers."""
    script = tmp_path / 'train.py'
    script.write_text(textwrap.dedent(FAILING).replace('END', end))
    launch = ['-m', 'mgpu_helpers', 'launch', '-n', '2', '-s', '1', '--', sys.executable, script]
    found = subprocess.run(
        [sys.executable, *launch], capture_output=True, text=True, env=with_package(), timeout=60
    )
    assert found.returncode == status, found.stdout + found.stderr
    assert words in found.stdout
    assert f'worker 1 ended with status {status}' in found.stderr


class Victim:
    """Kills a role on a certain line, and knows when."""

    def __init__(self, cluster, role, number, line):
        self.cluster, self.role, self.number, self.line = cluster, role, number, line
        self.time = None

    def __call__(self, name, text):
        if self.line in text and self.time is None:
            self.time = time.monotonic()
            self.cluster.kill(self.role, self.number)


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


@pytest.mark.parametrize('function,line', [(never_comes, 'here'), (train, 'epoch 1')])
@pytest.mark.parametrize('role,number', PAIRS)
def test_a_killed_role_is_named(started, function, line, role, number):
    """Before the store is up and during training; without us, the others would wait for ever."""
    options = {'num_examples': 512, 'num_epochs': 1000} if function is train else {}
    with LocalCluster(2, 1) as cluster:
        victim = Victim(cluster, role, number, line)
        with pytest.raises(ProcessFailed) as caught:
            cluster.run(function, on_line=victim, show=False, settle=0.5, **options)
        assert time.monotonic() - victim.time < 20
        assert soon_gone(started)  # when run is over, not only when the block is
    assert (caught.value.name, caught.value.status) == (role, -number)
    names = ['scheduler', 'server 0', 'worker 0', 'worker 1']
    assert caught.value.others == {name: None for name in names if name != role}
    assert f'was killed by signal {int(number)} ({number.name})' in str(caught.value)


def test_a_worker_that_never_connects_is_named(patience, tmp_path):
    def function():
        try:
            os.close(os.open(tmp_path / 'first', os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            hang()
        print('not me')
        time.sleep(600)

    who = []
    before = time.monotonic()
    with LocalCluster(2, 1, connect_timeout=patience) as cluster:
        with pytest.raises(TimeoutError) as caught:
            cluster.run(
                function,
                show=False,
                on_line=lambda name, text: who.append(name) if text == 'not me' else None,
            )
    assert patience < time.monotonic() - before < patience + 10
    assert f'not up after {patience:g} seconds: {who[0]} has not registered' in str(caught.value)


@pytest.mark.slow
def test_a_worker_that_returns_without_connecting_is_named_too(patience, tmp_path):
    """Its process is gone, without an error, and the other one waits for it."""

    def function():
        try:
            os.close(os.open(tmp_path / 'first', os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            hang()

    with LocalCluster(2, 1, connect_timeout=patience) as cluster:
        with pytest.raises(TimeoutError, match=r': worker [01] has not registered'):
            cluster.run(function, show=False)


def one_batch_more():
    """Train on real data; worker 1 goes on where worker 0 has ended."""
    from mgpu_helpers.cluster import join, train_epoch
    from mgpu_helpers.gluon import load_data_fashion_mnist

    batches = list(load_data_fashion_mnist(32, 192, seed=0)[0])
    store, devices, net, trainer = join('dist_sync', 1, lr=0.1, seed=0)
    train_epoch(batches[: 5 + store.rank], net, devices, trainer, store)
    print('trained')


def test_unequal_numbers_of_steps_end_in_a_timeout():
    lines = []
    with LocalCluster(2, 1) as cluster:
        with pytest.raises(TimeoutError, match='worker 0, worker 1 still at work after .* seconds'):
            cluster.run(
                one_batch_more,
                timeout=4,
                show=False,
                on_line=lambda name, text: text == 'trained' and lines.append(name),
            )
    assert lines == ['worker 0']  # which waits for worker 1 to leave the store with it


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
            cluster.run(join_and_say, show=False)
    finally:
        thread.join()
        (server,) = taken
        port = server.getsockname()[1]
        server.close()
    assert caught.match(words.format(port=port))


NUMBERS = [
    ({'workers': 0}, ValueError, 'the number of workers must be at least 1, not 0'),
    ({'servers': 0}, ValueError, 'the number of servers must be at least 1, not 0'),
    ({'servers': -1}, ValueError, 'the number of servers must be at least 1, not -1'),
    ({'workers': 2.5}, TypeError, 'the number of workers must be an integer.*2.5'),
    ({'workers': True}, TypeError, 'the number of workers must be an integer.*True'),
    ({'workers': '2'}, TypeError, "the number of workers must be an integer.*'2'"),
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
    'function,options,error,words',
    [
        ('train', {}, TypeError, "function must be something to call, not 'train'"),
        (lambda: LOCK, {}, TypeError, 'cannot be sent to another process.*lock'),
        (print, {'file': open}, None, None),
        (print, {'timeout': 0}, ValueError, 'timeout must be a number above 0, not 0'),
        (print, {'timeout': 'soon'}, TypeError, "timeout must be a number above 0, not 'soon'"),
        (print, {'settle': -1}, ValueError, 'settle must be a number above 0, not -1'),
    ],
)
def test_runs_that_cannot_be_start_nothing(popened, function, options, error, words):
    if error is None:
        function, options = (lambda lock: 1), {'lock': LOCK}
        error, words = TypeError, 'cannot be sent to another process.*lock'
    cluster = LocalCluster(2, 1)
    with pytest.raises(error, match=words):
        cluster.run(function, **options)
    assert popened == []
    with pytest.raises(RuntimeError, match='no run to kill anything in'):
        cluster.kill('worker 0')  # nor does it believe to be in a run


def test_during_a_run(started):
    """No second one, no unknown victim; an error of the caller's own callback ends it."""
    with LocalCluster(2, 1) as cluster:
        with pytest.raises(RuntimeError, match='is in a run; wait for it, or make another'):
            cluster.run(never_comes, show=False, on_line=lambda *line: cluster.run(print))
        assert soon_gone(started)
        with pytest.raises(
            ValueError, match="no process named 'worker 7' is running.*worker 0, worker 1"
        ):
            cluster.run(never_comes, show=False, on_line=lambda *line: cluster.kill('worker 7'))
        assert soon_gone(started)
        with pytest.raises(RuntimeError, match='no run to kill anything in'):
            cluster.kill('worker 0')


STARTER = """
    import sys, time
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


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_when_the_starter_ends(started, number):
    """Ctrl-C, after which the cluster can be run again; a polite end; one without a last word."""
    starter = subprocess.Popen(
        [sys.executable, '-c', textwrap.dedent(STARTER)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=with_package(),
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


@pytest.mark.parametrize(
    'kind,compression,words',
    [
        ('dist_sync', '2bit', 'compression must be a dict such as'),
        ('dist_sync', {'type': '1bit', 'threshold': 0.5}, "compression's type must be one of 2bit"),
        ('dist_sync', {'type': '2bit', 'threshold': 0}, "compression's threshold must be"),
        ('local', {'type': '2bit', 'threshold': 0.5}, "whose kind begins with 'dist_'"),
        ('lokal', None, 'kind must be one of local, device'),
    ],
)
def test_a_store_that_there_is_not_is_refused(monkeypatch, kind, compression, words):
    monkeypatch.setenv('DMLC_ROLE', 'worker')
    with pytest.raises((TypeError, ValueError), match=words):
        check_kind(kind, compression)


def test_a_distributed_store_needs_a_cluster():
    with pytest.raises(RuntimeError, match='this process is no worker of one: call.*LocalCluster'):
        check_kind('dist_sync')


def test_what_shall_read_the_lines_must_be_something_to_call(popened):
    with pytest.raises(TypeError, match="on_line must be something to call, not 'print'"):
        LocalCluster(2, 1).run(pow, 2, 3, on_line='print')
    assert not popened
