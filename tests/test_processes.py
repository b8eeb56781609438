"""Groups of processes: results come back, failures are named, nothing is left behind."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import psutil
import pytest

import mgpu_helpers
from mgpu_helpers.processes import Group, ProcessFailed, group, run_workers

NAMES = ['worker 0', 'worker 1']
pytestmark = pytest.mark.usefixtures('started')  # nothing is left behind


def both(function, *args, **options):
    return run_workers(function, [((i, *args), {}) for i in range(2)], NAMES, **options)


def failure_of(function):
    """Let one of two workers fail; the run must not wait for the other's minute."""
    started = time.monotonic()
    with pytest.raises(ProcessFailed) as caught:
        both(function)
    assert time.monotonic() - started < 40
    return caught.value


def test_results_come_back_in_order_and_what_a_notebook_defines_travels():
    """As in a notebook: `mgpu` is the first name there, and classes are made in its cells."""
    mgpu, factor, blob = mgpu_helpers, 10, os.urandom(5_000_000)

    class Answer:
        cores = None

    def work(i, data):
        answer = Answer()
        answer.cores = mgpu.usable_cores()
        return i * factor, os.getpid(), data, sys.stdin.read(), os.environ['MGPU_TEST'], answer

    envs = [{'MGPU_TEST': 'a'}, {'MGPU_TEST': 'b'}]
    numbers, pids, blobs, inputs, settings, answers = zip(*both(work, blob, envs=envs), strict=True)
    assert numbers == (0, 10) and settings == ('a', 'b') and blobs == (blob, blob)
    assert len({*pids, os.getpid()}) == 3
    assert inputs == ('', '')  # `input()` ends at once
    assert all(type(answer) is Answer for answer in answers)
    assert [answer.cores for answer in answers] == [mgpu.usable_cores()] * 2


def test_what_cannot_travel_is_said_before_anything_starts_or_as_an_error_of_that_worker(popened):
    lock = threading.Lock()
    with pytest.raises(TypeError, match='cannot be sent to another process.*lock'):
        both(lambda i: lock)
    with pytest.raises(ValueError, match='1 calls, 2 names'):
        run_workers(dict, [((), {})], ['a', 'b'])
    with pytest.raises(TypeError, match='function must be a function.*, not 5'):
        run_workers(5, [((), {})], ['a'])
    assert not popened
    failed = failure_of(lambda i: __import__('threading').Lock())
    what = str(failed).splitlines()[0]
    assert 'failed with TypeError: cannot pickle' in what and 'sent back' in what


@pytest.mark.parametrize('call, words', [('int', 'ValueError: invalid'), ('exit', 'SystemExit: x')])
def test_a_result_that_cannot_be_loaded_is_that_workers_error(call, words):
    """As an exception whose constructor wants two arguments; small, and larger than a pipe."""

    class Broken:
        def __reduce__(self):
            return {'int': int, 'exit': sys.exit}[call], ('x',)

    for size in (0, 5_000_000):
        with pytest.raises(ProcessFailed, match=f'^worker 1 failed with {words}.* list, .*return'):
            both(lambda i, size: i and [Broken(), bytes(size)], size, timeout=30)


def test_what_a_worker_prints_arrives_with_its_name():
    def speak(i):
        print('hello from', i)
        os.write(1, b'from below Python\n')
        print('and on stderr', file=sys.stderr)

    lines = []
    both(speak, on_line=lambda name, line: lines.append((name, line)))
    for i, name in enumerate(NAMES):
        mine = [line for who, line in lines if who == name]
        assert mine == [f'hello from {i}', 'from below Python', 'and on stderr']


RAISES = "raise RuntimeError('Traceback (most recent call last):\\n  File x.cc\\nCheck failed: t')"
FATES = [  # what worker 1 does, when worker 0 complains, and what is said
    ("raise ValueError('no colour')", 60, 'failed with ValueError: no colour'),
    (RAISES, 0.3, 'failed with RuntimeError: Check failed: t'),  # the last line, as of MXNet's
    ('os._exit(0)', 60, 'ended before its function had returned'),
    ('os.kill(os.getpid(), 11)', 0.3, 'was killed by signal 11 (SIGSEGV)'),
]


