"""The command line: what it starts, what it prints, and that nothing outlives it."""

import contextlib
import importlib.machinery
import os
import pty
import signal
import socket
import sys
import time

from click.testing import CliRunner
from launching import ADDING, ENDLESS, ROOT, SECONDS, Launcher, Started, launched, refused

from mgpu_helpers.cluster.commands import show

PAIR = ('-n', 2, '-s', 1)


def python(code):
    return 'python', '-c', code


REFUSED = {
    '-n 2 -s 3 -- true': '3 servers for 2 workers: more servers than workers gain nothing',
    '-s 1 -- true': "Missing option '-n'",
    '-n 2': "Missing argument 'COMMAND...'",
    '-n 2 -- no-such-program': "there is no program 'no-such-program' here",
    '-n 2 -- README.md': 'the file is there but cannot be executed; perhaps: python README',
    '-n 2 --port 0 -- true': "'--port': 0 is not in the range x>=1",
    '-n 2 --port 65533 -- true': 'port 65533 and the 3 after it go beyond 65535',
    '-n 2 --port {taken} -- true': 'port {taken} at 127.0.0.1 cannot be used',
    '-n 2 --port {below} -- true': 'port {taken} at 127.0.0.1 cannot be used',
    '-n 2 --timeout 0 -- true': "'--timeout': 0.0 is not in the range x>0",
    '-n 2 --connect-timeout -3 -- true': "'--connect-timeout': -3.0 is not in the range x>0",
    '-n 2 --hostfile no/such/file -- true': 'no/such/file: No such file or directory',
}


def test_what_cannot_work_is_refused_in_one_sentence(popened, monkeypatch):
    monkeypatch.chdir(ROOT)
    with socket.create_server(('127.0.0.1', 0)) as server:
        taken = server.getsockname()[1]
        for pair in REFUSED.items():
            args, words = (text.format(taken=taken, below=taken - 3) for text in pair)
            assert words in refused('launch', *args.split()), args
    assert not popened


def test_without_mxnet_it_says_so(monkeypatch):
    """As after `make setup TORCH=only`."""
    find = importlib.machinery.PathFinder.find_spec
    monkeypatch.setattr(
        'importlib.machinery.PathFinder.find_spec',
        lambda name, *args: None if name == 'mxnet' else find(name, *args),
    )
    assert 'MXNet is not installed in ' in refused('launch', '-n', 2, '--', 'true')


def test_strange_output_is_shown_and_a_store_that_nobody_opens_is_talked_about():
    """Invalid UTF-8, a redrawn progress bar, short lines, no newline at the end."""
    code = (
        'import os, sys; os.write(1, b"\\xff\\xfe\\n 10%\\r100%\\n\\xc3\\xa9 "); print(sys.argv[1])'
    )
    args = ('-n', 1, '--', *python(code), '--timeout')  # which is the command's own
    env = {'PYTHONIOENCODING': 'latin-1'}
    status, out, err = launched(*args, env=env, encoding='latin-1')
    assert status == 0
    assert out.splitlines() == ['[worker 0] ??', '[worker 0] 100%', '[worker 0] é --timeout']
    assert err.startswith('Warning: the workers ended well, but no store') and err.count('\n') == 1


def test_lines_have_no_colours_if_the_user_wants_none():
    with CliRunner(env={'NO_COLOR': '1'}).isolation(color=True) as (out, *_):
        show('worker 0', 'hello')
        assert out.getvalue() == b'[worker 0] hello\n'


def test_ctrl_c_on_a_terminal():
    """A terminal gets each line, in colour, as it is printed: a minute before the worker ends."""
    code = 'import time; print("ready"); time.sleep(60)'
    args = ('launch', *PAIR, '--', *python(code))
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        os.environ.pop('NO_COLOR', None)
        os.execv(sys.executable, [sys.executable, '-m', 'mgpu_helpers', *map(str, args)])
    seen, keys, started = b'', b'\x03', time.monotonic()
    with contextlib.suppress(OSError):  # when the terminal's other side is closed
        while True:
            seen += os.read(terminal, 4096)
            if keys and b'ready' in seen:
                os.write(terminal, keys)
                keys = None
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
    assert b'\x1b[36m[worker ' in seen and b'Stopped by SIGINT: nothing is left running.' in seen
    assert time.monotonic() - started < 2 * SECONDS


def test_a_worker_that_fails_is_named_though_its_store_would_wait():
    """Python frees a script's values when it ends, and a store then waits for all workers."""
    fails = "if store.rank == 1: raise ArithmeticError('had enough')\nstore.push"
    failing = python(ADDING.replace('store.push', fails))
    status, out, err = launched(*PAIR, '--', *failing)
    assert status == 1 and '[worker 1] ArithmeticError: had enough' in out
    assert err.startswith('Error: worker 1 ended with status 1; all were stopped.\n')
    assert 'Its last lines:\n' in err and 'had enough' in err


def test_who_is_killed_is_named_with_the_signal():
    """While all train, chapter 4 and test_kills kill each role."""
    status, out, err = launched('-n', 1, '--', 'sh', '-c', 'kill -SEGV $$')
    words = 'Error: worker 0 was killed by signal 11 (SIGSEGV); all were stopped.'
    assert (status, err.strip()) == (128 + 11, words)


def test_nothing_outlives_the_launcher(port):
    """Also while processes are just being started; test_hosts kills it while all are running."""
    with Launcher('launch', *PAIR, '--port', port, '--', *python(ENDLESS)) as launcher:
        while not launcher.living():
            time.sleep(0.01)
        launcher.process.send_signal(signal.SIGTERM)
        status, out, err = launcher.end(SECONDS)
    said = 'Stopped by SIGTERM: nothing is left running.\n'
    assert (status, err) == (128 + signal.SIGTERM, said)


def test_an_impatient_user_is_heard():
    """A worker that refuses to end is killed at the second Ctrl-C."""
    code = 'import signal, time; signal.signal(15, signal.SIG_IGN); print("ready"); time.sleep(60)'
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
    status, out, err = launched(*PAIR, '--timeout', 1, '--', 'sleep', 60)
    assert status == 124
    assert err == 'Error: worker 0, worker 1 still at work after 1.0 seconds: stopped\n'


def test_a_worker_that_never_connects_is_named(port):
    late = f'import os, time; os.environ["PORT"] == "{port + 3}" and time.sleep(600)'
    args = (*PAIR, '--port', port, '--connect-timeout', SECONDS)
    status, out, err = launched(*args, '--', *python(f'{late}\n{ADDING}'))
    words = 'not up after 20 seconds; not registered with the scheduler: worker 1; all were stopped'
    assert status == 124 and words in err


def test_nohup_means_it():
    """A signal that is ignored remains so."""
    words = '-m mgpu_helpers launch -n 1 -- sh -c'.split()
    with Started('nohup', sys.executable, *words, 'echo ready; sleep 60') as launcher:
        launcher.line_with('ready')
        launcher.process.send_signal(signal.SIGHUP)
        time.sleep(0.5)
        launcher.process.send_signal(signal.SIGTERM)
        status, out, err = launcher.end(SECONDS)
    assert status == 128 + signal.SIGTERM and 'Stopped by SIGTERM' in err
