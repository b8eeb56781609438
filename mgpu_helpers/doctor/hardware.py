"""NVIDIA's driver, the GPUs, the CUDA libraries of MXNet, and the CPU cores."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from pathlib import Path

from ..devices.driver import CAPABILITIES, GPU, OLDEST_CUDA, has_code
from ..runtime import installed_builds
from . import fixes
from .asking import Questions
from .child import Facts
from .report import FAILED, NOT_NEEDED, OK, WARNING, Row

NVIDIA, DISPLAY = '0x10de', '0x03'  # on the PCI bus: the vendor, and how a display's class begins
STUB_LIBRARY, NO_DEVICE, MISMATCH, UNKNOWN = 34, 100, 803, 999
REFUSALS = {
    NO_DEVICE: 'there is no GPU that this process may use',
    STUB_LIBRARY: "this libcuda.so.1 is the CUDA toolkit's stub, not a driver",
    MISMATCH: "the driver's library and its kernel module are of different versions",
    UNKNOWN: 'for no known reason; a restart of the machine often helps',
}
# The wheel (nvidia-...-cu11) of a CUDA library. `libcublasLt` must be asked for before `libcublas`.
WHEELS = {
    'libcublas': 'cublas',
    'libcudart': 'cuda-runtime',
    'libcudnn': 'cudnn',
    'libcufft': 'cufft',
    'libcurand': 'curand',
    'libcusolver': 'cusolver',
    'libcusparse': 'cusparse',
    'libnccl': 'nccl',
    'libnvToolsExt': 'nvtx',
    'libnvrtc': 'cuda-nvrtc',
}
CGROUP = Path('/sys/fs/cgroup/cpu.max')


def gpu_build() -> bool:
    """Tell whether an MXNet for NVIDIA GPUs is installed.

    Returns
    -------
    bool

    Examples
    --------
    >>> gpu_build() in (True, False)
    True
    """
    return any(build.startswith('mxnet-cu') for build in installed_builds())


def driver(ask: Questions) -> Iterator[Row]:
    """Look at NVIDIA's driver, and at GPUs that are there without one."""
    facts = ask('driver')['driver']
    name, cards, needed = 'NVIDIA driver', _cards(), gpu_build()
    if 'error' in facts:
        yield Row(name, FAILED, f'libcuda.so.1 is no driver that works: {facts["error"]}')
    elif 'absent' in facts:
        yield _no_driver(name, facts['absent'], cards, needed)
    elif not facts['gpus']:
        why = REFUSALS.get(facts['refusal'], 'see the errors of the CUDA driver API')
        found = f'it is here, but gives no GPU (code {facts["refusal"]}): {why}'
        hidden = os.environ.get('CUDA_VISIBLE_DEVICES')
        if hidden is not None:
            yield Row(
                name,
                WARNING,
                f'it is here, but CUDA_VISIBLE_DEVICES is {hidden!r}, which hides every GPU',
                'unset CUDA_VISIBLE_DEVICES',
            )
        elif cards:
            fix = 'sudo reboot' if facts['refusal'] in (MISMATCH, UNKNOWN) else ''
            yield Row(name, FAILED, f'{found}. On the PCI bus: {", ".join(cards)}', fix)
        elif needed:
            yield Row(name, FAILED, found, fixes.setup('GPU=0'))
        else:
            yield Row(name, WARNING, found)
    else:
        yield _driver_row(name, facts, needed)


def _driver_row(name: str, facts: Facts, needed: bool) -> Row:
    cuda = '.'.join(map(str, facts['cuda']))
    found = f'{_kernel_module()}knows CUDA {cuda}'
    if needed and tuple(facts['cuda']) < OLDEST_CUDA:
        return Row(name, FAILED, f'{found}; MXNet needs one that knows 11.0', fixes.driver())
    return Row(name, OK, found)


def _no_driver(name: str, error: str, cards: list[str], needed: bool) -> Row:
    reason = '' if 'cannot open shared object' in error else f' ({error})'
    host = _host_has_driver()
    if host:
        found = (
            f'{host} is here, but libcuda.so.1 is not{reason}: a container that was started '
            'without its GPUs (docker run has --gpus all)?'
        )
        return Row(name, FAILED if needed else WARNING, found, '')
    if cards:
        found = f'a GPU is on the PCI bus ({", ".join(cards)}), but there is no driver{reason}'
        return Row(name, FAILED if needed else WARNING, found, fixes.driver())
    if needed:
        found = f'none, and no NVIDIA GPU{reason}, but MXNet is the build for them'
        return Row(name, FAILED, found, fixes.setup('GPU=0'))
    return Row(name, NOT_NEEDED, f'none, and no NVIDIA GPU{reason}: CPU cores stand in')


def _cards() -> list[str]:
    """The addresses of NVIDIA's GPUs on the PCI bus; there is no need for lspci."""

    def read(path: Path) -> str:
        try:
            return path.read_text().strip()
        except OSError:
            return ''

    return sorted(
        path.parent.name
        for path in Path('/sys/bus/pci/devices').glob('*/vendor')
        if read(path) == NVIDIA and read(path.parent / 'class').startswith(DISPLAY)
    )


def _host_has_driver() -> str:
    """What shows that the system's kernel has the driver; empty if nothing does."""
    devices = sorted(Path('/dev').glob('nvidia[0-9]*'))
    for path in (*devices, Path('/proc/driver/nvidia/version')):
        if path.exists():
            return str(path)
    return ''


