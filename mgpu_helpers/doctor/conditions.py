"""The cores, the settings, the data, and what a second device brings under these conditions."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from pathlib import Path

from ..data.published import FILES, folder_of, stock
from ..runtime import MALLOC, SETTINGS, TOO_LATE
from . import fixes
from .asking import Questions
from .report import FAILED, NOT_NEEDED, OK, WARNING, Row

CGROUP = Path('/sys/fs/cgroup/cpu.max')
# What another value costs; the figures are those beside the settings themselves (runtime.py).
COSTS = {
    'OMP_NUM_THREADS': 'a stand-in with several threads takes the cores of the others: they take '
    'turns, or wait for each other for ever',
    'MXNET_CPU_TEMP_COPY': 'stand-ins share workspaces and take turns, so that a second one gains '
    'nothing (94 instead of 43 ms a batch)',
    'MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN': 'no gradient travels before the whole backward pass has '
    'ended, and the timeline shows it as one bar',
    'MXNET_CUDNN_AUTOTUNE_DEFAULT': 'on GPUs, the search for algorithms may end differently in '
    'every run',
    'MXNET_ENFORCE_DETERMINISM': 'on GPUs, a run need not repeat bit for bit',
    'NVIDIA_TF32_OVERRIDE': 'on GPUs, float32 may be computed with 10 bits of mantissa',
}
ALLOCATOR = 'every operator gives memory back and asks for it anew (94 instead of 82 ms a batch)'
# Measured: relative differences up to 8e-10 in the first steps, with MXNet and with PyTorch; where
# each device keeps its own gradients, 1e-4 to 2e-4 from the second step on.
CLOSE = 1e-5


def cores(ask: Questions) -> Iterator[Row]:
    """Look at how many CPU cores this process may use, and who limits them."""
    name, facts, there = 'CPU cores', ask('cores'), os.cpu_count() or 1
    if 'error' in facts:
        yield Row(name, FAILED, facts['error'], fixes.setup(anew=True))
        return
    usable = facts['usable']
    why, fix = _limit(there) if usable < there else ('', '')
    found = f'{usable} usable' + f' of {there}{why}' * (usable < there)
    if usable == 1:
        yield Row(name, WARNING, f'{found}: a second stand-in brings no speed', fix)
    else:
        yield Row(name, OK, f'{found}: as many stand-ins work at the same time')


def _limit(there: int) -> tuple[str, str]:
    """Who keeps us from some cores, and what would give two of them."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else there
    if allowed < there:
        return ': the affinity of this process (taskset) allows no more', 'taskset -cp 0,1 $$'
    if CGROUP.exists() and not CGROUP.read_text().startswith('max'):
        docker = f'docker update --cpus 2 {platform.node()}' * Path('/.dockerenv').exists()
        return ': a limit of this container (cpu.max)', docker
    return '', ''


def settings(ask: Questions) -> Iterator[Row]:
    """Look at what MXNet reads when it is loaded, and glibc, which keeps freed memory for it."""
    name, get = 'settings', os.environ.get
    ours = SETTINGS | {variable: str(value) for variable, (_, value) in MALLOC.items()}
    ours['GLIBC_TUNABLES'] = ''  # where it is set, runtime.py leaves the allocator alone
    others = {name: get(name, '') for name, value in ours.items() if get(name, value) != value}
    if TOO_LATE:
        yield Row(
            name,
            WARNING,
            'MXNet was loaded before mgpu_helpers, too late for '
            f'{", ".join(TOO_LATE)}. Import mgpu_helpers first (in a notebook: restart the kernel '
            f'before), or set them in the shell. Until then {COSTS["MXNET_CPU_TEMP_COPY"]}',
            f'export {_listed(TOO_LATE, " ")}',
        )
    elif not others:
        yield Row(name, OK, f'in force: {_listed(SETTINGS)}')
    for variable, value in others.items():
        found = f'{variable} is {value!r} (ours: {ours[variable] or "none"}): '
        found += COSTS.get(variable, ALLOCATOR)
        if variable == 'OMP_NUM_THREADS' and 'MXNET_CPU_TEMP_COPY' not in os.environ:
            found += '. For this reason MXNET_CPU_TEMP_COPY is left out'  # see runtime.prepare
        yield Row(name, WARNING, found, f'unset {variable}')


