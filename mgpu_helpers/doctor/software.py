"""Python, NumPy, MXNet, d2l, PyTorch, Jupyter: installed, the right ones, and do they load?"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from ..runtime import NUMPY_LIMIT, installed_builds
from . import fixes
from .asking import Questions
from .child import JUPYTER, MODULES, Facts
from .report import FAILED, NOT_NEEDED, OK, WARNING, Row

MXNET_PYTHON = (3, 11)  # the newest with a wheel of MXNet 1.9.1, and the oldest of the course
NEWEST_PYTHON = (3, 13)  # with which the PyTorch chapter was tried
DRIVER = 'libcuda.so.1'
# What the dynamic loader says of a library that it cannot load.
UNLOADABLE = re.compile(r'\b(lib[^\s:/]+\.so[.\d]*): (?:cannot open|file too short|invalid ELF)')


def python(ask: Questions) -> Iterator[Row]:
    """Look at this Python and this system."""
    version = sys.version_info[:2]
    found = f'{platform.python_version()} in {sys.prefix}, {platform.system()} {platform.machine()}'
    if not MXNET_PYTHON <= version <= NEWEST_PYTHON:
        wanted = 'The course needs 3.11, or 3.11 to 3.13 for chapter 5 alone.'
        yield Row('Python', FAILED, f'{found}. {wanted}', fixes.setup())
    elif not fixes.mxnet_system():
        yield Row('Python', OK, f'{found}: for chapter 5; MXNet has no build here that we tested')
    elif version > MXNET_PYTHON:
        yield Row(
            'Python', WARNING, f'{found}: for chapter 5; MXNet ends at Python 3.11', fixes.setup()
        )
    else:
        yield Row('Python', OK, found)


def numpy(ask: Questions) -> Iterator[Row]:
    """Look at NumPy, and whether it is old enough for MXNet."""
    facts = ask('mxnet')['numpy']
    if 'error' in facts:
        yield Row('NumPy', FAILED, _error(facts), _fix(facts))
        return
    limit = '.'.join(map(str, NUMPY_LIMIT))
    version = tuple(int(part) for part in re.findall(r'\d+', facts['version'])[:2])
    if version < NUMPY_LIMIT:
        yield Row('NumPy', OK, facts['version'])
    elif installed_builds():
        found = f'{facts["version"]} is too new for MXNet 1.9.1, which needs NumPy below {limit}'
        yield Row('NumPy', FAILED, found, fixes.setup(anew=True))
    else:
        yield Row('NumPy', OK, f'{facts["version"]} (MXNet would need one below {limit})')


def mxnet(ask: Questions) -> Iterator[Row]:
    """Look at which MXNet is installed, whether it loads, and at d2l."""
    builds, facts = installed_builds(), ask('mxnet')['mxnet']
    if len(builds) > 1:
        found = f'{" and ".join(builds)} are both installed and overwrite each other'
        yield Row('MXNet', FAILED, found, fixes.setup(anew=True))
    elif facts.get('missing') == 'mxnet' and not builds:
        yield _no_mxnet(ask)
        return
    elif 'error' in facts:
        what = f'{builds[0]} is installed, but does not load: ' if builds else 'it does not load: '
        yield Row('MXNet', FAILED, what + _error(facts), _mxnet_fix(builds, facts))
        return
    else:
        kind = 'for NVIDIA GPUs' if facts['cuda'] else 'for CPUs'
        name = builds[0] if builds else 'not from a wheel'
        yield Row('MXNet', OK, f'{facts["version"]}, the build {kind} ({name}); it loads')
    facts = ask('mxnet')['d2l']
    if 'error' not in facts:
        yield Row('d2l', OK, facts['version'])
    elif facts.get('missing') in ('d2l', 'd2l.mxnet'):
        found = 'it is not installed; chapter 1 shows its pictures with it'
        yield Row('d2l', WARNING, found, fixes.setup(anew=True))
    else:
        yield Row('d2l', WARNING, f'it does not load: {_error(facts)}', _fix(facts))


def _no_mxnet(ask: Questions) -> Row:
    chapters = 'not installed; chapters 1 to 4 need it'
    if not fixes.mxnet_system():
        return Row('MXNet', NOT_NEEDED, f'{chapters}, and it has no build for this system')
    if 'error' not in ask('torch')['torch']:
        anew = fixes.finished().get('torch') == '1'
        fix = fixes.setup('TORCH=1', anew)
        return Row('MXNet', WARNING, f'{chapters}, chapter 5 does not', fix)
    return Row('MXNet', FAILED, chapters, fixes.setup(anew=bool(fixes.finished())))


def _mxnet_fix(builds: list[str], facts: Facts) -> str:
    if any(build != 'mxnet' for build in builds) and DRIVER in facts['error']:
        return fixes.setup('GPU=0')
    return _fix(facts)


def torch(ask: Questions) -> Iterator[Row]:
    """Look at PyTorch, which chapter 5 needs."""
    facts = ask('torch')['torch']
    if facts.get('missing') == 'torch':
        gpu = any(build != 'mxnet' for build in installed_builds())
        yield Row(
            'PyTorch',
            NOT_NEEDED,
            'not installed; chapter 5 needs it, the others do not',
            fixes.setup(
                'GPU=0 TORCH=1' if gpu else 'TORCH=1',
                anew=fixes.finished().get('torch') in ('1', 'only'),
            ),
        )
    elif 'error' in facts:
        yield Row('PyTorch', FAILED, f'it does not load: {_error(facts)}', _fix(facts))
    else:
        kind = f'with CUDA {facts["cuda"]}' if facts['cuda'] else 'the build for CPUs'
        yield Row('PyTorch', OK, f'{facts["version"]}, {kind}; it loads')


def packages(ask: Questions) -> Iterator[Row]:
    """Look at the other packages that ours is made with."""
    troubles = {name: ask('packages')[name] for name in MODULES}
    troubles = {name: facts for name, facts in troubles.items() if 'error' in facts}
    if not troubles:
        names = ', '.join(name.split('.')[0] for name in MODULES)
        yield Row('packages', OK, f'{names}: all load')
        return
    found = '; '.join(f'{name} does not load: {_error(f)}' for name, f in troubles.items())
    yield Row('packages', FAILED, found, _fix(next(iter(troubles.values()))))


def jupyter(ask: Questions) -> Iterator[Row]:
    """Look at what opens, runs and tests the notebooks."""
    answers = ask('jupyter')
    troubles = {name: answers[name] for name in JUPYTER if 'error' in answers[name]}
    if troubles:
        found = '; '.join(f'{name} does not load: {_error(f)}' for name, f in troubles.items())
        # nbval tests the notebooks; reading and running them needs the others.
        verdict = WARNING if list(troubles) == ['nbval'] else FAILED
        yield Row('Jupyter', verdict, found, _fix(next(iter(troubles.values()))))
    else:
        versions = ', '.join(f'{name} {answers[name]["version"]}' for name in JUPYTER)
        yield Row('Jupyter', OK, versions)


def kernel(ask: Questions) -> Iterator[Row]:
    """Look at the Python that the kernel of the notebooks starts."""
    yield _kernel_row(ask('kernel')['kernel'])


def _kernel_row(facts: Facts) -> Row:
    name = 'Jupyter kernel'
    register = (
        f'{fixes.python()} -m ipykernel install --sys-prefix --name python3 '
        "--display-name 'Python 3 (multi-GPU course)'"
    )
    if 'error' in facts:
        return Row(name, FAILED, f"none is registered as 'python3': {facts['error']}", register)
    where = f"'{facts['name']}' in {facts['folder']} starts {facts['program']}"
    if facts['prefix'] is None:
        found = f'{where}, which is not there, or is no Python that runs'
    elif Path(facts['prefix']).resolve() != Path(sys.prefix).resolve():
        found = f'{where}: the Python of {facts["prefix"]}, and not this one'
    else:
        return Row(name, OK, where)
    inside = Path(facts['folder']).is_relative_to(sys.prefix)
    if os.environ.get('JUPYTER_PATH') and not inside:
        register = 'unset JUPYTER_PATH'
    elif not inside:  # one in the user's home stands before ours
        register = f'export JUPYTER_PREFER_ENV_PATH=1\n{register}'
    return Row(name, FAILED, found, register)


def _error(facts: Facts) -> str:
    """An error of a child in a line, with what it means where we know."""
    library = UNLOADABLE.search(facts['error'])
    if library and library[1] != DRIVER:  # of which runtime.py has said enough
        return f'the library {library[1]} is missing or damaged ({facts["error"]})'
    return facts['error'].removeprefix('ImportError: ')


def _fix(facts: Facts) -> str:
    library = UNLOADABLE.search(facts['error'])
    return (library and fixes.library(library[1])) or fixes.setup(anew=True)
