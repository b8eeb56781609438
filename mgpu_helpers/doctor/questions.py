"""What is tried in processes of its own, because it is heavy or may crash, and who asks them.

``Questions`` starts processes of this module; ``main('numpy', 'mxnet')`` takes these steps there,
and prints what each found as a line of JSON.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import importlib
import importlib.metadata
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from typing import Any

from ..processes import Group, ProcessFailed, python_with

MARK = 'mgpu-doctor: '
# Seconds for what one process is asked. The slowest, the training, took 14 s on two cores at a load
# of 6.6.
LIMIT = 60.0
Facts = dict[str, Any]  # what can be written as JSON

MODULES = ('cloudpickle', 'joblib', 'matplotlib.pyplot', 'requests', 'sklearn', 'tqdm')
JUPYTER = ('ipykernel', 'jupyterlab', 'nbval')
KERNELS = ('python3', 'mgpu-torch')  # by the names that the notebooks know
BY_PYTORCH = ('torch', 'train torch')  # asked of the Python that has PyTorch
# What one process takes: what several need is loaded once, MXNet and PyTorch, whose libraries could
# get in each other's way, are apart, and nothing else runs during a training.
TOGETHER = (
    ('numpy', 'mxnet', 'd2l', *MODULES, 'cores'),
    ('torch',),
    (*JUPYTER, *KERNELS, 'driver'),
)
# What libmxnet.so of mxnet-cu112 1.9.1, the last one, is linked with, as `readelf -d` lists it
# (without the driver's libcuda.so.1), and libcublasLt and libcusparse, which libcublas and
# libcusolver need.
CUDA_LIBRARIES = (
    'libcublas.so.11 libcublasLt.so.11 libcudart.so.11.0 libcudnn.so.8 libcufft.so.10 '
    'libcurand.so.10 libcusolver.so.11 libcusparse.so.11 libnccl.so.2 libnvToolsExt.so.1 '
    'libnvrtc.so.11.2'
).split()


class Questions:
    """Processes that take steps at the same time; leaving the ``with`` block stops them.

    ``ask('numpy')`` gives what a step found, and under ``'error'`` why it did not come to its end.
    """

    def __init__(self) -> None:
        self._answers: dict[str, Facts] = {}
        self._asked: dict[str, tuple[Group, tuple[str, ...]]] = {}

    def __enter__(self) -> Questions:
        return self

    def __exit__(self, *error: object) -> None:
        for group, _ in self._asked.values():
            group.stop()

    def start(self, steps: Iterable[str]) -> None:
        """Start the processes that take these steps, without waiting for them."""
        for together in TOGETHER:
            with contextlib.suppress(OSError):  # no more processes: whoever asks will be told
                self._start(*(step for step in together if step in steps))

    def _start(self, *steps: str) -> None:
        if not steps:
            return
        python, code = (steps[0] in BY_PYTORCH and python_with('torch')) or sys.executable, ''
        if python == sys.executable:  # what is broken here shall be broken there
            code = f'import sys; sys.path[:] = {sys.path!r}; '
        code += f'from mgpu_helpers.doctor import questions; questions.main(*{steps})'
        group = Group()
        group.start(', '.join(steps), [python, '-W', 'ignore', '-c', code])
        self._asked.update(dict.fromkeys(steps, (group, steps)))

    def __call__(self, step: str) -> Facts:
        while step not in self._answers:
            if step not in self._asked:
                self._start(step)
            self._wait(*self._asked[step])
        return self._answers[step]

    def _wait(self, group: Group, steps: tuple[str, ...]) -> None:
        """Note what a process finds; the steps after one that ended it get another process."""
        left = list(steps)

        def listen(_: str, line: str) -> bool:
            if line.startswith(MARK):
                self._answers[left.pop(0)] = json.loads(line[len(MARK) :])
            return line.startswith(MARK) or not line.strip()

        end = 'its process said nothing'
        try:
            group.wait(on_line=listen, timeout=LIMIT)
        except TimeoutError:
            end = f'did not end within {LIMIT:.0f} s'
            group.stop()
        except ProcessFailed as failure:
            words = str(failure).split('\n')[0].removeprefix(failure.name).strip()
            lines = [line.strip() for line in group.members[0].lines]
            # A signal has no last words of its own; an exit status has a traceback's last line.
            end = f'its process {words}' + (
                f': {lines[-1]}' if failure.status > 0 and lines else ''
            )
        if left:
            self._answers[left[0]] = {'error': end, 'missing': None}
            self._start(*left[1:])


# --- In the process that is asked -----------------------------------------------------------------


def main(*steps: str) -> None:
    """Take steps, each by itself: an error in one does not stop the next."""
    for step in steps:
        try:
            facts = take(step)
        except BaseException as error:
            missing = error.name if isinstance(error, ModuleNotFoundError) else None
            facts = {'error': last_line(error), 'missing': missing}
        print(f'\n{MARK}{json.dumps(facts)}', flush=True)
    os._exit(0)  # what the libraries would still do now is of no interest


def take(step: str) -> Facts:
    """Take a step: a function below, the training of a framework, a kernel, or an import."""
    if step.startswith('train '):
        return train(step.removeprefix('train '))
    if step in KERNELS:
        return kernel(step)
    own = {'numpy': numpy, 'mxnet': mxnet, 'd2l': d2l, 'torch': torch}
    own |= {'driver': driver, 'libraries': libraries, 'cores': cores}
    return own[step]() if step in own else version_of(step)


def last_line(error: BaseException) -> str:
    """Put an error into one line.

    >>> last_line(ValueError('a', 'b')), last_line(KeyError())
    ("ValueError: ('a', 'b')", 'KeyError')
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return ': '.join([type(error).__name__, *lines[-1:]])


