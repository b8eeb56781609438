"""What the benchmark chooses, runs and says, on little work; the peers it compares with."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from checkouts import ROOT, call
from click.testing import CliRunner
from serving import real_files

from benchmarks import measuring
from benchmarks.__main__ import main
from benchmarks.cases import BATCH, CASES, OUR_SETTINGS, names_with, usual

BENCH = (sys.executable, '-m', 'benchmarks')
needs_mxnet = pytest.mark.skipif(find_spec('mxnet') is None, reason='MXNet is not installed here')


def bench(*words, code=0, **env):
    done = call(ROOT, *BENCH, *words, **env)
    assert done.returncode == code, done.stderr
    return done


def only(*names):
    return [word for name in names for word in ('--only', name)]


def result_in(folder):
    (path,) = folder.glob('*.json')
    return json.loads(path.read_text())


@pytest.fixture
def real_data():
    return real_files('fashion-mnist')  # the digits that stand in for it are not to be measured


def test_words_choose_the_cases_and_a_quick_look_takes_some():
    two = 'cluster, 2 workers'
    more = [f'{two}, dist_async', f'{two}, 2-bit']
    assert names_with(['cluster, ']) == [two, 'cluster, 1 worker', *more]
    assert CliRunner().invoke(main, ['--list']).stdout.splitlines() == list(CASES)
    assert set(usual(True)) < set(usual(False)) == set(CASES)
    for case in CASES.values():  # whole batches
        assert case.examples_of(5_120) % BATCH == 0 and case.examples_of(1) >= BATCH


def test_bad_options_are_refused_before_anything_runs():
    for words, message in (
        (['--only', 'chapter 9'], "no run has 'chapter 9' in its name; --list shows all"),
        (['--rounds', '0'], '0 is not in the range x>=1'),
        (['--examples', '10'], '10 is not in the range x>=256'),
        (['--out', str(ROOT / 'README.md')], "README.md' is a file"),
    ):
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 2 and not done.stdout
        assert message in ' '.join(done.stderr.split())


def test_where_mxnet_and_pytorch_are_missing_their_cases_are_left_out(tmp_path):
    (tmp_path / 'sitecustomize.py').write_text("""
