"""Every example in a docstring runs, and every public name is there."""

import doctest
import importlib
import importlib.util
from pathlib import Path

import mxnet as mx

import mgpu_helpers

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted([*ROOT.glob('mgpu_helpers/**/*.py'), *ROOT.glob('exercises/mgpu_exercises/*.py')])
NO_TORCH = importlib.util.find_spec('torch') is None


def test_examples_run(capsys, popened):
    """All in one process, and none starts another."""
    mgpu_helpers.devices(9)  # the notice is said now, not in the middle of an example
    tried = 0
    for path in FILES:
        name = '.'.join(path.relative_to(ROOT).with_suffix('').parts).removesuffix('.__init__')
        if '>>>' not in path.read_text(encoding='utf8') or NO_TORCH and '.pytorch' in name:
            continue
        module = importlib.import_module(name)
        capsys.readouterr()
        results = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
        assert not results.failed, capsys.readouterr().out
        tried += results.attempted
    assert tried and not popened


def test_public_face_is_complete():
    for name in set(mgpu_helpers.__all__) - ({'pytorch'} if NO_TORCH else set()):
        assert getattr(mgpu_helpers, name) is not None
    assert mgpu_helpers.devices(1)[0].device_type in ('cpu', 'gpu')
    assert mgpu_helpers.try_gpu() in (mx.cpu(), mx.gpu())
