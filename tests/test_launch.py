"""The command line: what it starts, what it prints, and that nothing outlives it."""

import os
import pty
import random
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from launching import ADDING, ENDLESS, ROOT, SECONDS, Launcher, free_first_port, nobody_listens

from mgpu_helpers.cluster import launch as launching
from mgpu_helpers.cluster.terminal import signals_end
from mgpu_helpers.processes import ProcessFailed

ROLES = ('scheduler', 'server 0', 'worker 0', 'worker 1')
PAIR = ('-n', 2, '-s', 1)
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV)


def python(code):
    return 'python', '-c', code


@pytest.fixture
def port():
    first = free_first_port(len(ROLES))
    yield first
    nobody_listens(range(first, first + len(ROLES)))


@pytest.fixture(scope='module')
def taken():
    with socket.create_server(('127.0.0.1', 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize(
    'args, words',
    [
        ('-n 0 -- true', 'Error: the number of workers must be at least 1, not 0'),
        ('-n -1 -- true', 'the number of workers must be at least 1, not -1'),
        ('-n two -- true', "'two' is not a valid integer"),
        ('-n 2 -s 0 -- true', 'the number of servers must be at least 1, not 0'),
        ('-n 2 -s 3 -- true', '3 servers for 2 workers: more servers than workers gain nothing'),
        ('-s 1 -- true', "Missing option '-n'"),
        ('-n 2', "Missing argument 'COMMAND...'"),
        ('-n 2 --', "Missing argument 'COMMAND...'"),
        ('-n 2 --bogus -- true', 'No such option'),
        ('-n 2 -- no-such-program', "there is no program 'no-such-program' here"),
        ('-n 2 -- README.md', 'the file is there but cannot be executed; perhaps: python README'),
        ('-n 2 --port 0 -- true', 'port must be at least 1, not 0'),
        ('-n 2 --port 65533 -- true', 'port 65533 and the 3 after it go beyond 65535'),
        ('-n 2 --port {taken} -- true', 'port {taken} at 127.0.0.1 cannot be used'),
        ('-n 2 --port {below} -- true', 'port {taken} at 127.0.0.1 cannot be used'),
        ('-n 2 --timeout 0 -- true', 'timeout must be a number above 0, not 0'),
        ('-n 2 --timeout nan -- true', 'timeout must be a number above 0, not nan'),
        ('-n 2 --connect-timeout -3 -- true', 'connect_timeout must be a number above 0, not -3'),
        ('-n 2 --hostfile no/such/file -- true', 'no/such/file: No such file or directory'),
    ],
)
def test_what_cannot_work_is_refused_in_one_sentence(args, words, taken):
    args, words = (text.format(taken=taken, below=taken - 3) for text in (args, words))
    with Launcher('launch', *args.split()) as launcher:
        status, out, err = launcher.end()
    assert status == 2 and not out
    assert words in err and 'Traceback' not in err
    errors = [line for line in err.splitlines() if 'Usage:' not in line and '--help' not in line]
    assert len([line for line in errors if line.strip()]) == 1


def test_without_mxnet_it_says_so():
    """As after `make setup TORCH=only`."""
    code = (
        'import sys, importlib.machinery as m; find = m.PathFinder.find_spec\n'
        'm.PathFinder.find_spec = lambda name, *a: None if name == "mxnet" else find(name, *a)\n'
        'from mgpu_helpers.__main__ import main; main(["launch", "-n", "2", "--", "true"])'
    )
    ended = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, cwd=ROOT)
    assert ended.returncode == 2 and ended.stderr.startswith('Error: MXNet is not installed in ')


def test_help_names_the_commands_and_loads_nothing_heavy():
    code = (
        'import sys; from mgpu_helpers.__main__ import main\n'
        'try: main(["launch", "--help"])\n'
        'finally: print([n for n in ("mxnet", "matplotlib", "sklearn") if n in sys.modules])'
    )
    ended = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, cwd=ROOT)
    assert ended.returncode == 0 and ended.stdout.endswith('[]\n'), ended.stderr
    with Launcher('--help') as launcher:
        status, out, err = launcher.end()
    assert status == 0 and 'launch' in out and 'join' in out