def _kernel_module() -> str:
    """The version of the driver, which its library does not tell: '550.54.14, '."""
    try:
        words = Path('/proc/driver/nvidia/version').read_text().split('\n')[0].split()
    except OSError:
        return ''
    return next((f'{word}, ' for word in words if word[:1].isdigit() and '.' in word), '')


def gpus(ask: Questions) -> Iterator[Row]:
    """Look at each GPU, and whether what is installed has machine code for it."""
    for facts in ask('driver')['driver'].get('gpus', []):
        gpu = GPU(**facts | {'capability': tuple(facts['capability'])})
        yield _gpu_row(gpu, ask('mxnet')['mxnet'], ask('torch')['torch'])


def _gpu_row(gpu: GPU, mxnet: Facts, torch: Facts) -> Row:
    capability = '{}.{}'.format(*gpu.capability)
    about = f'{gpu.name}, {gpu.memory / 2**30:.0f} GiB, compute capability {capability}'
    oldest, newest = '{}.{}'.format(*CAPABILITIES[0]), '8.9'
    by_torch = bool(torch.get('gpus')) and tuple(min(torch['capabilities'])) <= gpu.capability
    row = f'GPU {gpu.index}'
    if has_code(gpu):
        if mxnet.get('cuda'):
            return Row(row, OK, f'{about}: MXNet has code for it')
        if by_torch:
            return Row(row, OK, f'{about}: PyTorch uses it; MXNet here is the build for CPUs')
        if gpu_build():
            return Row(row, WARNING, f'{about}: MXNet has code for it, but does not load')
        found = f'{about}: MXNet could use it, but its build for GPUs is not installed'
        return Row(
            row, WARNING, found, fixes.setup('GPU=1 TORCH=0' if 'cuda' in torch else 'GPU=1')
        )
    why = (
        f'MXNet 1.9.1, its last release, has machine code for {oldest} to {newest} only, so '
        'chapters 1 to 4 run on stand-ins'
    )
    if by_torch:
        return Row(row, OK, f'{about}: PyTorch (chapter 5) uses it. {why}')
    if gpu.capability < CAPABILITIES[0]:
        return Row(row, WARNING, f'{about}: it is too old. {why}, and chapter 5, too')
    found = f'{about}: {why}; chapter 5 (PyTorch) can use it'
    if 'cuda' in torch:
        found += ', but the PyTorch that is installed does not'
    return Row(row, WARNING, found, fixes.setup('GPU=0 TORCH=1' if gpu_build() else 'TORCH=1'))


def cuda(ask: Questions) -> Iterator[Row]:
    """Look for each CUDA library that MXNet is linked with, by name."""
    name = 'CUDA libraries'
    if not gpu_build():
        yield Row(name, NOT_NEEDED, 'MXNet is not the build for NVIDIA GPUs')
        return
    facts = ask('libraries')['libraries']
    if 'error' in facts:
        yield Row(name, FAILED, facts['error'], fixes.setup('GPU=1', anew=True))
        return
    missing = _missing_libraries(facts['libraries'])
    found = [library for library in facts['libraries'] if library not in missing]
    here = f'found: {", ".join(found) or "none"}'
    if not missing:
        yield Row(name, OK, here)
        return
    wheels = {
        f'nvidia-{wheel}-cu11'
        for library in missing
        for start, wheel in WHEELS.items()
        if library.startswith(start)
    }
    fix = fixes.setup('GPU=1', anew=True)
    if ' pip ' in fix and wheels:
        pins = ' '.join(sorted(map(fixes.pinned, wheels)))
        fix = f'{fixes.python()} -m pip install --force-reinstall --no-deps {pins}'
    yield Row(name, FAILED, f'missing: {", ".join(sorted(missing))}; {here}', fix)


def _missing_libraries(troubles: dict[str, str]) -> set[str]:
    """Those that are not there: also one that only another of them needs."""
    missing = set()
    for library, trouble in troubles.items():
        if trouble:
            # 'libcusparse.so.11: cannot open shared object file: ...', when libcusolver is asked
            named = os.path.basename(trouble.split(':')[0])
            missing.add(named if named.startswith('lib') else library)
    return missing


def cores(ask: Questions) -> Iterator[Row]:
    """Look at how many CPU cores this process may use, and who limits them."""
    facts = ask('cores')['cores']
    if 'error' in facts:
        yield Row('CPU cores', FAILED, facts['error'], fixes.setup(anew=True))
        return
    usable, there = facts['usable'], os.cpu_count() or 1
    found, fix = f'{usable} usable', ''
    if usable < there:
        why, fix = _limit(there)
        found += f' of {there}{why}'
    if usable == 1:
        yield Row('CPU cores', WARNING, f'{found}: a second stand-in brings no speed', fix)
    else:
        yield Row('CPU cores', OK, f'{found}: as many stand-ins work at the same time')


def _limit(there: int) -> tuple[str, str]:
    """Who keeps us from some cores, and what would give two of them."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else there
    if allowed < there:
        return ': the affinity of this process (taskset) allows no more', 'taskset -cp 0,1 $$'
    if CGROUP.exists() and not CGROUP.read_text().startswith('max'):
        docker = f'docker update --cpus 2 {platform.node()}' * Path('/.dockerenv').exists()
        return ': a limit of this container (cpu.max)', docker
    return '', ''
