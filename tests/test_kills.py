"""Every rank is killed, at random moments, on a busy machine: named, over, and nothing is left."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time

import psutil
import pytest
from launching import Started

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV)
SECONDS = 20  # within which a failure must be over
# A process with PyTorch computes 0.7 s to free itself, 13 s at a load of 20: nothing of ours.
RANKS = """
import os, sys
import mgpu_helpers as mgpu
from mgpu_helpers.processes import RankFailed

def work():
    import torch
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(100, 100))
    while True:
        net(torch.ones(10, 100)).sum().backward()

try:
    mgpu.launch(work, 2)
except RankFailed as error:
    print(error, file=sys.stderr)
    os._exit(1)
"""

NAMES = 'rank 0', 'rank 1'


@pytest.fixture
def busy():
    """Keep both of two cores at work."""
    loops = [subprocess.Popen([sys.executable, '-c', 'while True: pass']) for _ in range(2)]
    yield
    for loop in loops:
        loop.kill()
        loop.wait()


def members(starter, count):
    """Wait for the ranks' processes; return them in order."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        started = []
        for child in psutil.Process(starter.pid).children():
            with contextlib.suppress(psutil.Error):
                if 'RANK' in (env := child.environ()):
                    started.append((env['RANK'], child))
        if len(started) == count:
            return [child for _, child in sorted(started, key=lambda each: each[0])]
        time.sleep(0.01)
    raise AssertionError(f'{len(started)} of {count} were started')


@pytest.mark.slow
def test_kills_at_random_moments(busy):
    """Also before a rank's program has begun, while Python starts, and while PyTorch loads."""
    pytest.importorskip('torch')
    draw = random.Random(seed := random.randrange(10**6))
    count, longest = int(os.environ.get('MGPU_KILLS', 9)), 0.0
    for i in range(count):
        place, number = draw.randrange(len(NAMES)), draw.choice(SIGNALS)
        moment = draw.uniform(0, 8)
        print(f'seed {seed}, {i + 1} of {count}: {NAMES[place]}, {number.name}', end=' ')
        with Started(sys.executable, '-c', RANKS) as starter:
            started = members(starter.process, len(NAMES))
            time.sleep(moment)
            started[place].send_signal(number)
            killed = time.monotonic()
            _, _, err = starter.end(SECONDS)
            longest = max(longest, took := time.monotonic() - killed)
        print(f'after {moment:.1f} s: over {took:.1f} s later')
        told = f'{NAMES[place]} was killed by signal {number} ({number.name})' in err
        assert told, err
    print(f'the longest of {count}: {longest:.1f} s')