import importlib.machinery as m
find = m.PathFinder.find_spec
m.PathFinder.find_spec = lambda name, *a: None if name in ('mxnet', 'torch') else find(name, *a)
""")
    done = bench(*only('cluster', 'DDP'), PYTHONPATH=tmp_path, code=1)
    assert 'left out: what needs mxnet and torch, not installed here' in done.stderr
    assert 'nothing is left to measure' in done.stderr
    words = *only('import mgpu_helpers', 'import d2l'), '--rounds', '2', '--out', tmp_path / 'out'
    done = bench(*words, PYTHONPATH=tmp_path)
    assert 'left out: what needs mxnet' in done.stderr
    result = result_in(tmp_path / 'out')
    assert list(result['measured']) == ['import mgpu_helpers'] and result['absent'] == ['mxnet']
    assert 'import mgpu_helpers' in done.stdout


@needs_mxnet
def test_the_digits_are_no_data_to_measure_with(tmp_path):
    nobody = {'MXNET_HOME': tmp_path, 'MGPU_DATA_MIRRORS': 'http://127.0.0.1:9/'}
    done = bench(*only('Gluon LeNet'), '--out', tmp_path / 'r', code=1, **nobody)
    assert not (tmp_path / 'r').exists() and not done.stdout
    assert 'Get it with: python -m mgpu_helpers data' in done.stderr


def test_a_run_that_fails_is_named_and_left_out(tmp_path, started):
    (tmp_path / 'd2l').mkdir()
    (tmp_path / 'd2l/__init__.py').touch()
    (tmp_path / 'd2l/mxnet.py').write_text('raise OSError("this d2l does not load")\n')
    (tmp_path / 'mxnet.py').touch()
    words = *only('import'), '--rounds', '2', '--out', tmp_path / 'out'
    done = bench(*words, code=1, PYTHONPATH=tmp_path)
    assert 'import d2l.mxnet: left out, because it failed' in done.stderr
    assert 'this d2l does not load' in done.stderr  # its last words, and no traceback of ours
    assert 'benchmarks/measuring.py' not in done.stderr
    assert 'Left out, because a run failed: import d2l.mxnet.' in done.stdout
    result = result_in(tmp_path / 'out')
    assert list(result['measured']) == ['import mgpu_helpers']
    assert result['failed'] == ['import d2l.mxnet'] and not started()


@needs_mxnet
def test_ctrl_c_leaves_no_process_and_no_file(real_data, tmp_path, started):
    words = *only('from scratch, 2 processes'), '--examples', '600000', '--out', tmp_path / 'out'
    options = {'stderr': subprocess.PIPE, 'text': True, 'start_new_session': True}
    running = subprocess.Popen([*BENCH, *words], cwd=ROOT, **options)
    while sum('benchmarks.run' in ' '.join(p.cmdline()) for p in started()) < 2:
        assert running.poll() is None, running.stderr.read()
        time.sleep(0.1)
    time.sleep(1)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=30)  # it does not wait for what runs
    assert running.returncode == 130 and 'nothing was stored' in said
    assert 'Traceback' not in said
    assert not started() and not (tmp_path / 'out').exists()


@needs_mxnet
def test_what_is_compared_is_stored_and_tells_nothing_of_who_made_it(real_data, tmp_path):
    names = ['first step, from scratch', 'first step, original text']
    done = bench(*only(*names), '--rounds', '1', '--out', tmp_path)
    assert {p.suffix for p in tmp_path.iterdir()} == {'.json', '.md', '.png'}
    (path,) = tmp_path.glob('*-part.json')  # so it is never taken for one to publish
    measured = json.loads(path.read_text())['measured']
    ours, theirs = (measured[name][0][0]['waited'] for name in names)
    row = rf'^\| from scratch +\| original text +\| {theirs / ours:.2f} '
    assert re.search(row, path.with_suffix('.md').read_text(), re.M), done.stdout
    everything = path.read_text() + path.with_suffix('.md').read_text()
    host = f'{socket.gethostname():_<4}'  # one of three letters may be in a word
    for private in (str(ROOT), str(Path.home()), sys.prefix, str(tmp_path), host):
        assert private not in everything


def test_memory_is_that_of_a_process_and_all_that_it_started():
    hold = "import sys; kept = b'x' * 100_000_000; print('here', flush=True); sys.stdin.read()"
    both = f'import subprocess, sys; p = subprocess.Popen([sys.executable, "-c", {hold!r}]); {hold}'
    pipes = {'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE}
    with subprocess.Popen([sys.executable, '-c', both], **pipes) as process:
        try:
            assert process.stdout.read(10).count(b'here') == 2  # both write there, at any time
            assert 0.2 < measuring.memory_of([process.pid]) < 0.3
        finally:
            process.stdin.close()
    assert measuring.memory_of([process.pid]) == 0  # it has ended, which is no error


IMAGES = np.arange(600 * 28 * 28, dtype='uint32').reshape(600, 28, 28).astype('uint8')
DATA = SimpleNamespace(train_images=IMAGES, train_labels=(np.arange(600) % 10).astype('uint8'))


def python(code):
    """Run a script as the benchmarks start their processes; return what it prints."""
    with measuring.clean_environment(DATA):
        done = call(ROOT, sys.executable, '-c', code)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_run_starts_from_the_frameworks_own_settings(monkeypatch):
    monkeypatch.setenv('OMP_NUM_THREADS', '3')
    monkeypatch.setenv('MALLOC_TOP_PAD_', '1')
    before = dict(os.environ)
    with measuring.clean_environment(DATA):
        assert not set(OUR_SETTINGS) & set(os.environ)
        file = Path(os.environ['MGPU_BENCH_ARRAYS'])
        assert os.environ['CUDA_VISIBLE_DEVICES'] == '' and file.exists()
    assert dict(os.environ) == before and not file.exists()


def test_peers_have_nothing_of_ours_and_d2l_reads_our_arrays_through_its_own_loader():
    peers = {'peer_source': 'mxnet', 'peer_d2l': 'd2l', 'peer_ddp': 'torch'}
    modules = ['sys', *(f'benchmarks.{peer}' for peer, needs in peers.items() if find_spec(needs))]
    ours = f'import {", ".join(modules)}; print([m for m in sys.modules if "mgpu" in m])'
    assert python(ours) == ['[]']
    if find_spec('d2l'):
        printed = python("""
from benchmarks import peer_d2l as p
kept = p.gluon.data.vision.FashionMNIST
batches = p.batches(512, 256)
X, y = next(iter(batches))
assert p.gluon.data.vision.FashionMNIST is kept
print(len(batches), *X.shape, X.dtype, float(X.max()), int(y.max()))
""")
        assert printed == ['2', '256', '1', '28', '28', 'float32', '1.0', '9']


@pytest.mark.slow
@needs_mxnet
def test_workers_are_compared_and_allreduces_measured_by_themselves(real_data, started, tmp_path):
    chosen = only('cluster, 1', '2-bit', 'allreduce')
    done = bench('--rounds', '1', '--examples', '2560', *chosen, '--out', tmp_path)
    assert not started(), 'processes of a cluster are left'
    measured = result_in(tmp_path)['measured']
    names = 'cluster, 1 worker', 'cluster, 2 workers, 2-bit'
    one, compressed = (measured[name][0][0] for name in names)
    assert 1 < one['sent'] < 1.01 and 1 < one['received'] < 1.01
    assert 1 / 16 < compressed['sent'] < 1 / 16 + 0.01 and 1 < compressed['received'] < 1.01
    summed = re.findall(r'^(LeNet|ResNet-18), (2|4) devices, (8|58) gradients', done.stdout, re.M)
    assert len(set(summed)) == 4, done.stdout
