"""What the answers say of what is installed: a row for each, with the command that mends it."""

from __future__ import annotations

import os
import platform
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ..processes import python_with
from ..runtime import installed_builds
from . import advice
from .questions import JUPYTER, KERNELS, MODULES, Facts, Questions

OK, WARNING, FAILED, NOT_NEEDED = 'ok', 'warning', 'failed', 'not needed'
MXNET_PYTHON = (3, 11)  # the newest with a wheel of MXNet 1.9.1, and the oldest of the course
NEWEST_PYTHON = (3, 13)  # with which the PyTorch chapters were tried
# What the dynamic loader says of a library that it cannot load.
UNLOADABLE = re.compile(r'\b(lib[^\s:/]+\.so[.\d]*): (?:cannot open|file too short|invalid ELF)')


class Row(NamedTuple):
    """One thing that was looked at."""

    name: str  # such as 'MXNet' or 'data mnist'
    verdict: str  # 'ok', 'warning', 'failed' or 'not needed'
    found: str  # what is the case, in a sentence or two
    fix: str = ''  # the command that mends it, to be pasted into a shell


def python(ask: Questions) -> Iterator[Row]:
    """Look at this Python and this system."""
    version = sys.version_info[:2]
    text = f'{platform.python_version()} in {sys.prefix}, {platform.system()} {platform.machine()}'
    if not MXNET_PYTHON <= version <= NEWEST_PYTHON:
        text += '. The course needs 3.11, or 3.11 to 3.13 for chapters 5 to 7 alone.'
        yield Row('Python', FAILED, text, advice.setup())
    elif not advice.mxnet_system():
        text += ': for chapters 5 to 7; MXNet has no build here that we tested'
        yield Row('Python', OK, text)
    elif version > MXNET_PYTHON:
        text += ': for chapters 5 to 7; MXNet ends at Python 3.11'
        yield Row('Python', WARNING, text, advice.setup())
    else:
        yield Row('Python', OK, text)


def numpy(ask: Questions) -> Iterator[Row]:
    """Look at NumPy; whether it is old enough for MXNet is told with MXNet."""
    facts = ask('numpy')
    yield broken('NumPy', facts) if 'error' in facts else Row('NumPy', OK, facts['version'])


def mxnet(ask: Questions) -> Iterator[Row]:
    """Look at which MXNet is installed, whether it loads, and at d2l."""
    builds, facts = installed_builds(), ask('mxnet')
    if facts.get('missing') == 'mxnet' and not builds:
        yield _no_mxnet(ask)
        return
    if 'error' in facts:
        what = f'{builds[0]} is installed, but does not load: ' if builds else 'it does not load: '
        row = broken('MXNet', facts, what)
        no_driver = advice.gpu_build() and 'libcuda.so.1' in facts['error']
        yield row._replace(fix=advice.setup('GPU=0')) if no_driver else row
        return
    kind, name = 'NVIDIA GPUs' if facts['cuda'] else 'CPUs', ' '.join(builds[:1])
    yield Row('MXNet', OK, f'{facts["version"]}, the build for {kind} ({name}); it loads')
    facts = ask('d2l')
    if 'error' not in facts:
        yield Row('d2l', OK, facts['version'])
    elif facts['missing'] in ('d2l', 'd2l.mxnet'):
        text = 'it is not installed; chapter 1 shows its pictures with it'
        yield Row('d2l', WARNING, text, advice.setup(anew=True))
    else:
        yield broken('d2l', facts, 'it does not load: ')._replace(verdict=WARNING)


def _no_mxnet(ask: Questions) -> Row:
    chapters = 'not installed; chapters 1 to 4 need it'
    if not advice.mxnet_system():
        return Row('MXNet', NOT_NEEDED, f'{chapters}, and it has no build for this system')
    if 'error' not in ask('torch'):
        fix = advice.setup('TORCH=1', anew=advice.finished().get('torch') == '1')
        return Row('MXNet', WARNING, f'{chapters}, 5 to 7 do not', fix)
    return Row('MXNet', FAILED, chapters, advice.setup(anew=bool(advice.finished())))


