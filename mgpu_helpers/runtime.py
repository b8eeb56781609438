"""What must be true before MXNet loads: threads, workspaces, memory, NVIDIA's libraries.

``prepare()`` runs when ``mgpu_helpers`` is imported. It sets what the engine reads at load time and
leaves a check in Python's import system, so that ``import mxnet`` - here, in a notebook, in d2l -
first finds a machine on which it can work, or one sentence that says what to do.
"""

from __future__ import annotations

import ctypes
import importlib.abc
import importlib.machinery
import os
import pathlib
import signal
import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .processes import failing

if TYPE_CHECKING:
    from types import ModuleType

# Why each, measured on two cores with LeNet, batch 256 (milliseconds a batch, 1 and 2 stand-ins):
# MXNet's defaults give 82 and 94, so a second device gains nothing; all of these, 81 and 43.
SETTINGS = {
    # One stand-in device is one core. With two OpenMP threads each, OpenBLAS on two devices at
    # once did not finish in ten minutes.
    'OMP_NUM_THREADS': '1',
    # All mx.cpu(i) share 4 temporary workspaces by default, and the engine makes operators that
    # share one wait for each other: the devices take turns. 64 leave each operator its own.
    'MXNET_CPU_TEMP_COPY': '64',
    # By default up to 15 operators are handed out as one, in a backward pass or a compiled network.
    # No gradient is there before all of these are, so none can travel while the rest is computed,
    # and a profiler sees one bar. One by one is as fast, 28.4 and 28.2 ms a batch with and without
    # for LeNet from scratch on two stand-ins, 28.4 and 28.7 in Gluon, 267 and 267 for ResNet-18
    # (best of four).
    'MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN': '0',
    # The course says that a run repeats bit for bit and that float32 is float32. So on GPUs: no
    # search for algorithms (it prints on stderr and may end differently in every run), none that
    # add in the order in which threads finish, and no TensorFloat-32 (10 bits of mantissa instead
    # of 23) behind our back. From the documentation of MXNet and NVIDIA; not measured by us.
    'MXNET_CUDNN_AUTOTUNE_DEFAULT': '0',
    'MXNET_ENFORCE_DETERMINISM': '1',
    'NVIDIA_TF32_OVERRIDE': '0',
}

# glibc gives large blocks back to the kernel and asks for them anew at every operator: 490,000 page
# faults in 55 batches, 94 against 82 ms a batch. So: keep freed memory (trim threshold), never map
# blocks apart (mmap threshold, 32 MiB is glibc's largest; nothing above it either), grow in steps.
MALLOC = {
    'MALLOC_TRIM_THRESHOLD_': (-1, 2**31 - 1),
    'MALLOC_TOP_PAD_': (-2, 64 * 2**20),
    'MALLOC_MMAP_THRESHOLD_': (-3, 32 * 2**20),
    'MALLOC_MMAP_MAX_': (-4, 0),
}

TOO_LATE: dict[str, str] = {}  # what prepare() would have set, had MXNet not been there already

NUMPY_LIMIT = (1, 24)  # MXNet 1.9.1 uses np.bool, which NumPy 1.24 removed


def prepare() -> None:
    """Set what MXNet reads when it loads, and check the machine when it is about to load.

    Values that the user set in the environment stay as they are. Called when the package is
    imported; calling it again changes nothing.
    """
    missing = {name: value for name, value in SETTINGS.items() if name not in os.environ}
    if _several_threads():
        # Two devices at once, each with several OpenMP threads, wait for each other for ever. With
        # MXNet's own workspaces they take turns: 52 ms a batch, and it ends.
        missing.pop('MXNET_CPU_TEMP_COPY', None)
    if sys.modules.get('mxnet') is not None and missing:
        TOO_LATE.update(missing)
        listed = ' '.join(f'{name}={value}' for name, value in missing.items())
        warnings.warn(
            'MXNet was imported before mgpu_helpers, so these settings come too late and stand-in '
            f'devices will take turns: {listed}. Restart the kernel and import mgpu_helpers '
            'before mxnet, or set them in the shell.',
            RuntimeWarning,
            stacklevel=2,
        )
    else:
        os.environ.update(missing)
    _keep_freed_memory()
    if 'mxnet' in sys.modules and sys.platform != 'win32':
        _take_faults_back()
    if not any(isinstance(finder, _BeforeMXNet) for finder in sys.meta_path):
        sys.meta_path.insert(0, _BeforeMXNet())
    if os.environ.get('DMLC_ROLE') == 'worker':
        failing.end_without_waiting()


def _several_threads() -> bool:
    """Tell whether the user asked for more than one OpenMP thread."""
    return os.environ.get('OMP_NUM_THREADS', '1') != '1'


def _keep_freed_memory() -> None:
    """Tell glibc to keep freed blocks for the next operator, where there is a glibc."""
    if sys.platform == 'win32':
        return  # where ctypes.CDLL(None), the program itself, is an error
    mallopt = getattr(ctypes.CDLL(None), 'mallopt', None)
    if mallopt is None or 'GLIBC_TUNABLES' in os.environ:
        return
    for variable, (option, value) in MALLOC.items():
        if variable not in os.environ:
            mallopt(option, value)


def give_back_memory() -> None:
    """Give freed blocks back to the kernel once, after work that needed far more than the rest."""
    if sys.platform != 'win32' and hasattr(libc := ctypes.CDLL(None), 'malloc_trim'):
        libc.malloc_trim(0)


