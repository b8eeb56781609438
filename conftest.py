"""Which tests and chapters an environment cannot run: they are skipped, and each says why."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parent
# What imports MXNet, or calls what does, and the command whose environment has it; `make test`
# runs in all of them. Whatever is not named here runs everywhere, or asks for itself.
NEEDS = {
    'mxnet': (
        'MXNet is not installed here; make setup TORCH=1 has both',
        (
            'tests/test_buckets.py',
            'tests/test_cluster.py',
            'tests/test_cluster_train.py',
            'tests/test_cluster_files.py',
            'tests/test_collectives.py',
            'tests/test_devices.py',
            'tests/test_docstrings.py',
            'tests/test_gluon.py',
            'tests/test_gluon_train.py',
            'tests/test_hosts.py',
            'tests/test_launch.py',
            'tests/test_machines.py',
            'tests/test_notebooks.py',
            'tests/test_readme.py',
            'tests/test_runtime.py',
            'tests/test_scratch.py',
            'tests/test_timeline.py',
            'tests/test_traffic_store.py',
            'tests/test_train.py',
            'notebooks/0[1-4]-*.ipynb',
        ),
    ),
    'torch': (
        'PyTorch is not installed here: make setup TORCH=1',
        ('notebooks/05-*.ipynb',),
    ),
}
MISSING = {name: why for name, why in NEEDS.items() if importlib.util.find_spec(name) is None}


class Skipped(pytest.File):
    """A file that is not even imported."""

    def collect(self):
        pytest.skip(f'{self.path.relative_to(ROOT)}: {self.why}', allow_module_level=True)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path, parent):
    found = yield
    for why, patterns in MISSING.values():
        if found and any(file_path.match(str(ROOT / pattern)) for pattern in patterns):
            found = [Skipped.from_parent(parent, path=file_path)]
            found[0].why = why
    return found