@pytest.mark.parametrize('does, seconds, said', FATES)
def test_the_first_that_fails_is_the_cause_whoever_is_heard_first(does, seconds, said):
    def work(i):
        if i == 1:
            exec(does, {'os': os})
        time.sleep(seconds)
        raise ConnectionError('the other one is gone')

    failed = failure_of(work)
    assert failed.name == 'worker 1' and str(failed).startswith(f'worker 1 {said}')
    assert (failed.status == -11) == ('kill' in does)
    assert ('in work' in str(failed)) == ('raise' in does)  # its traceback
    assert seconds < 1 or failed.others == {'worker 0': None}


def test_an_error_that_came_first_is_the_cause_though_its_process_ends_later(tmp_path):
    def work(i, failed):
        class Slow:
            def write(self, text): ...

            def flush(self):  # a worker flushes when its error is sent, before it ends
                failed.touch()
                time.sleep(0.7)

        if i == 1:
            sys.stdout = Slow()
            raise ValueError('no colour')
        while not failed.exists():
            time.sleep(0.01)
        raise ConnectionError('the other one is gone')

    with pytest.raises(ProcessFailed, match='^worker 1 failed with ValueError'):
        both(work, tmp_path / 'failed', timeout=40)


def test_a_commands_last_words_and_what_the_others_did():
    code = 'import time; time.sleep(0.5); print("first"); print("last"); raise SystemExit(3)'
    with pytest.raises(ProcessFailed) as caught, Group() as some:
        some.start('ended', ['true'])
        some.start('hangs', ['sleep', '60'])
        some.start('server', [sys.executable, '-c', code])
        some.wait()
    assert str(caught.value).startswith('server ended with status 3')
    assert str(caught.value).endswith('first\nlast')
    assert caught.value.status == 3 and caught.value.others == {'ended': 0, 'hangs': None}


def test_only_a_running_process_can_be_killed_and_only_a_program_that_is_there_be_started():
    with pytest.raises(ProcessFailed) as caught, Group() as some:
        some.start('victim', ['sleep', '60'])
        with pytest.raises(ValueError, match="no process named 'viktim' is running.*victim"):
            some.kill('viktim')
        some.kill('victim')
        some.wait()
    assert caught.value.name == 'victim' and caught.value.status == -signal.SIGKILL
    with pytest.raises(FileNotFoundError, match='no-such-program'), Group() as some:
        some.start('other', ['sleep', '60'])
        some.start('server', ['no-such-program'])


def test_services(monkeypatch):
    """Servers stop once all workers have, never time out, and may fail.

    Who is late is named, and killed though it ignores the request to end.
    """
    monkeypatch.setattr(group, 'GRACE', 0.5)
    started = time.monotonic()
    with Group() as some:
        some.start('server', ['sleep', '60'], service=True)
        some.start('worker', ['sleep', '0.3'])
        some.wait()
    with pytest.raises(TimeoutError, match='^worker still at work after'), Group() as some:
        some.start('server', ['sleep', '60'], service=True)
        some.start('worker', ['sh', '-c', 'trap "" TERM; sleep 60'])
        some.wait(timeout=0.5)
    with pytest.raises(ProcessFailed, match='server ended with status 4'), Group() as some:
        some.start('server', ['sh', '-c', 'exit 4'], service=True)
        some.start('worker', ['sleep', '60'])
        some.wait()
    assert time.monotonic() - started < 50


def test_what_a_member_started_ends_with_it_and_its_guard_is_no_child_and_keeps_no_pipe():
    """A command may wait for its children, and whoever reads its output for end of file."""
    code = 'import os\ntry: os.wait()\nexcept ChildProcessError: print("none")'
    lines = []
    with Group() as some:
        some.start('shell', ['sh', '-c', 'sleep 60 & echo done'])
        some.start('command', [sys.executable, '-c', code])
        some.wait(on_line=lambda name, line: lines.append(line), timeout=30)
    assert sorted(lines) == ['done', 'none']


@pytest.mark.parametrize('seconds, timeout', [(0, None), (60, 1)])
def test_what_started_a_session_of_its_own_keeps_nobody_waiting(seconds, timeout):
    """It holds the output pipe of its parent and is out of our reach."""
    code = (
        'import subprocess, time; p = subprocess.Popen(["sleep", "60"], start_new_session=True)\n'
        f'print("x" * 60000, p.pid, flush=True); time.sleep({seconds})'
    )
    lines, started = [], time.monotonic()
    late = pytest.raises(TimeoutError) if timeout else contextlib.nullcontext()
    with late, Group() as some:
        some.start('command', [sys.executable, '-c', code])
        some.wait(lambda name, line: lines.append(line), timeout=timeout)
    assert time.monotonic() - started < 20
    os.kill(int(lines[0].removeprefix('x' * 60000)), signal.SIGKILL)


