"""What the answers say of the machine: cores, settings, data, GPUs, a second device's worth."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from ..data.published import FILES, folder_of, stock
from ..devices.driver import CAPABILITIES, GPU, OLDEST_CUDA, has_code
from ..runtime import MALLOC, SETTINGS, TOO_LATE
from . import advice
from .answers import FAILED, NOT_NEEDED, OK, WARNING, Row, broken
from .questions import Facts, Questions

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
FASTER = 1.3  # `make bench` gives 1.8 on two quiet cores
MISMATCH, UNKNOWN = 803, 999
REFUSALS = {  # of cuInit
    34: "this libcuda.so.1 is the CUDA toolkit's stub, not a driver",
    100: 'there is no GPU that this process may use',
    MISMATCH: "the driver's library and its kernel module are of different versions",
    UNKNOWN: 'for no known reason; a restart of the machine often helps',
}


def cores(ask: Questions) -> Iterator[Row]:
    """Look at how many CPU cores this process may use."""
    facts, there = ask('cores'), os.cpu_count() or 1
    if 'error' in facts:
        yield broken('CPU cores', facts)._replace(fix=advice.setup(anew=True))
        return
    text = f'{facts["usable"]} usable'
    if facts['usable'] < there:
        text += f' of {there} (taskset, or the limit of a container, allows no more)'
    if facts['usable'] == 1:
        yield Row('CPU cores', WARNING, f'{text}: a second stand-in brings no speed')
    else:
        yield Row('CPU cores', OK, f'{text}: as many stand-ins work at the same time')


def settings(ask: Questions) -> Iterator[Row]:
    """Look at what MXNet reads when it is loaded, and glibc, which keeps freed memory for it."""
    name, get = 'settings', os.environ.get
    ours = SETTINGS | {variable: str(value) for variable, (_, value) in MALLOC.items()}
    ours['GLIBC_TUNABLES'] = ''  # where it is set, runtime.py leaves the allocator alone
    others = {name: get(name, '') for name, value in ours.items() if get(name, value) != value}
    if TOO_LATE:
        text = (
            f'MXNet was loaded before mgpu_helpers, too late for {", ".join(TOO_LATE)}. Import '
            'mgpu_helpers first (in a notebook: restart the kernel before), or set them in the '
            f'shell. Until then {COSTS["MXNET_CPU_TEMP_COPY"]}'
        )
        yield Row(name, WARNING, text, f'export {_listed(TOO_LATE, " ")}')
    elif not others:
        yield Row(name, OK, f'in force: {_listed(SETTINGS, ", ")}')
    for variable, value in others.items():
        text = f'{variable} is {value!r} (ours: {ours[variable] or "none"}): '
        text += COSTS.get(variable, ALLOCATOR)
        if variable == 'OMP_NUM_THREADS' and 'MXNET_CPU_TEMP_COPY' not in os.environ:
            text += '. For this reason MXNET_CPU_TEMP_COPY is left out'  # see runtime.prepare
        yield Row(name, WARNING, text, f'unset {variable}')


def _listed(variables: dict[str, str], between: str) -> str:
    return between.join(f'{name}={value}' for name, value in variables.items())


def data(ask: Questions) -> Iterator[Row]:
    """Look at each set: there and verified, damaged, or missing, and is there room for it?"""
    for name, files in FILES.items():
        folder, (content, bad) = folder_of(name), stock(name)
        missing = [file for file in files if file not in {**content, **bad}]
        if not missing and not bad:
            yield Row(f'data {name}', OK, f'{len(content)} files in {folder}, verified')
            continue
        part = f'{folder} has only a part of it' if content else f'not in {folder}'
        text = '; '.join(bad.values()) or part
        if missing and (content or bad):
            text += f'; missing: {", ".join(missing)}'
        text += ". Without a network, scikit-learn's digits would stand in for it"
        obstacle = _obstacle(folder, sum(files[file].size for file in files if file not in content))
        if obstacle:
            fix = 'export MXNET_HOME="$HOME/mgpu-data"'
            yield Row(f'data {name}', FAILED, f'{text}. {obstacle}', fix)
        else:
            fix = f'{advice.python()} -m mgpu_helpers data {name}'
            yield Row(f'data {name}', FAILED if bad else WARNING, text, fix)


def _obstacle(folder: Path, wanted: int) -> str:
    """What keeps the files from being put there: no right to write, or no room."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        return f'{there} cannot be written'
    free = shutil.disk_usage(there).free
    if free < 2 * wanted:  # a download is complete before it takes the place of another
        return f'The disk has room for {free / 1e6:.0f} MB, and {2 * wanted / 1e6:.0f} are needed'
    return ''


