"""Check what this machine can do, and name the command that fixes what is wrong.

``python -m mgpu_helpers doctor`` asks each question in its own process, all at the same time, so it
ends within seconds even if a package, a framework or the driver crashes or hangs.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, NamedTuple

import click
from tabulate import tabulate

from .processes import python_with
from .runtime import SETTINGS, installed_builds

OK, WARNING, FAILED, NOT_NEEDED = 'ok', 'warning', 'failed', 'not needed'
NEEDED_BY = {'mxnet': 'chapters 1 to 4', 'torch': 'chapters 5 to 9'}
MODULES = {'scikit-learn': 'sklearn', 'matplotlib': 'matplotlib.pyplot'}  # names to import
MARK, MISSING = 'doctor row: ', 'not installed'  # printed by a question's process


class Row(NamedTuple):
    """A check, its result, and the command that fixes it."""

    check: str
    verdict: str  # 'ok', 'warning', 'failed' or 'not needed'
    found: str
    mend: str = ''


def _setup(choice: str = '') -> str:
    """Return the command that rebuilds the environment."""
    if os.environ.get('CONDA_PREFIX') == sys.prefix:
        return 'conda env update -f environment.yml'
    return f'rm -rf .venv && make setup {choice}'.rstrip()


def _say(what: str) -> None:
    """Print what is checked next, so that a crash's message follows it."""
    print(f'\n{what}: ', end='', flush=True)


def packages() -> Iterator[Row]:
    """Is this the course's Python, with the packages that the notebooks need?"""
    found = f'{platform.python_version()} in {sys.prefix}, {platform.system()} {platform.machine()}'
    good = (3, 11) <= sys.version_info[:2] <= (3, 13)  # MXNet supports 3.11 at most
    yield Row('Python', OK if good else FAILED, found, '' if good else _setup())
    lines = metadata.requires('mgpu-helpers') or []
    needed = [line for line in lines if 'extra ==' not in line or re.search('.notebooks.$', line)]
    names = [re.split(r'[^\w-]', line)[0] for line in needed] + ['d2l'] * bool(installed_builds())
    # jsonschema works without it, and its grammar takes most of JupyterLab's import time.
    sys.modules['rfc3987_syntax'] = None  # type: ignore[assignment]
    versions = []
    for name in names:
        _say(f'import {name}')
        import_module(MODULES.get(name, name.replace('-', '_')))
        versions.append(f'{name} {metadata.version(name)}')
    yield Row('packages', OK, ', '.join(versions))


def mxnet() -> Iterator[Row]:
    """Is MXNet installed, does it load and train, and does it use the GPUs?"""
    _say('import mxnet')
    mx, mgpu = import_module('mxnet'), import_module('mgpu_helpers')
    for_gpus, both = mx.runtime.Features().is_enabled('CUDA'), mgpu.devices(2)
    replicas = [mgpu.get_params(mgpu.init_params(seed=0), device) for device in both]
    batch = mx.nd.ones((256, 1, 28, 28)), mx.nd.zeros(256), replicas, both, 0.1
    step = lambda: mgpu.total_loss([mgpu.train_batch(*batch)])  # noqa: E731
    yield _train('MXNet', mx, for_gpus, f'{both[0]} and {both[1]}', step)


def torch() -> Iterator[Row]:
    """Is PyTorch installed, does it load and train, and does it use the GPUs?"""
    _say('import torch')
    torch = import_module('torch')
    from .pytorch import build_lenet, init_params, loss, this_device

    net = build_lenet(init_params(seed=0)).to(here := this_device())
    X, y = torch.ones(256, 1, 28, 28).to(here), torch.zeros(256).long().to(here)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)

    def step() -> float:
        optimizer.zero_grad()
        (l := loss(net(X), y).mean()).backward()
        optimizer.step()
        return l.item()

    yield _train('PyTorch', torch, torch.cuda.is_available(), str(here), step)


def _train(name: str, module: Any, for_gpus: bool, where: str, step: Callable[[], float]) -> Row:
    """Train LeNet for a second by calling ``step``, which returns the loss; return the row."""
    from .devices.driver import driver_gpus, has_code

    _say('train for a second')
    losses, end = list[float](), time.monotonic() + 1
    while len(losses) < 2 or time.monotonic() < end:
        losses.append(step())
    if not losses[-1] < losses[0]:
        raise ArithmeticError(f'the loss went from {losses[0]:.3f} to {losses[-1]:.3f}')
    found = f'{module.__version__} for {"GPUs" if for_gpus else "CPUs"}, '
    found += f'trains on {where}: {len(losses)} steps in a second'
    usable = ', '.join(str(gpu) for gpu in driver_gpus() if name == 'PyTorch' or has_code(gpu))
    if for_gpus or not usable:
        return Row(name, OK, found)
    return Row(name, WARNING, f'{found}; a build for GPUs could use {usable}', 'make setup GPU=1')


def kernels() -> Iterator[Row]:
    """Do the notebooks' kernels start the right Python?"""
    from jupyter_client.kernelspec import KernelSpecManager

    pythons = {'python3': sys.executable, 'mgpu-torch': python_with('torch')}
    for name, path in {name: path for name, path in pythons.items() if path}.items():
        _say(f'start the kernel {name}')
        spec = KernelSpecManager().get_kernel_spec(name)
        command = [spec.argv[0], '-c', 'import sys; print(sys.prefix)']
        prefix = subprocess.check_output(command, text=True, timeout=5, env=os.environ | spec.env)
        found = f'{spec.resource_dir} starts the Python of {prefix.strip()}'
        if Path(prefix.strip()).resolve() == Path(path).parent.parent.resolve():
            yield Row(f'kernel {name}', OK, found)
        else:
            mend = 'unset JUPYTER_PATH' if 'JUPYTER_PATH' in os.environ else _setup()
            yield Row(f'kernel {name}', FAILED, f"{found}, not the course's Python", mend)


