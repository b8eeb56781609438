"""Ask NVIDIA's driver which packages suit this machine's GPUs; tools/setup.sh runs this.

Prints two words, for MXNet (none, cu112, torch, update or old) and for PyTorch (none, cpu or pypi),
then the reasons, one per line. It runs before any package is installed, on Python 3.9 or newer.
"""

import collections
import pathlib
import runpy

ROOT = pathlib.Path(__file__).parent.parent
DRIVER = runpy.run_path(str(ROOT / 'mgpu_helpers' / 'devices' / 'driver.py'))
has_code, TOO_NEW = DRIVER['has_code'], DRIVER['CAPABILITIES'][1]
PYTORCH = (7, 5)  # the oldest that PyPI's PyTorch 2.13, built with CUDA 13, supports


def mxnet(gpus, cuda):
    """Return the word for MXNet and the reasons for it."""
    usable = [gpu for gpu in gpus if has_code(gpu)]
    others = [gpu for gpu in gpus if gpu not in usable]
    no_code = "MXNet's last release has machine code for compute capability 5.0 to 8.9 only"
    if not gpus:
        return ['none']
    if usable and cuda < DRIVER['OLDEST_CUDA']:
        return [
            'update',
            f"{listed(usable)}, but NVIDIA's driver supports only CUDA {version(cuda)}, "
            'and MXNet for GPUs needs CUDA 11 (driver 450 or newer).',
        ]
    if usable:
        left_out = f'{listed(others)}: counted as absent by MXNet, because {no_code}.'
        return ['cu112', f'{listed(usable)}: MXNet can use it.'] + [left_out] * bool(others)
    if max(gpu.capability for gpu in gpus) >= TOO_NEW:
        return [
            'torch',
            f'{listed(gpus)}: {no_code}.',
            "So MXNet's chapters run on CPU cores, and PyTorch's can use these GPUs.",
        ]
    return ['old', f'{listed(gpus)}: {no_code}.']


def pytorch(gpus, cuda):
    """Choose PyPI's build (2.7 GB) or the one without CUDA (190 MB); return it and the reason."""
    best = max((gpu.capability for gpu in gpus), default=None)
    if best is None:
        return ['none']
    if best < PYTORCH:
        best, needed = ('.'.join(map(str, capability)) for capability in (best, PYTORCH))
        why = f'the best GPU is of compute capability {best}, and it needs {needed}'
    elif cuda < (13, 0):
        knows = f"NVIDIA's driver supports CUDA {version(cuda)}"
        why = f'{knows}, and it needs CUDA 13 (driver 580 or newer; then: make setup GPU=1)'
    else:
        return ['pypi']
    return ['cpu', f'PyTorch will not use a GPU here: {why}.']


def listed(gpus):
    """Describe GPUs as ``8 x NVIDIA A100 (compute capability 8.0)``, each model once."""
    kinds = collections.Counter(
        f'{gpu.name} (compute capability {".".join(map(str, gpu.capability))})' for gpu in gpus
    )
    return ', '.join(f'{n} x {kind}' if n > 1 else kind for kind, n in kinds.items())


def version(cuda):
    return '.'.join(map(str, cuda))


def main():
    gpus = DRIVER['driver_gpus']()
    cuda = DRIVER['ask_driver']()[0] if gpus else (0, 0)
    (for_mxnet, *why), (for_pytorch, *more) = mxnet(gpus, cuda), pytorch(gpus, cuda)
    print(f'{for_mxnet} {for_pytorch}', *why, *more, sep='\n')


if __name__ == '__main__':
    main()