def test_two_workers_and_a_server_add_up(port):
    with Launcher('launch', *PAIR, '--port', port, '--', *python(ADDING)) as launcher:
        status, out, err = launcher.end()
    assert status == 0 and not err
    assert sorted(out.splitlines()) == [f'[worker {i}] rank {i} of 2 sum [3. 3.]' for i in range(2)]


def test_worker_i_has_rank_i_and_servers_share():
    with Launcher('launch', '-n', 3, '-s', 2, '--', *python(ADDING)) as launcher:
        status, out, err = launcher.end()
    assert status == 0 and not err
    assert sorted(out.splitlines()) == [f'[worker {i}] rank {i} of 3 sum [6. 6.]' for i in range(3)]


def test_workers_that_never_open_a_store_end_well_with_a_warning():
    with Launcher('launch', *PAIR, '--', 'echo', '-n', '--timeout') as launcher:
        status, out, err = launcher.end()
    assert status == 0
    assert sorted(out.splitlines()) == ['[worker 0] --timeout', '[worker 1] --timeout']
    assert err.startswith('Warning: the workers ended well, but no store') and err.count('\n') == 1


def test_a_line_arrives_when_it_is_printed():
    """Not when the worker ends, though its output is a pipe."""
    code = 'import time; print("now"); time.sleep(60)'
    with Launcher('launch', *PAIR, '--', *python(code)) as launcher:
        launcher.line_with('now')
        assert time.monotonic() - launcher.started < SECONDS
        launcher.process.terminate()
        assert launcher.end()[0] == 143


def test_strange_output_is_shown_as_well_as_it_goes():
    """Bytes that are no text, a bar drawn over and over, no newline at the end, few letters."""
    code = 'import os; os.write(1, b"\\xff\\xfe\\n 10%\\r 99%\\r100%\\n\\xc3\\xa9")'
    args = ('launch', '-n', 1, '--', *python(code))
    env = {'PYTHONIOENCODING': 'latin-1'}
    with Launcher(*args, env=env, encoding='latin-1') as launcher:
        status, out, err = launcher.end()
    assert status == 0
    assert out.splitlines() == ['[worker 0] ??', '[worker 0] 100%', '[worker 0] é']


def on_a_terminal(*args, env=None, keys=None):
    """Run the launcher as a terminal's only program; give its status and what is to be seen."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        os.environ.update({'PYTHONPATH': str(ROOT)} | (env or {}))
        os.execv(sys.executable, [sys.executable, '-m', 'mgpu_helpers', *map(str, args)])
    seen = b''
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:  # the terminal's other side is closed
            part = b''
        if not part:
            break
        seen += part
        if keys and b'ready' in seen:
            os.write(terminal, keys)
            keys = None
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), seen.decode()


def test_a_terminal_sees_colours_and_a_pipe_does_not():
    args = ('launch', '-n', 1, '--', 'echo', 'hello')
    status, seen = on_a_terminal(*args)
    assert status == 0 and '\x1b[36m[worker 0]\x1b[0m hello' in seen
    status, seen = on_a_terminal(*args, env={'NO_COLOR': '1'})
    assert status == 0 and '[worker 0] hello' in seen and '\x1b' not in seen
    with Launcher(*args) as launcher:
        assert '\x1b' not in launcher.end()[1]


def test_ctrl_c_on_a_terminal():
    code = 'import time; print("ready"); time.sleep(60)'
    started = time.monotonic()
    status, seen = on_a_terminal('launch', *PAIR, '--', *python(code), keys=b'\x03')
    assert status == 130 and 'Stopped by SIGINT: nothing is left running.' in seen
    assert time.monotonic() - started < SECONDS


def test_a_worker_that_fails_is_named_with_its_last_words_and_its_status():
    code = 'import os; print("the cause"); os._exit(7 if int(os.environ["PORT"]) % 2 else 0)'
    with Launcher('launch', '-n', 1, '--port', odd_third(), '--', *python(code)) as launcher:
        status, out, err = launcher.end()
    assert status == 7
    assert err.startswith('Error: worker 0 ended with status 7; all were stopped.\n')
    assert 'Its last lines:\nthe cause' in err and 'Traceback' not in err


def odd_third():
    """A first port from which the third, which is worker 0's, is odd."""
    while (first := free_first_port(4)) % 2 == 0:
        pass
    return first


