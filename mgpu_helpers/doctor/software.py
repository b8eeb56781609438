"""Python, NumPy, MXNet, d2l, PyTorch, Jupyter: installed, the right ones, and do they load?"""

from __future__ import annotations

import os
import platform
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from ..processes import python_with
from ..runtime import installed_builds
from . import fixes
from .asking import Questions
from .probes import JUPYTER, KERNELS, MODULES, Facts
from .report import FAILED, NOT_NEEDED, OK, WARNING, Row

MXNET_PYTHON = (3, 11)  # the newest with a wheel of MXNet 1.9.1, and the oldest of the course
NEWEST_PYTHON = (3, 13)  # with which the PyTorch chapters were tried
DRIVER = 'libcuda.so.1'
# What the dynamic loader says of a library that it cannot load.
UNLOADABLE = re.compile(r'\b(lib[^\s:/]+\.so[.\d]*): (?:cannot open|file too short|invalid ELF)')


def python(ask: Questions) -> Iterator[Row]:
    """Look at this Python and this system."""
    version = sys.version_info[:2]
    found = f'{platform.python_version()} in {sys.prefix}, {platform.system()} {platform.machine()}'
    verdict, fix = OK, ''
    if not MXNET_PYTHON <= version <= NEWEST_PYTHON:
        found += '. The course needs 3.11, or 3.11 to 3.13 for chapters 5 to 7 alone.'
        verdict, fix = FAILED, fixes.setup()
    elif not fixes.mxnet_system():
        found += ': for chapters 5 to 7; MXNet has no build here that we tested'
    elif version > MXNET_PYTHON:
        found += ': for chapters 5 to 7; MXNet ends at Python 3.11'
        verdict, fix = WARNING, fixes.setup()
    yield Row('Python', verdict, found, fix)


def numpy(ask: Questions) -> Iterator[Row]:
    """Look at NumPy; whether it is old enough for MXNet is told with MXNet."""
    facts = ask('numpy')
    if 'error' in facts:
        yield Row('NumPy', FAILED, _error(facts), _fix(facts))
    else:
        yield Row('NumPy', OK, facts['version'])


def mxnet(ask: Questions) -> Iterator[Row]:
    """Look at which MXNet is installed, whether it loads, and at d2l."""
    builds, facts = installed_builds(), ask('mxnet')
    if facts.get('missing') == 'mxnet' and not builds:
        yield _no_mxnet(ask)
        return
    elif 'error' in facts:
        what = f'{builds[0]} is installed, but does not load: ' if builds else 'it does not load: '
        no_driver = fixes.gpu_build() and DRIVER in facts['error']
        fix = fixes.setup('GPU=0') if no_driver else _fix(facts)
        yield Row('MXNet', FAILED, what + _error(facts), fix)
        return
    else:
        kind = 'for NVIDIA GPUs' if facts['cuda'] else 'for CPUs'
        name = builds[0] if builds else 'not from a wheel'
        yield Row('MXNet', OK, f'{facts["version"]}, the build {kind} ({name}); it loads')
    facts = ask('d2l')
    if 'error' not in facts:
        yield Row('d2l', OK, facts['version'])
    elif facts['missing'] in ('d2l', 'd2l.mxnet'):
        found = 'it is not installed; chapter 1 shows its pictures with it'
        yield Row('d2l', WARNING, found, fixes.setup(anew=True))
    else:
        yield Row('d2l', WARNING, f'it does not load: {_error(facts)}', _fix(facts))


def _no_mxnet(ask: Questions) -> Row:
    chapters = 'not installed; chapters 1 to 4 need it'
    if not fixes.mxnet_system():
        return Row('MXNet', NOT_NEEDED, f'{chapters}, and it has no build for this system')
    if 'error' not in ask('torch'):
        fix = fixes.setup('TORCH=1', anew=fixes.finished().get('torch') == '1')
        return Row('MXNet', WARNING, f'{chapters}, 5 to 7 do not', fix)
    return Row('MXNet', FAILED, chapters, fixes.setup(anew=bool(fixes.finished())))