def driver(ask: Questions) -> Iterator[Row]:
    """Look at NVIDIA's driver, and at GPUs that are there without one."""
    name, facts, needed = 'NVIDIA driver', ask('driver'), advice.gpu_build()
    if 'error' in facts:
        yield Row(name, FAILED, f'libcuda.so.1 is no driver that works: {facts["error"]}')
    elif 'absent' in facts:
        yield _no_driver(name, facts['absent'], needed)
    elif not facts['gpus']:
        yield _no_gpu(name, facts['refusal'], needed)
    else:
        text = f'it knows CUDA {".".join(map(str, facts["cuda"]))}'
        if needed and tuple(facts['cuda']) < OLDEST_CUDA:
            yield Row(name, FAILED, f'{text}; MXNet needs one that knows 11.0', advice.driver())
        else:
            yield Row(name, OK, text)


def _no_driver(name: str, error: str, needed: bool) -> Row:
    reason, cards = '' if 'cannot open shared object' in error else f' ({error})', _cards()
    verdict = FAILED if needed else WARNING
    module = Path('/proc/driver/nvidia/version')  # of the system's kernel
    for path in (*sorted(Path('/dev').glob('nvidia[0-9]*')), module):
        if path.exists():
            text = f'{path} is here, but libcuda.so.1 is not{reason}: a container that was started'
            return Row(name, verdict, f'{text} without its GPUs (docker run has --gpus all)?')
    if cards:
        text = f'a GPU is on the PCI bus ({cards}), but there is no driver{reason}'
        return Row(name, verdict, text, advice.driver())
    if needed:
        text = f'none, and no NVIDIA GPU{reason}, but MXNet is the build for them'
        return Row(name, FAILED, text, advice.setup('GPU=0'))
    return Row(name, NOT_NEEDED, f'none, and no NVIDIA GPU{reason}: CPU cores stand in')


def _no_gpu(name: str, refusal: int, needed: bool) -> Row:
    why = REFUSALS.get(refusal, 'see the errors of the CUDA driver API')
    text, cards = f'it is here, but gives no GPU (code {refusal}): {why}', _cards()
    hidden = os.environ.get('CUDA_VISIBLE_DEVICES')
    if hidden is not None:
        text = f'it is here, but CUDA_VISIBLE_DEVICES is {hidden!r}, which hides every GPU'
        return Row(name, WARNING, text, 'unset CUDA_VISIBLE_DEVICES')
    if cards:
        fix = 'sudo reboot' if refusal in (MISMATCH, UNKNOWN) else ''
        return Row(name, FAILED, f'{text}. On the PCI bus: {cards}', fix)
    fix = advice.setup('GPU=0') if needed else ''
    return Row(name, FAILED if needed else WARNING, text, fix)


def _cards() -> str:
    """The addresses of NVIDIA's GPUs on the PCI bus; there is no need for lspci."""
    devices = [path.parent for path in Path('/sys/bus/pci/devices').glob('*/vendor')]
    nvidia = [d for d in devices if (d / 'vendor').read_text().strip() == '0x10de']
    # How the class of a display begins.
    return ', '.join(sorted(d.name for d in nvidia if (d / 'class').read_text()[:4] == '0x03'))


def gpus(ask: Questions) -> Iterator[Row]:
    """Look at each GPU, and whether what is installed has machine code for it."""
    for facts in ask('driver').get('gpus', []):
        gpu = GPU(**facts | {'capability': tuple(facts['capability'])})
        yield _gpu(f'GPU {gpu.index}', gpu, ask('mxnet'), ask('torch'))