class _BeforeMXNet(importlib.abc.MetaPathFinder):
    """Find nothing, but check the machine just before somebody else finds MXNet.

    Only of its part that loads the library we find the file, to see to its faults.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname == 'mxnet':
            check_mxnet()
        model = sys.modules.get('mxnet.model')
        if fullname == 'sklearn' and model and not hasattr(model, 'FeedForward'):
            # For the base of a class that MXNet has given up, it would import scikit-learn where
            # there is one: 0.5 of 1.7 s of a core, in each of a cluster's processes.
            raise ModuleNotFoundError('not while MXNet loads', name=fullname)
        if fullname != 'mxnet.base' or sys.platform == 'win32':
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(fullname, spec.loader.path)
        return spec


# At a segmentation fault MXNet's own handler, the only one that it installs, prints and calls
# `exit`. That frees what is in use and waits for threads that may be the ones at fault: a worker
# hung there for 90 s and more. So a fault ends the process as if MXNet were not there, at once.
class _Loader(importlib.machinery.SourceFileLoader):
    """Runs ``mxnet.base``, and gives SIGSEGV back to whom it was before, such as faulthandler."""

    def exec_module(self, module: ModuleType) -> None:
        before = _action(signal.SIGSEGV)
        # One that is sent meanwhile waits; a real fault ends a process that blocks it.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGSEGV])
        try:
            super().exec_module(module)
        finally:
            _action(signal.SIGSEGV, before)
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _action(number: int, new: Any = None) -> Any:
    """Read, and perhaps set, what a signal does: C's ``struct sigaction``, whatever is in it."""
    old = ctypes.create_string_buffer(256)  # the struct takes 152 bytes on Linux
    ctypes.CDLL(None).sigaction(int(number), new, old)
    return old


def _take_faults_back() -> None:
    """Take SIGSEGV from an MXNet that was there before us."""
    handler = ctypes.c_void_p.from_buffer(_action(signal.SIGSEGV))  # the struct's first part
    place = (ctypes.c_char_p * 4)()  # dladdr's answer; the first is the library's file
    if ctypes.CDLL(None).dladdr(handler, place) and b'libmxnet' in (place[0] or b''):
        # MXNet leaves SIGBUS alone, and faulthandler treats the two alike.
        _action(signal.SIGSEGV, _action(signal.SIGBUS))


def check_mxnet() -> None:
    """Raise if MXNet cannot work here; first load the NVIDIA wheels that its GPU build needs."""
    builds = installed_builds()
    if not builds and importlib.machinery.PathFinder.find_spec('mxnet') is None:
        raise ModuleNotFoundError(
            "MXNet is not installed in this Python. Run 'make setup' and use its environment, "
            "or install the CPU build: pip install 'mgpu-helpers[cpu]'.",
            name='mxnet',
        )
    if len(builds) > 1:
        raise ImportError(
            f'{" and ".join(builds)} are both installed and overwrite each other. Keep one: '
            f'pip uninstall -y {" ".join(builds)}, then install the one that you want.'
        )
    _check_numpy()
    if _several_threads():
        risk = 'take turns'
        if 'MXNET_CPU_TEMP_COPY' in os.environ:
            risk = 'may wait for each other for ever (MXNET_CPU_TEMP_COPY is set, too)'
        warnings.warn(
            f'OMP_NUM_THREADS is {os.environ["OMP_NUM_THREADS"]}, so stand-in devices {risk} '
            'instead of working at the same time. On GPUs it does not matter. To let each stand-in '
            'be one core: unset OMP_NUM_THREADS, then restart.',
            RuntimeWarning,
            stacklevel=2,
        )
    if builds and builds[0] != 'mxnet':
        _load_nvidia_libraries(builds[0])


def installed_builds() -> list[str]:
    """List the MXNet distributions installed here, such as ``['mxnet-cu112']``."""
    from importlib.metadata import distributions

    names = {(d.metadata['Name'] or '').lower().replace('_', '-') for d in distributions()}
    return sorted(n for n in names if n == 'mxnet' or n.startswith(('mxnet-cu', 'mxnet-mkl')))


def _check_numpy() -> None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version('numpy')
    except PackageNotFoundError:
        return  # MXNet's own message names it
    if tuple(int(part) for part in found.split('.')[:2]) >= NUMPY_LIMIT:
        raise ImportError(
            f'NumPy {found} is too new for MXNet 1.9.1, which needs NumPy below '
            f"{'.'.join(map(str, NUMPY_LIMIT))}. Use the environment of 'make setup', or run: "
            "pip install 'numpy==1.23.5' (Python 3.11 at most)."
        )


def _load_nvidia_libraries(build: str) -> None:
    """See that the driver is there, and load NVIDIA's wheels so that MXNet needs no toolkit."""
    try:
        ctypes.CDLL('libcuda.so.1', mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise ImportError(
            f'{build} is the GPU build of MXNet and needs the NVIDIA driver, but libcuda.so.1 '
            f'did not load ({error}). Install the driver (in a container: docker run '
            "--gpus all), or the CPU build: 'make setup GPU=0'."
        ) from error
    load_wheels()


def load_wheels() -> None:
    """Load the libraries of NVIDIA's wheels (``nvidia/*/lib/*.so*``), as far as they load."""
    folders = [pathlib.Path(p) / 'nvidia' for p in sys.path]
    waiting = sorted({lib for folder in folders for lib in folder.glob('*/lib/lib*.so*')})
    # They depend on each other in no order that their names tell: go round until nothing moves.
    while waiting:
        left = [lib for lib in waiting if not _loads(lib)]
        if len(left) == len(waiting):
            break  # what is really missing is named by MXNet's own error
        waiting = left


def _loads(library: pathlib.Path) -> bool:
    try:
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return False
    return True
