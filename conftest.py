"""Skip tests and chapters whose framework is missing; start slow files first."""

import hashlib
import json
import os
import runpy
import sys
from pathlib import Path

import pytest
from chapters import CHAPTERS

ROOT = Path(__file__).parent
# Not imported, so that our package's settings do not leak into the notebooks' kernels.
python_with = runpy.run_path(str(ROOT / 'mgpu_helpers/processes/pythons.py'))['python_with']
# Tests that import MXNet, directly or indirectly. Others run everywhere or skip themselves.
MXNET = (
    'buckets cluster cluster_train collectives devices docstrings gluon gluon_train '
    'kills models notebooks readme runtime scratch timeline train'
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
# Files run in parallel; a slow one that started last would finish long after the others.
SLOWEST_FIRST = [chapter.file for chapter in sorted(CHAPTERS, key=lambda c: -c.run)]
SLOWEST_FIRST += [
    f'test_{name}'
    for name in (
        'grade training setup training_ranks exercises cluster cluster_train look '
        'moving slides model_parallel language ranks pytorch handed_in bench doctor train'
    ).split()
]
GREEN = ROOT / 'build' / 'green'  # per chapter: a hash of its inputs when it last passed
CODE = (
    'mgpu_helpers/**/*.py',
    'exercises/mgpu_exercises/*.py',
    'training/**/*.py',
    'pyproject.toml',
    'tools/locks/*.txt',
)
_passed: dict[str, int] = {}


class Skipped(pytest.File):
    """Skip a file without importing it."""

    def collect(self):
        pytest.skip(f'{self.path.relative_to(ROOT)}: {self.reason}', allow_module_level=True)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path, parent):
    collector = yield
    reasons = [
        f'{name} is not installed here: make setup TORCH=1'
        for name in MISSING
        if any(file_path.match(str(ROOT / pattern)) for pattern in NEEDS[name])
    ]
    if os.environ.get('CHANGED') and file_path.suffix == '.ipynb' and is_green(file_path):
        reasons = ['nothing that it depends on has changed since it last passed']
    if collector and reasons:
        collector = Skipped.from_parent(parent, path=file_path)
        collector.reason = reasons[0]
        return [collector]
    return collector


def pytest_collection_modifyitems(items):
    rank = {name: i for i, name in enumerate(SLOWEST_FIRST)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(rank)))  # stable: cells stay in order


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Turn off progress bars in the kernels of notebooks, as in the runs that were stored."""
    notebook = item.path.suffix == '.ipynb'
    if os.environ.pop('TQDM_DISABLE', None) or notebook:
        os.environ.pop('PYTHONPATH', None)  # set by us below, or not meant for kernels
    if notebook:
        os.environ['TQDM_DISABLE'] = '1'
        if item.path.stem[:2] in ('06', '07'):  # they start about fifty processes
            os.environ['PYTHONPATH'] = str(ROOT / 'tests/without_compiler')


def hash_of_inputs(notebook):
    """Hash everything a chapter's result depends on: notebook, code, locks and data."""
    data = Path(os.environ.get('MXNET_HOME', Path.home() / '.mxnet')) / 'datasets'
    digest = hashlib.sha256(sys.version.encode())
    files = [notebook, ROOT / 'tests' / 'sanitize.cfg']
    for path in files + sorted(path for pattern in CODE for path in ROOT.glob(pattern)):
        digest.update(path.read_bytes() if path.is_file() else b'')
    for path in sorted(data.glob('*/*.gz')):
        digest.update(f'{path.name} {path.stat().st_size} {path.stat().st_mtime_ns}'.encode())
    return digest.hexdigest()


def is_green(notebook):
    stamp = GREEN / notebook.name
    return stamp.is_file() and stamp.read_text() == hash_of_inputs(notebook)


def pytest_runtest_logreport(report):
    path = report.nodeid.partition('::')[0]
    if path.endswith('.ipynb') and report.when == 'call' and report.passed:
        _passed[path] = _passed.get(path, 0) + 1


def pytest_sessionfinish(session):
    """Record the chapters in which every cell has passed."""
    if hasattr(session.config, 'workerinput'):
        return  # xdist's main process has all reports
    for path, passed in _passed.items():
        notebook = ROOT / path
        cells = json.loads(notebook.read_text(encoding='utf8'))['cells']
        if passed == sum(c['cell_type'] == 'code' and bool(c['source']) for c in cells):
            GREEN.mkdir(parents=True, exist_ok=True)
            (GREEN / notebook.name).write_text(hash_of_inputs(notebook))