def test_a_traceback_of_a_worker_is_shown_once_more_at_the_end():
    with Launcher('launch', *PAIR, '--', *python('1 / 0')) as launcher:
        status, out, err = launcher.end()
    assert status == 1 and 'ZeroDivisionError' in out
    assert 'Error: worker ' in err and 'ZeroDivisionError: division by zero' in err


@pytest.mark.parametrize(
    'role, number',
    [*((role, signal.SIGKILL) for role in range(4)), (1, signal.SIGTERM), (2, signal.SIGSEGV)],
)
def test_whoever_is_killed_is_named_and_the_rest_ends(role, number, port):
    """While all are at work, when neither ps-lite nor the others would ever notice."""
    with Launcher('launch', *PAIR, '--port', port, '--', *python(ENDLESS)) as launcher:
        launcher.line_with('at work')
        launcher.role(port + role).send_signal(number)
        killed = time.monotonic()
        status, out, err = launcher.end()
        assert time.monotonic() - killed < SECONDS
    check_killed(status, err, ROLES[role], number)


@pytest.mark.parametrize('role, after', [(0, 0.7), (1, 0), (2, 0.1), (3, 0)])
def test_whoever_is_killed_while_starting_is_named(role, after, port):
    """Before its program has begun, while Python starts, and while MXNet loads."""
    with Launcher('launch', *PAIR, '--port', port, '--', *python(ENDLESS)) as launcher:
        victim = launcher.role(port + role)
        time.sleep(after)
        victim.kill()
        killed = time.monotonic()
        status, out, err = launcher.end()
        assert time.monotonic() - killed < SECONDS
    check_killed(status, err, ROLES[role], signal.SIGKILL)


def check_killed(status, err, role, number):
    assert err.startswith(f'Error: {role} ') and 'Traceback' not in err, err
    if number == signal.SIGSEGV and status in (255, 128 + signal.SIGABRT):
        return  # MXNet catches it, once it is loaded, says where it was, and ends in its own way
    assert status == 128 + number
    assert f'was killed by signal {number} ({number.name})' in err, err


@pytest.mark.slow
def test_twenty_kills_at_random_moments(port):
    seed = random.randrange(10**6)
    print('seed', seed)
    draw = random.Random(seed)
    for _ in range(20):
        role, number = draw.randrange(4), draw.choice(SIGNALS)
        with Launcher('launch', *PAIR, '--port', port, '--', *python(ENDLESS)) as launcher:
            victim = launcher.role(port + role)
            time.sleep(draw.uniform(0, 5))
            victim.send_signal(number)
            killed = time.monotonic()
            status, out, err = launcher.end()
            assert time.monotonic() - killed < SECONDS
        check_killed(status, err, ROLES[role], number)
        nobody_listens(range(port, port + 4))


ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)


@pytest.mark.parametrize(
    'number, moment',
    [*((number, 'at work') for number in ENDS), *((number, 'starting') for number in ENDS[::3])],
)
def test_nothing_outlives_the_launcher(number, moment, port):
    with Launcher('launch', *PAIR, '--port', port, '--', *python(ENDLESS)) as launcher:
        if moment == 'starting':
            launcher.role(port)  # the others may not even have been started
        else:
            launcher.line_with(moment)
        launcher.process.send_signal(number)
        sent = time.monotonic()
        status, out, err = launcher.end()
        assert time.monotonic() - sent < SECONDS / 2
    if number == signal.SIGKILL:
        assert status == -number
    else:
        assert status == 128 + number
        assert err == f'Stopped by {number.name}: nothing is left running.\n'


