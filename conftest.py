"""Skip tests and chapters whose framework is missing; start slow files first."""

import os
import runpy
from pathlib import Path

import pytest
from chapters import CHAPTERS

ROOT = Path(__file__).parent
# Not imported, so that our package's settings do not leak into the notebooks' kernels.
python_with = runpy.run_path(str(ROOT / 'mgpu_helpers/processes/pythons.py'))['python_with']
# Tests that import MXNet, directly or indirectly. Others run everywhere or skip themselves.
MXNET = (
    'buckets cluster cluster_train collectives devices docstrings gluon gluon_train '
    'models notebooks readme runtime scratch timeline train'
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