def test_a_line_without_an_end_is_cut_and_who_is_not_read_waits():
    code = 'import os\nfor _ in range(300): os.write(1, b"x" * 1_000_000)\nprint("\\nend")'
    before, longest, lines = psutil.Process().memory_info().rss, [0], []

    def read(name, line):
        lines.append(line[:3])
        longest[0] = max(longest[0], len(line))
        if len(lines) == 10:
            time.sleep(1)

    with Group() as some:
        some.start('endless', [sys.executable, '-c', code])
        some.wait(read, timeout=60)
    assert longest[0] == 2**16 and lines[-1] == 'end'
    assert psutil.Process().memory_info().rss - before < 200e6


STARTER = """
    import ctypes, os, subprocess, sys, time
    from mgpu_helpers.processes import Group, start_workers

    # Neither a polite request nor a lost pipe ends these.
    SHELL = 'trap "" TERM INT HUP PIPE; sleep 61 & echo $!; echo $$; wait'
    guarded = len(sys.argv) < 2

    def work(i):
        print(os.getpid())
        print(subprocess.Popen(['sleep', '60']).pid)
        if i and guarded:  # a worker whose C code never gives the interpreter lock back
            ctypes.PyDLL(None).sleep(60)
        time.sleep(60)

    with Group() as group:
        start_workers(group, work, [((i,), {}) for i in range(2)], ['worker 0', 'worker 1'])
        if guarded:
            group.start('shell', ['sh', '-c', SHELL])
        if not (forked := os.fork()):
            time.sleep(60)
        print(forked, flush=True)
        group.wait(on_line=lambda name, line: print(line, flush=True))
"""


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM, signal.SIGKILL, None])
def test_no_process_is_orphaned_when_its_starter_ends(started, number):
    """By Ctrl-C, a polite end, and one that leaves no time for anything: workers, commands, what
    these have started, and their guards, though a child of the starter's lives on. And workers also
    where (None) their guards were killed before."""
    code = [sys.executable, '-c', textwrap.dedent(STARTER), *['unguarded'] * (number is None)]
    with subprocess.Popen(code, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as starter:
        forked, *others = (int(starter.stdout.readline()) for _ in range(7 if number else 5))
        assert all(map(psutil.pid_exists, others))
        guards = [p for p in started() if p.pid not in {forked, *others, starter.pid}]
        assert len(guards) == (3 if number else 2)
        for guard in guards * (number is None):
            guard.kill()
        starter.send_signal(number or signal.SIGKILL)
        assert starter.wait(timeout=20) == -(number or signal.SIGKILL)
        deadline = time.monotonic() + 20
        while len(left := started()) > 1 and time.monotonic() < deadline:
            time.sleep(0.1)
        os.kill(forked, signal.SIGKILL)
    assert [p.pid for p in left] == [forked]


INTERRUPTED = """
    import random, signal, sys
    import psutil
    from mgpu_helpers.processes import Group

    class Interrupt(BaseException):
        pass

    def interrupt(*_):
        raise Interrupt

    signal.signal(signal.SIGALRM, interrupt)
    draw = random.Random(1)
    for _ in range(int(sys.argv[1])):
        signal.setitimer(signal.ITIMER_REAL, draw.uniform(0.0005, 0.1))
        try:
            with Group() as group:
                for i in range(4):
                    group.start(str(i), ['sleep', str(60 * bool(i))], service=not i)
                group.wait()
        except Interrupt:
            pass
        assert not psutil.wait_procs(psutil.Process().children(recursive=True), timeout=5)[1]
"""


@pytest.mark.parametrize('times', [50, pytest.param(1000, marks=pytest.mark.slow)])
def test_an_interrupt_may_come_at_any_moment(times):
    """Between the start of a process and that of its watcher, or between the news of an end and its
    note: 400 such moments hung twice before ``stop`` looked for itself."""
    ended = subprocess.run(
        [sys.executable, '-c', textwrap.dedent(INTERRUPTED), str(times)],
        stderr=subprocess.PIPE, timeout=60 + times,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr.decode()