def _listed(variables: dict[str, str], between: str = ', ') -> str:
    return between.join(f'{name}={value}' for name, value in variables.items())


def data(ask: Questions) -> Iterator[Row]:
    """Look at each set: there and verified, damaged, or missing, and is there room for it?"""
    yield from map(_set, FILES)


def _set(name: str) -> Row:
    folder, (content, bad) = folder_of(name), stock(name)
    missing = [filename for filename in FILES[name] if filename not in {**content, **bad}]
    title, fix = f'data {name}', f'{fixes.python()} -m mgpu_helpers data {name}'
    if not missing and not bad:
        return Row(title, OK, f'{len(content)} files in {folder}, verified')
    if bad:
        found = '; '.join(bad.values()) + f'; missing: {", ".join(missing)}' * bool(missing)
    elif content:
        found = f'{folder} has only a part of it; missing: {", ".join(missing)}'
    else:
        found = f'not in {folder}'
    found += ". Without a network, scikit-learn's digits would stand in for it"
    wanted = sum(known.size for file, known in FILES[name].items() if file not in content)
    obstacle = _obstacle(folder, wanted)
    if obstacle:
        return Row(title, FAILED, f'{found}. {obstacle}', 'export MXNET_HOME="$HOME/mgpu-data"')
    return Row(title, FAILED if bad else WARNING, found, fix)


def _obstacle(folder: Path, wanted: int) -> str:
    """What keeps the files from being put there: no right to write, or no room."""
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        return f'{there} cannot be written'
    free = shutil.disk_usage(there).free
    if free < 2 * wanted:  # a download is complete before it takes the place of another
        return f'The disk has room for {free / 1e6:.0f} MB, and {2 * wanted / 1e6:.0f} are needed'
    return ''


def training(ask: Questions) -> Iterator[Row]:
    """Look at what a second device brings; the last check, so that nothing runs beside it."""
    yield Row('two devices', *_training(ask))


def _training(ask: Questions) -> tuple[str, str, str]:
    framework = next((name for name in ('mxnet', 'torch') if 'error' not in ask(name)), None)
    if framework is None:
        return NOT_NEEDED, 'neither MXNet nor PyTorch loads, so there is nothing to try', ''
    facts = ask(f'train {framework}')
    threads = 'unset OMP_NUM_THREADS' * (os.environ.get('OMP_NUM_THREADS', '1') != '1')
    if 'error' in facts:
        why = f'. {_cause(ask)}' * bool(threads)
        return FAILED, f'the training {facts["error"]}{why}', threads
    label = {'mxnet': 'MXNet', 'torch': 'PyTorch'}[framework]
    losses, ms = facts['losses'], facts['ms']
    if not all(abs(a - b) <= CLOSE * abs(a) for a, b in zip(losses['1'], losses['2'])):
        one, two = ('/'.join(f'{loss:.6f}' for loss in losses[k]) for k in ('1', '2'))
        found = f'{label}: the losses on one device and on two differ: {one} and {two}'
        return FAILED, found, fixes.setup(anew=True)
    found = (
        f'{label} trains {ms["1"] / ms["2"]:.2f} times as fast on {" and ".join(facts["devices"])} '
        f'as on one ({ms["1"]:.0f} and {ms["2"]:.0f} ms a batch, LeNet, {facts["data"]}), '
        'with the same losses'
    )
    if facts['faster']:
        return OK, found, ''
    if not all('cpu' in device for device in facts['devices']):
        return OK, f'{found}. LeNet is too small for GPUs to gain by it', ''
    return WARNING, f'{found}. {_cause(ask)}', threads


def _cause(ask: Questions) -> str:
    """What most probably keeps two stand-ins from being faster than one."""
    usable = ask('cores').get('usable')
    if usable == 1:
        return 'There is one usable core, which both share'
    threads = os.environ.get('OMP_NUM_THREADS')
    if threads != '1':
        return f'OMP_NUM_THREADS is {threads}: they take turns, or wait for each other'
    load = os.getloadavg()[0] if hasattr(os, 'getloadavg') else 0.0
    if usable and load > usable:
        return f'The machine is busy (load {load:.1f} on {usable} cores): try again when it is not'
    return 'Another program, or a processor that slows down when it is warm, may be the cause'