def gpus() -> Iterator[Row]:
    """Which GPUs does NVIDIA's driver report?"""
    from .devices.driver import ask_driver, driver_gpus

    try:
        (major, minor), refusal = ask_driver()
    except OSError as error:
        found = f'no driver ({error}): CPU cores stand in. If there is a GPU, install its driver'
        yield Row('GPUs', NOT_NEEDED, f'{found}; in a container: docker run --gpus all')
        return
    listed = '; '.join(f'{gpu}, {gpu.memory / 2**30:.0f} GiB' for gpu in driver_gpus())
    if listed:
        yield Row('GPUs', OK, f'{listed}; the driver supports CUDA {major}.{minor}')
    else:
        hidden = 'CUDA_VISIBLE_DEVICES' in os.environ
        mend = 'unset CUDA_VISIBLE_DEVICES' if hidden else 'sudo reboot'
        yield Row('GPUs', WARNING, f'the driver reports none (cuInit returned {refusal})', mend)


def data() -> Iterator[Row]:
    """Are the data sets there, and are they the published files?"""
    from .data.published import FILES, folder_of, verified

    for name, files in FILES.items():
        folder, good = folder_of(name), verified(name)
        bad = [file for file in files if file not in good and (folder / file).exists()]
        found = f'{len(good)} of {len(files)} files in {folder}, verified'
        if len(good) == len(files):
            yield Row(f'data {name}', OK, found)
        else:
            found += f'; damaged: {", ".join(bad)}' if bad else '; the digits are used instead'
            mend = shlex.join([sys.executable, '-m', 'mgpu_helpers', 'data', name])
            yield Row(f'data {name}', FAILED if bad else WARNING, found, mend)


def cores() -> Iterator[Row]:
    """How many stand-ins can work at the same time, and does a setting prevent it?"""
    from .devices.driver import usable_cores

    few = '' if usable_cores() > 1 else ': two stand-ins share one, without a speed-up'
    yield Row('cores', WARNING if few else OK, f'{usable_cores()} usable of {os.cpu_count()}{few}')
    for name, value in SETTINGS.items():
        if (other := os.environ.get(name, value)) != value:
            found = f'{name} is {other}, the course sets {value}: stand-ins may take turns, or hang'
            yield Row('settings', WARNING, found, f'unset {name}')


QUESTIONS = {one.__name__: one for one in (packages, mxnet, torch, kernels, gpus, data, cores)}


def answer(name: str) -> None:
    """Print the rows that answer a question; then end this process at once."""
    try:
        for row in QUESTIONS[name]():
            print(f'\n{MARK}{json.dumps(row)}', flush=True)
    except BaseException as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == name
        words = MISSING if missing else f'{type(error).__name__}: {error}'
        print(' '.join(words.split()), flush=True)
        os._exit(1)
    os._exit(0)  # skip the libraries' cleanup


def ask(name: str, seconds: float) -> list[Row]:
    """Ask a question in a new process; if that fails, the last row says how it ended."""
    python = (name == 'torch' and python_with('torch')) or sys.executable
    code = f'from mgpu_helpers import doctor; doctor.answer({name!r})'
    command = [python, '-W', 'ignore', '-c', code]
    with tempfile.TemporaryFile() as output:
        to: Any = {'stdin': subprocess.DEVNULL, 'stdout': output, 'stderr': output}
        try:
            status = subprocess.run(command, timeout=seconds, **to).returncode
        except subprocess.TimeoutExpired:
            status = None
        output.seek(0)
        lines = [line.strip() for line in output.read().decode(errors='replace').splitlines()]
    rows = [Row(*json.loads(line[len(MARK) :])) for line in lines if line.startswith(MARK)]
    last = ''.join([line for line in lines if line and not line.startswith(MARK)][-1:])
    if status == 0:
        return rows
    if last.endswith(MISSING):
        verdict = NOT_NEEDED if any(map(python_with, NEEDED_BY)) else FAILED
        return [Row(name, verdict, f'{MISSING}; {NEEDED_BY[name]} need it', _setup('TORCH=1'))]
    mend = _setup('GPU=0' if 'libcuda.so.1' in last else '')
    if status is None:
        last += f' no answer after {seconds:g} s: it hangs, or this machine is busy'
        mend = "make doctor DOCTOR_ARGS='--seconds 60'"
    elif status < 0:
        last += f' killed by signal {-status}, {signal.strsignal(-status)}'
    return [*rows, Row(name, FAILED, last or 'it printed nothing', mend)]


@click.command()
@click.option('--seconds', default=10.0, show_default=True, help='How long to wait for answers.')
def doctor(seconds: float) -> None:
    """Say what this machine can do, what is wrong, and which command fixes it.

    Run the commands in the folder of the course. The exit status is 1 if a check failed.
    """
    with ThreadPoolExecutor(len(QUESTIONS)) as pool:
        rows = sum(pool.map(lambda name: ask(name, seconds), QUESTIONS), [])
    cells = []
    for name, verdict, found, mend in rows:
        text = textwrap.fill(found, 66, break_on_hyphens=False)  # do not break a command
        cells.append([name, verdict, f'{text}\n-> {mend}' if mend else text])
    table = tabulate(cells, ['check', 'verdict', 'finding -> fix'])
    click.echo(re.sub('-{67,}', '-' * 66, table))  # shorter than the longest command
    sys.exit(any(row.verdict == FAILED for row in rows))
