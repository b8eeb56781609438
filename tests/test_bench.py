"""What the benchmark chooses and counts, on little work; `make bench` gives the figures."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.kinds import names_with

ROOT = Path(__file__).parent.parent


def bench(*words):
    return subprocess.run(
        [sys.executable, '-m', 'benchmarks', '--rounds', '1', *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_a_word_chooses_the_kinds_of_a_chapter():
    assert names_with(['cluster']) == [
        'Gluon LeNet, 2 devices',
        'cluster, 2 workers',
        'cluster, 1 worker',
        'cluster, 2 workers, no waits',
        'cluster, 2 workers, dist_async',
        'cluster, 2 workers, 2-bit',
    ]


@pytest.mark.slow
def test_workers_are_compared_and_their_bytes_counted(started):
    pytest.importorskip('mxnet')
    done = bench('--examples', '2560', '--only', 'cluster, 1', '2-bit', 'no waits')
    assert done.returncode == 0, done.stderr
    assert not started(), 'processes of a cluster are left'
    table = {
        name: [float(number) for number in re.findall(r'\d+\.\d+', rest)]
        for name, rest in re.findall(
            r'^(cluster, \d workers?(?:, \S+)?)  +(0.*)$', done.stdout, re.M
        )
    }
    assert set(table) == {'cluster, 1 worker', 'cluster, 2 workers, 2-bit'}, done.stdout
    sent, received = table['cluster, 1 worker'][-2:]
    assert 1 < sent < 1.01 and 1 < received < 1.01
    sent, received = table['cluster, 2 workers, 2-bit'][-2:]
    assert 1 / 16 < sent < 1 / 16 + 0.01 and 1 < received < 1.01
    rates = re.findall(r'^cluster, 2 workers, no waits +([\d,]+)$', done.stdout, re.M)
    assert len(rates) == 1, done.stdout


def test_where_mxnet_is_missing_its_kinds_are_left_out(tmp_path):
    """A Python whose list of installed packages has no MXNet."""
    (tmp_path / 'sitecustomize.py').write_text(
        'import importlib.metadata as m\n'
        'every = m.distributions\n'
        "there = lambda d: not d.metadata['Name'].startswith('mxnet')\n"
        'm.distributions = lambda: filter(there, every())\n'
    )
    done = subprocess.run(
        [sys.executable, '-m', 'benchmarks', '--only', 'cluster'],
        cwd=ROOT,
        env=os.environ | {'PYTHONPATH': str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert 'left out: what needs mxnet' in done.stdout
    assert done.returncode == 1 and 'nothing is left to measure' in done.stderr
    assert 'cluster, 2 workers' not in done.stdout
