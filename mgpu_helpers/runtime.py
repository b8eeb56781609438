"""Settings to make before MXNet is imported: threads, workspaces, memory, NVIDIA's libraries.

``configure()`` runs when ``mgpu_helpers`` is imported. It makes these settings and adds an import
hook: any ``import mxnet``, here or in d2l, first checks the machine, and if a check fails, raises
an error that says in one sentence what to do.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import os
import pathlib
import signal
import sys
import warnings
from typing import Any

# Reasons, measured on two cores with LeNet, batch 256 (ms per batch on 1 and 2 stand-ins):
# MXNet's defaults take 82 and 94, so a second device gains nothing; these settings 81 and 43.
SETTINGS = {
    # One stand-in device is one core. With two OpenMP threads each, OpenBLAS on two devices at
    # once did not finish in ten minutes.
    'OMP_NUM_THREADS': '1',
    # All mx.cpu(i) share 4 temporary workspaces by default, and the engine makes operators that
    # share one wait for each other, so devices take turns. 64 are enough for one per operator.
    'MXNET_CPU_TEMP_COPY': '64',
    # By default up to 15 operators are executed as one, in a backward pass or a compiled network:
    # no gradient is ready before all 15 are, so no allreduce overlaps with the rest, and a
    # profiler sees one bar. One by one is as fast (ms a batch on two stand-ins, best of four):
    # LeNet from scratch 28.4 and 28.2, in Gluon 28.4 and 28.7, ResNet-18 267 and 267.
    'MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN': '0',
    # The course promises that a run repeats bit for bit and that float32 is float32. So on GPUs: no
    # autotuning (it prints on stderr and may choose differently in every run), no algorithms that
    # add in the order in which threads finish, and no TensorFloat-32 (10 bits of mantissa instead
    # of 23). From the documentation of MXNet and NVIDIA; we have not measured this.
    'MXNET_CUDNN_AUTOTUNE_DEFAULT': '0',
    'MXNET_ENFORCE_DETERMINISM': '1',
    'NVIDIA_TF32_OVERRIDE': '0',
    # torchrun keeps one store for all restarts, and in it the addresses of ranks that have died
    # (PyTorch's issue 135712): a rank may wait for them. This gives each start a store of its own.
    'TORCH_DISABLE_SHARE_RDZV_TCP_STORE': '1',
}

# glibc returns large blocks to the kernel and requests them again at every operator: 490,000 page
# faults in 55 batches, 94 against 82 ms a batch. So: keep freed memory (trim threshold), never map
# a block separately (mmap threshold, at most 32 MiB in glibc, and mmap max, for larger ones), and
# grow in steps (top pad).
MALLOC = {
    'MALLOC_TRIM_THRESHOLD_': (-1, 2**31 - 1),
    'MALLOC_TOP_PAD_': (-2, 64 * 2**20),
    'MALLOC_MMAP_THRESHOLD_': (-3, 32 * 2**20),
    'MALLOC_MMAP_MAX_': (-4, 0),
}

TOO_LATE: dict[str, str] = {}  # settings that were not set before MXNet's import
LIBC: Any = None if sys.platform == 'win32' else ctypes.CDLL(None)


def configure() -> None:
    """Make the settings that MXNet reads when it loads, and add a hook that checks the machine.

    Values that the user set in the environment are kept. The package calls this when it is
    imported; calling it again changes nothing.
    """
    missing = {name: value for name, value in SETTINGS.items() if name not in os.environ}
    if os.environ.get('OMP_NUM_THREADS', '1') != '1':
        # Two devices at once, each with several OpenMP threads, can deadlock. With
        # MXNet's own workspaces they take turns instead, at 52 ms a batch.
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
    if hasattr(LIBC, 'mallopt') and 'GLIBC_TUNABLES' not in os.environ:
        for variable, (option, value) in MALLOC.items():
            if variable not in os.environ:
                LIBC.mallopt(option, value)
    if 'mxnet' in sys.modules:
        _restore_fault_handler()
    if _BeforeMXNet not in sys.meta_path:
        sys.meta_path.insert(0, _BeforeMXNet)


def give_back_memory() -> None:
    """Return freed memory to the operating system, once, after work that needed a lot of it."""
    if hasattr(LIBC, 'malloc_trim'):
        LIBC.malloc_trim(0)


class _BeforeMXNet:
    """An import hook that finds no module: it only checks the machine just before MXNet loads."""

    @staticmethod
    def find_spec(fullname: str, path: Any = None, target: Any = None) -> None:
        model = sys.modules.get('mxnet.model')
        if fullname == 'mxnet':
            check_mxnet()
        elif fullname == 'mxnet.engine':  # the first import after the one that loads the library
            _restore_fault_handler()
        elif fullname == 'sklearn' and model and not hasattr(model, 'FeedForward'):
            # If scikit-learn is installed, MXNet imports it for the base class of a deprecated
            # class: 0.5 of the import's 1.7 s of CPU time, in each process of a cluster.
            raise ModuleNotFoundError('cannot be imported while MXNet is loading', name=fullname)


def _restore_fault_handler() -> None:
    """Let a segmentation fault end the process at once, as it does without MXNet.

    MXNet's own handler, the only one that it installs, prints and calls ``exit``. That frees
    objects in use and waits for threads that may have caused the fault: a worker hung for more than
    90 s.
    """
    if LIBC is not None:
        # MXNet ignores SIGBUS, and Python and faulthandler treat the two signals alike.
        action = ctypes.create_string_buffer(256)  # struct sigaction takes 152 bytes on Linux
        LIBC.sigaction(int(signal.SIGBUS), None, action)
        LIBC.sigaction(int(signal.SIGSEGV), action, None)


def check_mxnet() -> None:
    """Raise if MXNet cannot work here; first load the NVIDIA wheels that its GPU build needs."""
    from importlib.metadata import PackageNotFoundError, version

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
            f'pip uninstall -y {" ".join(builds)}, then install one of them again.'
        )
    try:
        numpy = version('numpy')
    except PackageNotFoundError:
        numpy = '0'  # MXNet's own message names it
    if tuple(map(int, numpy.split('.')[:2])) >= (1, 24):  # which removed np.bool
        raise ImportError(
            f'NumPy {numpy} is too new for MXNet 1.9.1, which needs NumPy below 1.24. Use the '
            "environment of 'make setup', or run: pip install 'numpy==1.23.5' (Python 3.11 at "
            'most).'
        )
    threads = os.environ.get('OMP_NUM_THREADS', '1')
    if threads != '1':
        risk = 'take turns'
        if 'MXNET_CPU_TEMP_COPY' in os.environ:
            risk = 'may deadlock (MXNET_CPU_TEMP_COPY is set, too)'
        warnings.warn(
            f'OMP_NUM_THREADS is {threads}, so stand-in devices {risk} instead of working at the '
            'same time. This does not affect GPUs. To give each stand-in one core, unset '
            'OMP_NUM_THREADS and restart.',
            RuntimeWarning,
            stacklevel=2,
        )
    if builds and builds[0] != 'mxnet':
        try:
            ctypes.CDLL('libcuda.so.1', mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise ImportError(
                f'{builds[0]} is the GPU build of MXNet and needs the NVIDIA driver, but '
                f'libcuda.so.1 did not load ({error}). Install the driver (in a container: docker '
                "run --gpus all), or the CPU build: 'make setup GPU=0'."
            ) from error
        load_wheels()


def installed_builds() -> list[str]:
    """List the MXNet distributions installed here, such as ``['mxnet-cu112']``."""
    from importlib.metadata import distributions

    names = {(d.metadata['Name'] or '').lower().replace('_', '-') for d in distributions()}
    return sorted(n for n in names if n == 'mxnet' or n.startswith(('mxnet-cu', 'mxnet-mkl')))


def load_wheels() -> None:
    """Load all loadable libraries of NVIDIA's wheels (``nvidia/*/lib/*.so*``)."""
    waiting = {lib for p in sys.path for lib in pathlib.Path(p).glob('nvidia/*/lib/lib*.so*')}
    # The names do not tell which library needs which: repeat until no more of them load.
    # MXNet's own error reports what is really missing.
    while len(missing := {lib for lib in waiting if not _loads(lib)}) < len(waiting):
        waiting = missing


def _loads(library: pathlib.Path) -> bool:
    try:
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return False
    return True