def torch(ask: Questions) -> Iterator[Row]:
    """Look at PyTorch, which chapters 5 to 7 need."""
    facts = ask('torch')
    if facts.get('missing') == 'torch':
        fix = fixes.setup('TORCH=1', anew=fixes.finished().get('torch') in ('1', 'only'))
        found = 'not installed; chapters 5 to 7 need it, the others do not'
        yield Row('PyTorch', NOT_NEEDED, found, fix)
    elif 'error' in facts:
        yield Row('PyTorch', FAILED, f'it does not load: {_error(facts)}', _fix(facts))
    else:
        kind = f'with CUDA {facts["cuda"]}' if facts['cuda'] else 'the build for CPUs'
        yield Row('PyTorch', OK, f'{facts["version"]}, {kind}; it loads')


def packages(ask: Questions) -> Iterator[Row]:
    """Look at the other packages that ours is made with."""
    good = ', '.join(name.split('.')[0] for name in MODULES) + ': all load'
    yield _all_load('packages', {name: ask(name) for name in MODULES}, good)


def jupyter(ask: Questions) -> Iterator[Row]:
    """Look at what opens, runs and tests the notebooks."""
    answers = {name: ask(name) for name in JUPYTER}
    good = ', '.join(f'{name} {facts.get("version")}' for name, facts in answers.items())
    row = _all_load('Jupyter', answers, good)
    # nbval tests the notebooks; reading and running them needs the others.
    only_nbval = [name for name in JUPYTER if 'error' in answers[name]] == ['nbval']
    yield row._replace(verdict=WARNING) if only_nbval else row


def _all_load(name: str, answers: dict[str, Facts], good: str) -> Row:
    troubles = {module: facts for module, facts in answers.items() if 'error' in facts}
    if not troubles:
        return Row(name, OK, good)
    found = '; '.join(f'{module} does not load: {_error(f)}' for module, f in troubles.items())
    return Row(name, FAILED, found, _fix(next(iter(troubles.values()))))


def kernel(ask: Questions) -> Iterator[Row]:
    """Look at the Pythons that the kernels of the notebooks start."""
    yield _kernel(ask, 'kernel', 'Jupyter kernel', 'Python 3', sys.executable)
    if python := python_with('torch'):
        yield _kernel(ask, 'kernel of PyTorch', 'PyTorch kernel', 'PyTorch', python)


def _kernel(ask: Questions, step: str, title: str, what: str, python: str) -> Row:
    facts, name = ask(step), KERNELS[step]
    prefix, where, here = Path(sys.prefix), '--sys-prefix', python == sys.executable
    if not here:  # PyTorch's, in the environment beside this one
        prefix, where = Path(python).parent.parent, f'--prefix {shlex.quote(sys.prefix)}'
    register = (
        f'{fixes.python() if here else shlex.quote(python)} -m ipykernel install {where} '
        f"--name {name} --display-name '{what} (multi-GPU course)'"
    )
    if 'error' in facts:
        return Row(title, FAILED, f"none is registered as '{name}': {facts['error']}", register)
    found = f"'{facts['name']}' in {facts['folder']} starts {facts['program']}"
    if facts['prefix'] is None:
        found += ', which is not there, or is no Python that runs'
    elif Path(facts['prefix']).resolve() != prefix.resolve():
        found += f': the Python of {facts["prefix"]}, and not {"this one" if here else prefix}'
    else:
        return Row(title, OK, found)
    inside = Path(facts['folder']).is_relative_to(sys.prefix)
    if os.environ.get('JUPYTER_PATH') and not inside:
        register = 'unset JUPYTER_PATH'
    elif not inside:  # one in the user's home stands before ours
        register = f'export JUPYTER_PREFER_ENV_PATH=1\n{register}'
    return Row(title, FAILED, found, register)


def _error(facts: Facts) -> str:
    """An error of a step in a line, with what it means where we know."""
    library = UNLOADABLE.search(facts['error'])
    if library and library[1] != DRIVER:  # of which runtime.py has said enough
        return f'the library {library[1]} is missing or damaged ({facts["error"]})'
    return facts['error'].removeprefix('ImportError: ')


def _fix(facts: Facts) -> str:
    library = UNLOADABLE.search(facts['error'])
    return (library and fixes.library(library[1])) or fixes.setup(anew=True)