def torch(ask: Questions) -> Iterator[Row]:
    """Look at PyTorch, which chapters 5 to 7 need."""
    facts = ask('torch')
    if facts.get('missing') == 'torch':
        fix = advice.setup('TORCH=1', anew=advice.finished().get('torch') in ('1', 'only'))
        text = 'not installed; chapters 5 to 7 need it, the others do not'
        yield Row('PyTorch', NOT_NEEDED, text, fix)
    elif 'error' in facts:
        yield broken('PyTorch', facts, 'it does not load: ')
    else:
        kind = f'with CUDA {facts["cuda"]}' if facts['cuda'] else 'the build for CPUs'
        yield Row('PyTorch', OK, f'{facts["version"]}, {kind}; it loads')


def packages(ask: Questions) -> Iterator[Row]:
    """Look at the other packages that ours is made with."""
    yield _all_load('packages', {name: ask(name) for name in MODULES})


def jupyter(ask: Questions) -> Iterator[Row]:
    """Look at what opens, runs and tests the notebooks."""
    answers = {name: ask(name) for name in JUPYTER}
    row = _all_load('Jupyter', answers)
    # nbval tests the notebooks; reading and running them needs the others.
    only_nbval = [name for name in JUPYTER if 'error' in answers[name]] == ['nbval']
    yield row._replace(verdict=WARNING) if only_nbval else row


def _all_load(name: str, answers: dict[str, Facts]) -> Row:
    rows = [broken(name, facts, f'{module} does not load: ')
            for module, facts in answers.items() if 'error' in facts]  # fmt: skip
    if rows:
        return rows[0]._replace(found='; '.join(row.found for row in rows))
    return Row(name, OK, ', '.join(f'{one} {facts["version"]}' for one, facts in answers.items()))


def broken(name: str, facts: Facts, what: str = '') -> Row:
    """Make the row of a step that failed: its error, what it means where we know, the mend."""
    error, library = facts['error'], UNLOADABLE.search(facts['error'])
    fix = (library and advice.library(library[1])) or advice.setup(anew=True)
    if library and library[1] != 'libcuda.so.1':  # of which runtime.py has said enough
        error = f'the library {library[1]} is missing or damaged ({error})'
    return Row(name, FAILED, what + error.removeprefix('ImportError: '), fix)


def kernel(ask: Questions) -> Iterator[Row]:
    """Look at the Pythons that the kernels of the notebooks start."""
    pythons = {'Jupyter kernel': sys.executable, 'PyTorch kernel': python_with('torch')}
    for name, what, (title, path) in zip(KERNELS, ('Python 3', 'PyTorch'), pythons.items()):
        if path:
            yield _kernel(title, ask(name), name, what, path)


def _kernel(title: str, facts: Facts, name: str, what: str, python: str) -> Row:
    here = python == sys.executable
    # PyTorch's may be in the environment beside this one, and is registered here.
    prefix = Path(sys.prefix) if here else Path(python).parent.parent
    where = '--sys-prefix' if here else f'--prefix {shlex.quote(sys.prefix)}'
    register = (
        f'{advice.python() if here else shlex.quote(python)} -m ipykernel install {where} '
        f"--name {name} --display-name '{what} (multi-GPU course)'"
    )
    if 'error' in facts:
        return Row(title, FAILED, f"none is registered as '{name}': {facts['error']}", register)
    text = f"'{facts['name']}' in {facts['folder']} starts {facts['program']}"
    if facts['prefix'] is None:
        text += ', which is not there, or is no Python that runs'
    elif Path(facts['prefix']).resolve() != prefix.resolve():
        text += f': the Python of {facts["prefix"]}, and not {"this one" if here else prefix}'
    else:
        return Row(title, OK, text)
    if not Path(facts['folder']).is_relative_to(sys.prefix):  # one elsewhere stands before ours
        asked = os.environ.get('JUPYTER_PATH')
        register = (
            'unset JUPYTER_PATH' if asked else f'export JUPYTER_PREFER_ENV_PATH=1\n{register}'
        )
    return Row(title, FAILED, text, register)