def version_of(name: str) -> Facts:
    """Import a module."""
    # jsonschema does without it, and its grammar takes half of JupyterLab's import (1 of 2 s).
    sys.modules.setdefault('rfc3987_syntax', None)  # type: ignore[arg-type]
    module = importlib.import_module(name)
    return {'version': str(getattr(module, '__version__', 'of no known version'))}


def numpy() -> Facts:
    """Multiply: an import alone does not load its libraries."""
    np = importlib.import_module('numpy')
    np.ones(2) @ np.ones(2)
    return {'version': importlib.metadata.version('numpy')}  # as runtime.py asks for it


def mxnet() -> Facts:
    """Load it, with which build, and compute."""
    mx = importlib.import_module('mxnet')
    cuda = mx.runtime.Features().is_enabled('CUDA')
    mx.nd.ones(2).asnumpy()
    return {**version_of('mxnet'), 'cuda': cuda}


def d2l() -> Facts:
    """Load the part that the course uses."""
    importlib.import_module('d2l.mxnet')
    return version_of('d2l')


def torch() -> Facts:
    """Load it; for which GPUs does it have code, and how many can it use?"""
    module = importlib.import_module('torch')
    module.ones(2).numpy()
    names = [arch.split('_')[1] for arch in module.cuda.get_arch_list() if arch.startswith('sm_')]
    return {
        **version_of('torch'),
        'cuda': module.version.cuda,
        'capabilities': [divmod(int(name.rstrip('af')), 10) for name in names],
        'gpus': module.cuda.device_count() if module.cuda.is_available() else 0,
    }


def driver() -> Facts:
    """Ask NVIDIA's driver."""
    from ..devices.driver import ask_driver, driver_gpus

    try:
        cuda, refusal = ask_driver()
    except OSError as error:
        return {'absent': str(error)}
    gpus = [dataclasses.asdict(gpu) for gpu in driver_gpus()]
    return {'cuda': cuda, 'refusal': refusal, 'gpus': gpus}


def libraries() -> Facts:
    """Of each CUDA library of MXNet's GPU build: why it does not load, or nothing."""
    from .. import runtime

    def trouble(name: str, mode: int = ctypes.DEFAULT_MODE) -> str:
        try:
            ctypes.CDLL(name, mode)
        except OSError as error:
            return str(error)
        return ''

    trouble('libcuda.so.1', ctypes.RTLD_GLOBAL)  # of which there is a row of its own
    runtime.load_wheels()
    return {name: trouble(name) for name in CUDA_LIBRARIES}


def cores() -> Facts:
    """Count the cores that this process may use."""
    from ..devices.cores import usable_cores

    return {'usable': usable_cores()}


def kernel(name: str) -> Facts:
    """Find a kernel that notebooks of the course ask for, and the Python that it starts."""
    from jupyter_client.kernelspec import KernelSpecManager

    spec = KernelSpecManager().get_kernel_spec(name)
    command = [spec.argv[0], '-c', 'import sys; print(sys.prefix)']
    prefix = None
    with contextlib.suppress(OSError, subprocess.CalledProcessError, IndexError):
        output = subprocess.check_output(command, text=True, env=os.environ | spec.env)
        prefix = output.splitlines()[-1]
    about = {'name': spec.display_name, 'folder': spec.resource_dir, 'program': spec.argv[0]}
    return {**about, 'prefix': prefix}


# Batches of 256 in a round; rounds on one device and on two in turn, of which the fastest counts:
# of ten medians of three rounds one said 0.96 where the next said 1.8.
STEPS, ROUNDS = 4, 5


def train(framework: str) -> Facts:
    """Train LeNet on one device and on two, in turn, with 'mxnet' or 'torch'.

    Gives the ``losses`` of the first steps and the ``ms`` a batch, each by number of devices; the
    ``devices`` and the ``data``.
    """
    mgpu = importlib.import_module(f'mgpu_helpers{".pytorch" if framework == "torch" else ""}')
    batches, source = some_batches(mgpu)
    both = mgpu.devices(2)
    replicas: dict[int, list] = {}
    losses: dict[int, list[float]] = {}

    def step(k: int, X: Any, y: Any) -> list:
        return mgpu.train_batch(X, y, replicas[k], both[:k], 0.2)

    for k in (1, 2):  # these steps warm up, too
        replicas[k] = [mgpu.get_params(mgpu.init_params(seed=0), d) for d in both[:k]]
        losses[k] = [float(mgpu.total_loss([step(k, X, y)])) / len(X) for X, y in batches]
    seconds: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(ROUNDS):
        for k in (1, 2):
            began = time.perf_counter()
            for X, y in batches:
                step(k, X, y)
            if framework == 'mxnet':
                importlib.import_module('mxnet').nd.waitall()
            else:
                mgpu.synchronize(both)
            seconds[k].append(time.perf_counter() - began)
    ms = {k: min(rounds) / len(batches) * 1000 for k, rounds in seconds.items()}
    return {'losses': losses, 'ms': ms, 'devices': [str(d) for d in both], 'data': source}


def some_batches(mgpu: Any) -> tuple[list, str]:
    """Give some batches of the real data, or of the digits; nothing is downloaded."""
    from ..data.published import FILES, folder_of, stock
    from ..data.sets import STOOD_IN, dataset

    there = [name for name in FILES if len(stock(name)[0]) == len(FILES[name])]
    name = there[0] if there else next(iter(FILES))
    if not there:
        os.environ[STOOD_IN] = str(folder_of(name))
    load = getattr(mgpu, f'load_data_{name.replace("-", "_")}')
    batches, _ = load(256, num_examples=STEPS * 256, seed=0)
    return list(batches), name if dataset(name).source == 'files' else "scikit-learn's digits"
