"""Start the command line as a user does, and look for what it leaves behind."""

import contextlib
import os
import random
import subprocess
import sys
import time
import uuid
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from mgpu_helpers.__main__ import main
from mgpu_helpers.cluster.placement import LOOPBACK
from mgpu_helpers.cluster.preflight import check_port

ROOT = Path(__file__).parent.parent
MARK = 'MGPU_TEST_RUN'
SECONDS = 20  # within which a failure must be over

# A worker that is at work until it is stopped.
ENDLESS = """
import mgpu_helpers, mxnet as mx, time
store = mx.kv.create('dist_sync')
store.init(0, mx.nd.zeros(10))
out = mx.nd.zeros(10)
for step in range(10**6):
    store.push(0, mx.nd.ones(10))
    store.pull(0, out=out)
    out.wait_to_read()
    if step in (0, 5):
        print('at work' if step else 'begun')
    time.sleep(0.02)
"""
# One that ends: every worker adds its rank + 1.
ADDING = """
import mgpu_helpers, mxnet as mx
store = mx.kv.create('dist_sync')
store.init(0, mx.nd.zeros(2))
store.push(0, mx.nd.ones(2) * (store.rank + 1))
out = mx.nd.zeros(2)
store.pull(0, out=out)
print('rank', store.rank, 'of', store.num_workers, 'sum', out.asnumpy())
"""


def refused(*args, **env):
    """Call the command line in this process with bad arguments; return its one-sentence error."""
    result = CliRunner().invoke(main, [str(word) for word in args], env=env)
    (error,) = (line for line in result.stderr.splitlines() if line.startswith('Error: '))
    assert result.exit_code == 2 and not result.stdout, result.output
    return error


class Started:
    """A command in a process of its own, and all that belongs to it."""

    def __init__(self, *command, env=None, **options):
        self.mark = uuid.uuid4().hex
        env = os.environ | {'PYTHONPATH': str(ROOT), MARK: self.mark} | (env or {})
        options = {'stdout': subprocess.PIPE, 'stderr': subprocess.PIPE, 'cwd': ROOT} | options
        self.process = subprocess.Popen([*map(str, command)], text=True, env=env, **options)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        for process in self.living():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def living(self):
        """List what carries our mark, other than the launcher itself."""
        processes = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                marked = process.environ().get(MARK) == self.mark
                if marked and process.pid != self.process.pid:
                    processes.append(process)
        return processes

    def line_with(self, text):
        """Read until a line holds a text."""
        for line in self.process.stdout:
            if text in line:
                return line
        raise AssertionError(f'no line with {text!r}: {self.process.stderr.read()}')

    def end(self, seconds=180):
        """Wait for its end; nothing must be left. Returns status, output and errors."""
        out, err = self.process.communicate(timeout=seconds)
        self.nothing_is_left()
        return self.process.returncode, out, err

    def nothing_is_left(self):
        """Raise if a process, or a port at which it listens, outlives the launcher."""
        deadline = time.monotonic() + 30  # 5 were once too few for 14 logins, at a load of 24
        while (left := self.living()) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not left, [process.cmdline() for process in left]


class Launcher(Started):
    """``python -m mgpu_helpers ...``."""

    def __init__(self, *args, **options):
        super().__init__(sys.executable, '-m', 'mgpu_helpers', *args, **options)


def launched(*args, **options):
    """Run ``launch`` to its end; return its status, output and errors."""
    with Launcher('launch', *args, **options) as launcher:
        return launcher.end()


def nobody_listens(ports):
    """Raise if somebody listens at one of these ports, and still does a moment later.

    A process closes them after it has given its memory back, and then counts as ended already.
    """
    deadline = time.monotonic() + 5
    while True:
        tcp = psutil.net_connections('tcp')
        left = {c.laddr.port for c in tcp if c.status == psutil.CONN_LISTEN} & set(ports)
        if not left:
            return
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


@pytest.fixture
def port():
    """A port that is free together with the next three; afterwards nobody may listen there."""
    while True:
        # Below those that the kernel gives to anybody's connections.
        ports = range(first := random.randrange(12000, 32000), first + 4)
        with contextlib.suppress(OSError):
            for number in ports:
                check_port(LOOPBACK, number)
            break
    yield first
    nobody_listens(ports)
