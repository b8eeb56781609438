"""Every public function is documented, and every example in the documentation runs."""

import doctest
import importlib
import importlib.util
import inspect
import pkgutil

import mxnet as mx
import pytest

import mgpu_helpers

MODULES = [
    m.name
    for m in pkgutil.walk_packages(mgpu_helpers.__path__, 'mgpu_helpers.', onerror=lambda name: 0)
    if not m.name.endswith('__main__')
]
# What data.py, doctor and the simulator are made of, and faces: readers call what has examples.
INNER = {
    f'mgpu_helpers.{name}'
    for name in (
        'batches',
        'catalogue',
        'cluster',
        'cluster.node',
        'collectives',
        'digits',
        'doctor',
        'doctor.command',
        'doctor.files',
        'doctor.hardware',
        'doctor.settings',
        'doctor.software',
        'doctor.training',
        'fetch',
        'processes',
        'pytorch',
        'scaling.events',
    )
}
NO_TORCH = importlib.util.find_spec('torch') is None


def load(name):
    if NO_TORCH and name.startswith('mgpu_helpers.pytorch'):
        pytest.skip('PyTorch is not installed here: make setup TORCH=1')
    return importlib.import_module(name)


@pytest.mark.filterwarnings('ignore::mgpu_helpers.data.OfflineDataWarning')
@pytest.mark.parametrize('name', MODULES)
def test_examples_run(name, capsys):
    module = load(name)
    mgpu_helpers.devices(
        len(name) + 99
    )  # the notices are said now, not in the middle of an example
    capsys.readouterr()
    failed, tried = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert not failed, capsys.readouterr().out
    assert tried or name in INNER


@pytest.mark.parametrize('name', MODULES)
def test_public_functions_say_what_they_do(name):
    module = load(name)
    for label, thing in vars(module).items():
        if label.startswith('_') or getattr(thing, '__module__', None) != name:
            continue
        if inspect.isfunction(thing) or inspect.isclass(thing):
            assert thing.__doc__, label
            if inspect.isfunction(thing) and name not in INNER:
                assert '>>>' in thing.__doc__, f'{name}.{label} shows no example'


def test_public_face_is_complete():
    for name in set(mgpu_helpers.__all__) - ({'pytorch'} if NO_TORCH else set()):
        assert getattr(mgpu_helpers, name) is not None
    assert mgpu_helpers.devices(1)[0].device_type in ('cpu', 'gpu')
    assert mgpu_helpers.try_gpu(99) == mx.cpu()
