"""NVIDIA's driver, the GPUs, and the CUDA libraries of MXNet."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ..devices.driver import CAPABILITIES, GPU, OLDEST_CUDA, has_code
from . import fixes
from .asking import Questions
from .probes import Facts
from .report import FAILED, NOT_NEEDED, OK, WARNING, Row

NVIDIA, DISPLAY = '0x10de', '0x03'  # on the PCI bus: the vendor, and how a display's class begins
MISMATCH, UNKNOWN = 803, 999
REFUSALS = {
    34: "this libcuda.so.1 is the CUDA toolkit's stub, not a driver",
    100: 'there is no GPU that this process may use',
    MISMATCH: "the driver's library and its kernel module are of different versions",
    UNKNOWN: 'for no known reason; a restart of the machine often helps',
}
VERSION = Path('/proc/driver/nvidia/version')  # of the driver's kernel module


def driver(ask: Questions) -> Iterator[Row]:
    """Look at NVIDIA's driver, and at GPUs that are there without one."""
    facts = ask('driver')
    if 'error' in facts:
        verdict, found, fix = FAILED, f'libcuda.so.1 is no driver that works: {facts["error"]}', ''
    elif 'absent' in facts:
        verdict, found, fix = _no_driver(facts['absent'])
    elif not facts['gpus']:
        verdict, found, fix = _no_gpu(facts['refusal'])
    else:
        cuda = '.'.join(map(str, facts['cuda']))
        verdict, found, fix = OK, f'{_kernel_module()}knows CUDA {cuda}', ''
        if fixes.gpu_build() and tuple(facts['cuda']) < OLDEST_CUDA:
            found += '; MXNet needs one that knows 11.0'
            verdict, fix = FAILED, fixes.driver()
    yield Row('NVIDIA driver', verdict, found, fix)


def _no_driver(error: str) -> tuple[str, str, str]:
    """Where libcuda.so.1 does not load: the verdict, what is the case, and the command."""
    reason = '' if 'cannot open shared object' in error else f' ({error})'
    cards, needed = _cards(), fixes.gpu_build()
    verdict = FAILED if needed else WARNING
    for path in (*sorted(Path('/dev').glob('nvidia[0-9]*')), VERSION):
        if path.exists():  # the system's kernel has the driver
            found = f'{path} is here, but libcuda.so.1 is not{reason}: a container that was started'
            return verdict, f'{found} without its GPUs (docker run has --gpus all)?', ''
    if cards:
        found = f'a GPU is on the PCI bus ({", ".join(cards)}), but there is no driver{reason}'
        return verdict, found, fixes.driver()
    if needed:
        found = f'none, and no NVIDIA GPU{reason}, but MXNet is the build for them'
        return FAILED, found, fixes.setup('GPU=0')
    return NOT_NEEDED, f'none, and no NVIDIA GPU{reason}: CPU cores stand in', ''


def _no_gpu(refusal: int) -> tuple[str, str, str]:
    """The same where it loads, but gives no GPU."""
    why = REFUSALS.get(refusal, 'see the errors of the CUDA driver API')
    found, cards = f'it is here, but gives no GPU (code {refusal}): {why}', _cards()
    hidden = os.environ.get('CUDA_VISIBLE_DEVICES')
    if hidden is not None:
        found = f'it is here, but CUDA_VISIBLE_DEVICES is {hidden!r}, which hides every GPU'
        return WARNING, found, 'unset CUDA_VISIBLE_DEVICES'
    if cards:
        fix = 'sudo reboot' if refusal in (MISMATCH, UNKNOWN) else ''
        return FAILED, f'{found}. On the PCI bus: {", ".join(cards)}', fix
    if fixes.gpu_build():
        return FAILED, found, fixes.setup('GPU=0')
    return WARNING, found, ''


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ''


def _cards() -> list[str]:
    """The addresses of NVIDIA's GPUs on the PCI bus; there is no need for lspci."""
    return sorted(
        path.parent.name
        for path in Path('/sys/bus/pci/devices').glob('*/vendor')
        if _read(path) == NVIDIA and _read(path.parent / 'class').startswith(DISPLAY)
    )


def _kernel_module() -> str:
    """The version of the driver, which its library does not tell: '550.54.14, '."""
    words = _read(VERSION).split('\n')[0].split()
    return next((f'{word}, ' for word in words if word[:1].isdigit() and '.' in word), '')


def gpus(ask: Questions) -> Iterator[Row]:
    """Look at each GPU, and whether what is installed has machine code for it."""
    for facts in ask('driver').get('gpus', []):
        gpu = GPU(**facts | {'capability': tuple(facts['capability'])})
        yield Row(f'GPU {gpu.index}', *_gpu(gpu, ask('mxnet'), ask('torch')))


def _gpu(gpu: GPU, mxnet: Facts, torch: Facts) -> tuple[str, str, str]:
    about = f'{gpu.name}, {gpu.memory / 2**30:.0f} GiB, compute capability {gpu.version}'
    by_torch = bool(torch.get('gpus')) and tuple(min(torch['capabilities'])) <= gpu.capability
    if has_code(gpu):
        if mxnet.get('cuda'):
            return OK, f'{about}: MXNet has code for it', ''
        if by_torch:
            return OK, f'{about}: PyTorch uses it; MXNet here is the build for CPUs', ''
        if fixes.gpu_build():
            return WARNING, f'{about}: MXNet has code for it, but does not load', ''
        found = f'{about}: MXNet could use it, but its build for GPUs is not installed'
        return WARNING, found, fixes.setup('GPU=1')
    why = (
        'MXNet 1.9.1, its last release, has machine code for {}.{} to 8.9 only, so chapters 1 to 4 '
        'run on stand-ins'
    ).format(*CAPABILITIES[0])
    if by_torch:
        return OK, f'{about}: PyTorch (chapters 5 to 7) uses it. {why}', ''
    if gpu.capability < CAPABILITIES[0]:
        return WARNING, f'{about}: it is too old. {why}, and chapters 5 to 7, too', ''
    found = f'{about}: {why}; chapters 5 to 7 (PyTorch) can use it'
    if 'cuda' in torch:
        found += ', but the PyTorch that is installed does not'
    return WARNING, found, fixes.setup('GPU=1 TORCH=1')


def cuda(ask: Questions) -> Iterator[Row]:
    """Look for each CUDA library that MXNet is linked with, by name."""
    name, fix = 'CUDA libraries', fixes.setup('GPU=1', anew=True)
    if not fixes.gpu_build():
        yield Row(name, NOT_NEEDED, 'MXNet is not the build for NVIDIA GPUs')
        return
    troubles = ask('libraries')
    if 'error' in troubles:
        yield Row(name, FAILED, troubles['error'], fix)
        return
    absent = missing(troubles)
    here = f'found: {", ".join(name for name in troubles if name not in absent) or "none"}'
    if not absent:
        yield Row(name, OK, here)
        return
    yield Row(name, FAILED, f'missing: {", ".join(sorted(absent))}; {here}', fix)


def missing(troubles: dict[str, str]) -> set[str]:
    """Give the libraries that are not there, also one that only another of them needs.

    >>> missing({'libcusolver.so.11': 'libcusparse.so.11: cannot open shared object file: No such'})
    {'libcusparse.so.11'}
    """
    named = {name: os.path.basename(trouble.split(':')[0]) for name, trouble in troubles.items()}
    return {
        named[name] if named[name].startswith('lib') else name for name in troubles if named[name]
    }
