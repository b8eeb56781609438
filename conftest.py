"""Which tests and chapters are left out here, and why; and that slow files start first."""

import hashlib
import json
import os
import runpy
import sys
from pathlib import Path

import pytest
from chapters import CHAPTERS

ROOT = Path(__file__).parent
# Not imported: our package's settings are not to reach the notebooks' kernels through us.
python_with = runpy.run_path(str(ROOT / 'mgpu_helpers/processes/pythons.py'))['python_with']
# What imports MXNet, or calls what does, and the command whose environment has it; `make test`
# runs in all of them. Whatever is not named here runs everywhere, or asks for itself.
MXNET = (
    'buckets cluster cluster_files cluster_train collectives devices docstrings gluon gluon_train '
    'hosts kills launch machines models notebooks readme runtime scratch timeline train'
).split()
MODULES = {'MXNet': 'mxnet', 'PyTorch': 'torch'}
NEEDS = {
    name: [
        f'{folder}/{chapter.file}.ipynb'
        for folder in ('notebooks', 'exercises')
        for chapter in CHAPTERS
        if chapter.framework == module
    ]
    for name, module in MODULES.items()
}
NEEDS['MXNet'] += [f'tests/test_{name}.py' for name in MXNET]
MISSING = [name for name in NEEDS if not python_with(MODULES[name])]
# Some files run at a time; one of these begun last would run on by itself.
SLOWEST_FIRST = [chapter.file for chapter in sorted(CHAPTERS, key=lambda c: -c.run)]
SLOWEST_FIRST += [
    f'test_{name}'
    for name in (
        'training pytorch_train cluster cluster_train setup pipeline look sharding pytorch launch '
        'own_ddp tensor bench doctor exercises train'
    ).split()
]
GREEN = ROOT / 'build' / 'green'  # what each chapter was made of when it last passed
CODE = (
    'mgpu_helpers/**/*.py',
    'exercises/mgpu_exercises/*.py',
    'training/*',
    'pyproject.toml',
    'tools/locks/*.txt',
)
_passed: dict[str, int] = {}


class Skipped(pytest.File):
    """A file that is not even imported."""

    def collect(self):
        pytest.skip(f'{self.path.relative_to(ROOT)}: {self.why}', allow_module_level=True)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path, parent):
    found = yield
    reasons = [
        f'{name} is not installed here: make setup TORCH=1'
        for name in MISSING
        if any(file_path.match(str(ROOT / pattern)) for pattern in NEEDS[name])
    ]
    if os.environ.get('CHANGED') and file_path.suffix == '.ipynb' and is_green(file_path):
        reasons = ['nothing that it is made of has changed since it last passed']
    if found and reasons:
        found = [Skipped.from_parent(parent, path=file_path)]
        found[0].why = reasons[0]
    return found


def pytest_collection_modifyitems(items):
    rank = {name: i for i, name in enumerate(SLOWEST_FIRST)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(rank)))  # stable: cells stay in order


def made_of(notebook):
    """Sum up what decides whether a chapter passes: itself, the code, the locks, the data."""
    data = Path(os.environ.get('MXNET_HOME', Path.home() / '.mxnet')) / 'datasets'
    total = hashlib.sha256(sys.version.encode())
    files = [notebook, ROOT / 'tests' / 'sanitize.cfg']
    for path in files + sorted(path for pattern in CODE for path in ROOT.glob(pattern)):
        total.update(path.read_bytes() if path.is_file() else b'')
    for path in sorted(data.glob('*/*.gz')):
        total.update(f'{path.name} {path.stat().st_size} {path.stat().st_mtime_ns}'.encode())
    return total.hexdigest()


def is_green(notebook):
    stamp = GREEN / notebook.name
    return stamp.is_file() and stamp.read_text() == made_of(notebook)


def pytest_runtest_logreport(report):
    path = report.nodeid.partition('::')[0]
    if path.endswith('.ipynb') and report.when == 'call' and report.passed:
        _passed[path] = _passed.get(path, 0) + 1


def pytest_sessionfinish(session):
    """Remember the chapters of which every cell has passed."""
    if hasattr(session.config, 'workerinput'):
        return  # the process that started this one has all reports
    for path, passed in _passed.items():
        notebook = ROOT / path
        cells = json.loads(notebook.read_text(encoding='utf8'))['cells']
        if passed == sum(c['cell_type'] == 'code' and bool(c['source']) for c in cells):
            GREEN.mkdir(parents=True, exist_ok=True)
            (GREEN / notebook.name).write_text(made_of(notebook))