def test_an_ignored_signal_stays_ignored():
    """`nohup` means that a lost terminal ends nothing."""
    code = 'import time; print("ready"); time.sleep(2)'
    ignore = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)  # noqa: E731
    with Launcher('launch', '-n', 1, '--', *python(code), preexec_fn=ignore) as launcher:
        launcher.line_with('ready')
        launcher.process.send_signal(signal.SIGHUP)
        assert launcher.end()[0] == 0


def test_an_impatient_user_is_heard():
    """A worker that refuses to end is killed at the second Ctrl-C."""
    code = (
        'import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n'
        'print("ready"); time.sleep(60)'
    )
    with Launcher('launch', '-n', 1, '--', *python(code)) as launcher:
        launcher.line_with('ready')
        for _ in range(2):
            launcher.process.send_signal(signal.SIGINT)
            time.sleep(0.5)
        assert launcher.end()[0] == 130


def test_when_nobody_reads_any_more_all_is_stopped():
    """As in `launch ... | head -1`."""
    with Launcher('launch', *PAIR, '--', *python('while True: print("y" * 1000)')) as launcher:
        launcher.line_with('y')
        launcher.process.stdout.close()
        assert launcher.process.wait(timeout=SECONDS) != 0
        launcher.nothing_is_left()
        launcher.process.stdout = None
        assert 'Traceback' not in launcher.end()[2]


def test_a_limit_of_time():
    with Launcher('launch', *PAIR, '--timeout', 3, '--', 'sleep', 60) as launcher:
        status, out, err = launcher.end()
    assert status == 124
    assert err == 'Error: worker 0, worker 1 still at work after 3.0 seconds: stopped\n'


def test_a_worker_that_leaves_before_it_was_there_is_missed(port):
    """It ends well without a store, while the others wait for it for ever."""
    code = f'import os\nif os.environ["PORT"] == "{port + 3}": os._exit(0)\n{ENDLESS}'
    args = ('launch', *PAIR, '--port', port, '--connect-timeout', 10)
    with Launcher(*args, '--', *python(code)) as launcher:
        status, out, err = launcher.end()
    assert status == 124
    assert err.startswith('Error: the store was not up after 10 seconds: worker 1 has not')


def test_the_function_tells_lines_and_raises():
    lines = []
    up = launching.launch(
        [sys.executable, '-c', ADDING], 2, 1, on_line=lambda *line: lines.append(line)
    )
    assert up and sorted(name for name, _ in lines) == ['worker 0', 'worker 1']
    with pytest.raises(ProcessFailed, match='worker 0 ended with status 1'):
        launching.launch(['false'], 1, 1)
    for command in ([], 'python train.py'):
        with pytest.raises(ValueError, match='the command must be a list'):
            launching.launch(command, 1, 1)


def test_signals_are_left_alone_beside_the_main_thread():
    before, seen = signal.getsignal(signal.SIGTERM), []

    def look():
        with signals_end():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [before] == [signal.getsignal(signal.SIGTERM)]


def test_a_worker_that_leaves_the_others_alone_is_talked_about(monkeypatch, started, tmp_path):
    """They would wait for it for ever, and nobody would know why nothing moves."""
    monkeypatch.setattr('mgpu_helpers.cluster.watch.PATIENCE', 0.5)
    # The one that makes the folder leaves at once, the other stays.
    leaves = f'import os, time; os.mkdir("{tmp_path}/x") if not os.path.exists("{tmp_path}/x") '
    leaves += 'else time.sleep(4)'
    said = []
    launching.launch(python(leaves), 2, 1, on_line=lambda *line: said.append(line))
    (name, text) = said[0]
    assert name == 'launch' and len(said) == 1
    assert '1 of 2 workers has ended, and worker' in text and 'Ctrl-C stops all' in text
