"""The peers: their own code on the same data, with nothing of ours in their processes."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from checkouts import ROOT, call

from benchmarks import measuring
from benchmarks.kinds import OUR_SETTINGS

IMAGES = np.arange(600 * 28 * 28, dtype='uint32').reshape(600, 28, 28).astype('uint8')
DATA = SimpleNamespace(train_images=IMAGES, train_labels=(np.arange(600) % 10).astype('uint8'))


def python(code):
    """Run a script as the benchmarks start their processes; give what it prints."""
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
        assert os.environ['CUDA_VISIBLE_DEVICES'] == ''
        file = Path(os.environ['MGPU_BENCH_ARRAYS'])
        assert file.exists()
    assert dict(os.environ) == before and not file.exists()


@pytest.mark.parametrize('peer, needs', [('peer_source', 'mxnet'), ('peer_ddp', 'torch')])
def test_nothing_of_ours_is_in_the_process_of_a_peer(peer, needs):
    if find_spec(needs) is None:
        pytest.skip(f'{needs} is not installed here')
    ours = f'import sys, benchmarks.{peer}; print([m for m in sys.modules if "mgpu" in m])'
    assert python(ours) == ['[]']


@pytest.mark.skipif(find_spec('d2l') is None, reason='d2l is not installed here')
def test_d2l_reads_our_arrays_through_its_own_loader():
    code = """
import sys; from benchmarks import peer_d2l as p
assert not [m for m in sys.modules if "mgpu" in m]
vision = p.gluon.data.vision
kept = vision.FashionMNIST
batches = p.batches(512, 256)
X, y = next(iter(batches))
assert vision.FashionMNIST is kept
print(len(batches), *X.shape, X.dtype, float(X.max()), int(y.max()))
"""
    assert python(code) == ['2', '256', '1', '28', '28', 'float32', '1.0', '9']
