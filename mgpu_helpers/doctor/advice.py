"""The commands that mend things, as they are typed in the folder where the reader is."""

from __future__ import annotations

import os
import platform
import shlex
import sys
from pathlib import Path

from ..runtime import installed_builds

# What `make setup` belongs to: the folder of the course, where we run from a copy of it.
COURSE = Path(__file__).resolve().parent.parent.parent
# A system library that MXNet or PyTorch needs, and its package in Debian or Ubuntu, and in Fedora.
PACKAGES = {
    'libgomp.so.1': ('libgomp1', 'libgomp'),
    'libquadmath.so.0': ('libquadmath0', 'libquadmath'),
    'libstdc++.so.6': ('libstdc++6', 'libstdc++'),
    'libgcc_s.so.1': ('libgcc-s1', 'libgcc'),
}
DRIVERS = {  # NVIDIA's; Debian has it in its part non-free, Fedora in RPM Fusion
    'ubuntu': 'sudo ubuntu-drivers install && sudo reboot',
    'debian': 'sudo apt-get install nvidia-driver && sudo reboot',
    'fedora': 'sudo dnf install akmod-nvidia xorg-x11-drv-nvidia-cuda && sudo reboot',
}


def mxnet_system() -> bool:
    """Tell whether MXNet has a build that we tested for this system: Linux x86-64."""
    return platform.system() == 'Linux' and platform.machine() in ('x86_64', 'amd64', 'AMD64')


def gpu_build() -> bool:
    """Tell whether an MXNet for NVIDIA GPUs is installed."""
    return any(build.startswith('mxnet-cu') for build in installed_builds())


def finished() -> dict[str, str]:
    """Give what ``make setup`` was asked for when it finished the environment of this Python.

    ``kind`` (cpu, cu112) and ``torch`` (0, 1, only); empty where it has not finished this one. What
    is missing in a finished one comes back only when it is made anew.
    """
    environment = COURSE / '.venv'
    if Path(sys.prefix) != environment or not (environment / 'made-by-setup').exists():
        return {}
    files = {name: COURSE / '.uv' / name for name in ('kind', 'torch')}
    return {name: path.read_text().strip() for name, path in files.items() if path.exists()}


def setup(choice: str = '', anew: bool = False) -> str:
    """Give the command that installs what is missing.

    ``choice`` is such as 'GPU=1' or 'GPU=0 TORCH=1', empty for the same as last time; ``anew`` if
    the environment is broken.
    """
    if not (COURSE / 'Makefile').exists() or os.name == 'nt' or _in_conda():
        return _by_pip(choice, anew)
    here = Path.cwd() == COURSE
    make = 'make setup' if here else f'make -C {shlex.quote(str(COURSE))} setup'
    remove = f'rm -rf {shlex.quote(".venv" if here else str(COURSE / ".venv"))} && '
    return f'{remove if anew else ""}{make} {choice}'.rstrip()


def _in_conda() -> bool:
    return os.environ.get('CONDA_PREFIX') == sys.prefix


def _by_pip(choice: str, anew: bool) -> str:
    """Where `make` is not the way: with pip, and never two builds of MXNet side by side."""
    builds, for_gpus = installed_builds(), gpu_build()
    course, pip = shlex.quote(str(COURSE)), f'{python()} -m pip'
    if 'TORCH=1' in choice and for_gpus and _in_conda():
        # Both bring NVIDIA's libraries under the same names (environment.yml).
        return (
            'conda create -n mgpu-torch python=3.11 pip && conda activate mgpu-torch && '
            f"pip install -e {course}'[torch,notebooks]'"
        )
    extra, keep = 'cpu', ['mxnet']
    if 'TORCH=1' in choice or not mxnet_system():
        extra, keep = 'torch', builds
    elif 'GPU=1' in choice or ('GPU=' not in choice and for_gpus):
        extra, keep = 'cu112', ['mxnet-cu112']
    remove = f'{pip} uninstall -y {" ".join(builds)} && ' if builds and builds != keep else ''
    from_here = f"-e {course}'[{extra},notebooks]'"
    package = from_here if (COURSE / 'pyproject.toml').exists() else f"'mgpu-helpers[{extra}]'"
    return f'{remove}{pip} install {"--force-reinstall " if anew else ""}{package}'


def python() -> str:
    """Give this Python as one would type it here."""
    path = Path(sys.executable)
    inside = path.is_relative_to(Path.cwd())
    return shlex.quote(str(path.relative_to(Path.cwd()) if inside else path))


def library(name: str) -> str:
    """Give the command that installs a library of the system, or nothing if we do not know it."""
    if name not in PACKAGES:
        return ''
    debian, fedora = PACKAGES[name]
    fedora_like = 'fedora' in _systems()
    return f'sudo dnf install {fedora}' if fedora_like else f'sudo apt-get install {debian}'


def driver() -> str:
    """Give the command that installs NVIDIA's driver, as far as we know this system."""
    return next((DRIVERS[system] for system in _systems() if system in DRIVERS), '')


def _systems() -> list[str]:
    """This Linux, and those that it descends from, as /etc/os-release names them."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return []
    return [release.get('ID', ''), *release.get('ID_LIKE', '').split()]
