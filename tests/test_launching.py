"""Functions on several new ranks: results come back, failures are named, nothing is left behind."""

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
from mgpu_helpers.processes import RankFailed
from mgpu_helpers.processes import launch as launch_in_group

pytestmark = pytest.mark.usefixtures('started')  # nothing is left behind


def launch(function, *args, **options):
    return launch_in_group(function, 2, *args, group=False, **options)


def rank():
    return int(os.environ['RANK'])


def failure_of(function):
    """Let one of two ranks fail; the call must not wait for the other's minute."""
    started = time.monotonic()
    with pytest.raises(RankFailed) as caught:
        launch(function)
    assert time.monotonic() - started < 40
    return str(caught.value)


def test_results_come_back_in_order_and_what_a_notebook_defines_travels():
    """As in a notebook: `mgpu` is the first name there, and classes are made in its cells."""
    mgpu, factor, blob = mgpu_helpers, 10, os.urandom(5_000_000)

    class Answer:
        cores = None

    def work(data):
        answer = Answer()
        answer.cores = mgpu.usable_cores()
        i = rank() * factor
        return i, os.getpid(), data, sys.stdin.read(), os.environ['MGPU_TEST'], answer

    envs = [{'MGPU_TEST': 'a'}, {'MGPU_TEST': 'b'}]
    numbers, pids, blobs, inputs, settings, answers = zip(
        *launch(work, blob, envs=envs), strict=True
    )
    assert numbers == (0, 10) and settings == ('a', 'b') and blobs == (blob, blob)
    assert len({*pids, os.getpid()}) == 3
    assert inputs == ('', '')  # `input()` ends at once
    assert all(type(answer) is Answer for answer in answers)
    assert [answer.cores for answer in answers] == [mgpu.usable_cores()] * 2


def test_what_cannot_travel_is_said_before_anything_starts_or_as_an_error_of_that_rank(popened):
    lock = threading.Lock()
    with pytest.raises(TypeError, match='cannot be sent to another process.*lock'):
        launch(lambda: lock)
    for wrong, words in (
        (5, 'function must be a function.*, not 5'),
        (print, 'ranks must be .* 0'),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            launch_in_group(wrong, 2 * (wrong == 5))
    with pytest.raises(ValueError, match='envs must have one entry per rank, 2, not 1'):
        launch(print, envs=[{}])
    assert not popened
    failed = failure_of(lambda: __import__('threading').Lock())
    assert 'failed with TypeError: cannot pickle' in failed and 'sent back' in failed


def test_what_a_rank_prints_arrives_with_its_name(capsys):
    def speak():
        print('hello from', rank())
        os.write(1, b'from below Python\n')
        print('and on stderr', file=sys.stderr)

    launch(speak)
    printed = capsys.readouterr().out.splitlines()
    for i in (0, 1):
        mine = [line for line in printed if line.startswith(f'[rank {i}] ')]
        said = f'hello from {i}', 'from below Python', 'and on stderr'
        assert mine == [f'[rank {i}] {line}' for line in said]


RAISES = "raise RuntimeError('Traceback (most recent call last):\\n  File x.cc\\nCheck failed: t')"
FATES = [  # what rank 1 does, when rank 0 complains, and what is said
    ("raise ValueError('no colour')", 60, 'failed with ValueError: no colour'),
    (RAISES, 0.3, 'failed with RuntimeError: Check failed: t'),  # the last line, as of MXNet's
    ('os._exit(0)', 60, 'ended with status 0 before its function had returned'),
    ('os.kill(os.getpid(), 11)', 0.3, 'was killed by signal 11 (SIGSEGV)'),
]


@pytest.mark.parametrize('does, seconds, said', FATES)
def test_the_first_that_fails_is_the_cause_whoever_is_heard_first(does, seconds, said, tmp_path):
    def work():
        if rank() == 1:
            (tmp_path / 'here').touch()  # on a busy machine it may start seconds later
            exec(does, {'os': os})
        while not (tmp_path / 'here').exists():
            time.sleep(0.01)
        time.sleep(seconds)
        raise ConnectionError('the other one is gone')

    failed = failure_of(work)
    assert failed.startswith(f'rank 1 {said}')
    assert ('in work' in failed) == ('raise' in does)  # its traceback


def test_who_is_late_is_named_and_ends_though_it_ignores_a_request():
    def work():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(120 * rank())

    for timeout in (3, 12, 60):  # where the machine is busy, rank 0 needs its time to start, too
        with pytest.raises(TimeoutError) as caught:
            launch(work, timeout=timeout)
        if not str(caught.value).startswith('rank 0'):
            break
    assert str(caught.value).startswith(f'rank 1 did not finish within {timeout} seconds')


@pytest.mark.parametrize('seconds, timeout', [(0, None), (60, 2)])
def test_what_a_rank_starts_ends_with_it_and_keeps_nobody_waiting(seconds, timeout):
    """It holds the output pipe of its parent."""

    def work():
        subprocess.Popen(['sleep', '61'], start_new_session=bool(seconds))
        time.sleep(seconds)

    started = time.monotonic()
    with pytest.raises(TimeoutError) if timeout else contextlib.nullcontext():
        launch(work, timeout=timeout)
    assert time.monotonic() - started < 20


def test_a_line_without_an_end_is_cut(capsys):
    def endless():
        for _ in range(rank() * 100):
            os.write(1, b'x' * 1_000_000)
        print('\nend')

    launch(endless, timeout=60)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) < 2**16 + 10 and lines[-1].endswith('end')


STARTER = """
    import ctypes, os, sys, time
    from mgpu_helpers import launch

    def work():
        print(os.getpid())
        if os.environ['RANK'] == '1':  # C code that never gives the interpreter lock back
            ctypes.PyDLL(None).sleep(60)
        time.sleep(60)

    if not (forked := os.fork()):
        time.sleep(60)
    print(forked, flush=True)
    launch(work, 2, group=False, labels=False)
"""


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_rank_is_orphaned_when_its_starter_ends(started, number):
    """By Ctrl-C, a polite end, and one that leaves no time for anything, though a child of the
    starter's lives on."""
    code = [sys.executable, '-u', '-c', textwrap.dedent(STARTER)]
    with subprocess.Popen(code, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as starter:
        forked, *ranks = (int(starter.stdout.readline()) for _ in range(3))
        assert all(map(psutil.pid_exists, ranks))
        starter.send_signal(number)
        assert starter.wait(timeout=20) == -number
        deadline = time.monotonic() + 20
        while len(left := started()) > 1 and time.monotonic() < deadline:
            time.sleep(0.1)
        os.kill(forked, signal.SIGKILL)
    assert [p.pid for p in left] == [forked]