def _gpu(name: str, gpu: GPU, mxnet: Facts, torch: Facts) -> Row:
    about = f'{gpu.name}, {gpu.memory / 2**30:.0f} GiB, compute capability {gpu.version}'
    by_torch = bool(torch.get('gpus')) and tuple(min(torch['capabilities'])) <= gpu.capability
    if has_code(gpu):
        if mxnet.get('cuda'):
            return Row(name, OK, f'{about}: MXNet has code for it')
        if by_torch:
            return Row(name, OK, f'{about}: PyTorch uses it; MXNet here is the build for CPUs')
        if advice.gpu_build():
            return Row(name, WARNING, f'{about}: MXNet has code for it, but does not load')
        text = f'{about}: MXNet could use it, but its build for GPUs is not installed'
        return Row(name, WARNING, text, advice.setup('GPU=1'))
    why = 'MXNet 1.9.1, its last release, has machine code for '
    why += '{}.{} to 8.9 only, so chapters 1 to 4 run on stand-ins'.format(*CAPABILITIES[0])
    if by_torch:
        return Row(name, OK, f'{about}: PyTorch (chapters 5 to 7) uses it. {why}')
    if gpu.capability < CAPABILITIES[0]:
        return Row(name, WARNING, f'{about}: it is too old. {why}, and chapters 5 to 7, too')
    text = f'{about}: {why}; chapters 5 to 7 (PyTorch) can use it'
    text += ', but the PyTorch that is installed does not' if 'cuda' in torch else ''
    return Row(name, WARNING, text, advice.setup('GPU=1 TORCH=1'))


def cuda(ask: Questions) -> Iterator[Row]:
    """Look for each CUDA library that MXNet is linked with, by name."""
    name = 'CUDA libraries'
    if not advice.gpu_build():
        yield Row(name, NOT_NEEDED, 'MXNet is not the build for NVIDIA GPUs')
        return
    facts = ask('libraries')
    if 'error' in facts:
        yield broken(name, facts)
        return
    # The loader names the library that is not there, which may be one that only another needs.
    troubles = {library: trouble.split(':')[0] for library, trouble in facts.items() if trouble}
    names = {os.path.basename(t) if '.so' in t else library for library, t in troubles.items()}
    text = f'found: {", ".join(library for library in facts if library not in names) or "none"}'
    if names:
        text = f'missing: {", ".join(sorted(names))}; {text}'
        yield Row(name, FAILED, text, advice.setup('GPU=1', anew=True))
    else:
        yield Row(name, OK, text)


def training(ask: Questions) -> Iterator[Row]:
    """Look at what a second device brings; the last check, so that nothing runs beside it."""
    loads = [name for name in ('mxnet', 'torch') if 'error' not in ask(name)]
    if not loads:
        text = 'neither MXNet nor PyTorch loads, so there is nothing to try'
        yield Row('two devices', NOT_NEEDED, text)
    else:
        label = {'mxnet': 'MXNet', 'torch': 'PyTorch'}[loads[0]]
        yield _training('two devices', label, ask(f'train {loads[0]}'), ask)


def _training(name: str, label: str, facts: Facts, ask: Questions) -> Row:
    threads = os.environ.get('OMP_NUM_THREADS', '1') != '1'
    fix = 'unset OMP_NUM_THREADS' if threads else ''
    if 'error' in facts:
        why = f'. {_cause(ask)}' if threads else ''
        return Row(name, FAILED, f'the training {facts["error"]}{why}', fix)
    losses, ms = facts['losses'], facts['ms']
    if not all(abs(a - b) <= CLOSE * abs(a) for a, b in zip(losses['1'], losses['2'])):
        one, two = ('/'.join(f'{loss:.6f}' for loss in losses[k]) for k in ('1', '2'))
        text = f'{label}: the losses on one device and on two differ: {one} and {two}'
        return Row(name, FAILED, text, advice.setup(anew=True))
    text = (
        f'{label} trains {ms["1"] / ms["2"]:.2f} times as fast on {" and ".join(facts["devices"])} '
        f'as on one ({ms["1"]:.0f} and {ms["2"]:.0f} ms a batch, LeNet, {facts["data"]}), '
        'with the same losses'
    )
    if ms['1'] / ms['2'] >= FASTER:
        return Row(name, OK, text)
    if not all('cpu' in device for device in facts['devices']):
        return Row(name, OK, f'{text}. LeNet is too small for GPUs to gain by it')
    return Row(name, WARNING, f'{text}. {_cause(ask)}', fix)


def _cause(ask: Questions) -> str:
    """What most probably keeps two stand-ins from being faster than one."""
    usable, threads = ask('cores').get('usable'), os.environ.get('OMP_NUM_THREADS')
    if usable == 1:
        return 'There is one usable core, which both share'
    if threads != '1':
        return f'OMP_NUM_THREADS is {threads}: they take turns, or wait for each other'
    load = os.getloadavg()[0] if hasattr(os, 'getloadavg') else 0.0
    if usable and load > usable:
        return f'The machine is busy (load {load:.1f} on {usable} cores): try again when it is not'
    return 'Another program, or a processor that slows down when it is warm, may be the cause'
