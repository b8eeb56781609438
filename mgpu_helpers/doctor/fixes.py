"""The commands that mend things, as they are typed in the folder where the reader is."""

from __future__ import annotations

import os
import platform
import shlex
import sys
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from ..runtime import installed_builds

# What `make setup` belongs to: the folder of the course, where we run from a copy of it.
COURSE = Path(__file__).resolve().parent.parent.parent
# A system library that MXNet or PyTorch needs, and its package in Debian or Ubuntu, and in Fedora.
PACKAGES = {
    'libgomp.so.1': ('libgomp1', 'libgomp'),
    'libquadmath.so.0': ('libquadmath0', 'libquadmath'),
    'libgfortran.so.5': ('libgfortran5', 'libgfortran'),
    'libstdc++.so.6': ('libstdc++6', 'libstdc++'),
    'libgcc_s.so.1': ('libgcc-s1', 'libgcc'),
}


def mxnet_system() -> bool:
    """Tell whether MXNet has a build that we tested for this system: Linux x86-64.

    Returns
    -------
    bool

    Examples
    --------
    >>> mxnet_system() == (platform.system() == 'Linux' and platform.machine() == 'x86_64')
    True
    """
    return platform.system() == 'Linux' and platform.machine() in ('x86_64', 'amd64', 'AMD64')


def finished() -> dict[str, str]:
    """Give what ``make setup`` was asked for when it finished the environment of this Python.

    Returns
    -------
    dict of str to str
        ``kind`` (cpu, cu112) and ``torch`` (0, 1, only); empty where it has not finished this one.
        It takes an environment that it finished for good: what is missing there comes back only
        when it is made anew.

    Examples
    --------
    >>> set(finished()) <= {'kind', 'torch'}
    True
    """
    ours = COURSE / '.venv'
    if Path(sys.prefix) != ours or not (ours / 'made-by-setup').exists():
        return {}
    found = {name: COURSE / '.uv' / name for name in ('kind', 'torch')}
    return {name: path.read_text().strip() for name, path in found.items() if path.exists()}


def setup(choice: str = '', anew: bool = False) -> str:
    """Give the command that installs what is missing.

    Parameters
    ----------
    choice : str
        What is wanted, such as 'GPU=1' or 'GPU=0 TORCH=1'; empty: the same as last time.
    anew : bool
        Whether the environment is broken: setup takes one that it finished for good.

    Returns
    -------
    str

    Examples
    --------
    >>> setup('TORCH=1').split()[-1]
    'TORCH=1'
    """
    if not (COURSE / 'Makefile').exists() or os.name == 'nt' or _in_conda():
        return _by_pip(choice, anew)
    here = Path.cwd() == COURSE
    make = 'make setup' if here else f'make -C {shlex.quote(str(COURSE))} setup'
    remove = ''
    if anew:
        remove = f'rm -rf {shlex.quote(".venv" if here else str(COURSE / ".venv"))} && '
    return f'{remove}{make} {choice}'.rstrip()


def _in_conda() -> bool:
    return os.environ.get('CONDA_PREFIX') == sys.prefix


def _by_pip(choice: str, anew: bool) -> str:
    """Where `make` is not the way: with pip, and never two builds of MXNet side by side."""
    builds = installed_builds()
    for_gpus = any(build != 'mxnet' for build in builds)
    where, pip = shlex.quote(str(COURSE)), f'{python()} -m pip'
    if 'TORCH=1' in choice and for_gpus and _in_conda():
        # Both bring NVIDIA's libraries under the same names (environment.yml).
        return (
            'conda create -n mgpu-torch python=3.11 pip && conda activate mgpu-torch && '
            f"pip install -e {where}'[torch,notebooks]'"
        )
    extra, keep = 'cpu', ['mxnet']
    if 'TORCH=1' in choice or not mxnet_system():
        extra, keep = 'torch', builds
    elif 'GPU=1' in choice or ('GPU=' not in choice and for_gpus):
        extra, keep = 'cu112', ['mxnet-cu112']
    remove = f'{pip} uninstall -y {" ".join(builds)} && ' if builds and builds != keep else ''
    again = '--force-reinstall ' * anew
    if (COURSE / 'pyproject.toml').exists():
        return f"{remove}{pip} install {again}-e {where}'[{extra},notebooks]'"
    return f"{remove}{pip} install {again}'mgpu-helpers[{extra},notebooks]'"


def python() -> str:
    """Give this Python as one would type it here.

    Returns
    -------
    str

    Examples
    --------
    >>> 'python' in python()
    True
    """
    path = Path(sys.executable)
    if path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return shlex.quote(str(path))


def command(words: str) -> str:
    """Give a command of ours, such as 'data mnist'.

    Parameters
    ----------
    words : str

    Returns
    -------
    str

    Examples
    --------
    >>> command('data mnist').endswith(' -m mgpu_helpers data mnist')
    True
    """
    return f'{python()} -m mgpu_helpers {words}'


def library(name: str) -> str:
    """Give the command that installs a library of the system, or nothing if we do not know it.

    Parameters
    ----------
    name : str
        Such as 'libgomp.so.1'.

    Returns
    -------
    str

    Examples
    --------
    >>> library('libsomething.so.9')
    ''
    """
    if name not in PACKAGES:
        return ''
    debian, fedora = PACKAGES[name]
    if 'fedora' in _systems():
        return f'sudo dnf install {fedora}'
    return f'sudo apt-get install {debian}'


def driver() -> str:
    """Give the command that installs NVIDIA's driver, as far as we know this system.

    Returns
    -------
    str

    Examples
    --------
    >>> isinstance(driver(), str)
    True
    """
    systems = _systems()
    if 'ubuntu' in systems:
        return 'sudo ubuntu-drivers install && sudo reboot'
    if 'debian' in systems:  # in its part non-free
        return 'sudo apt-get install nvidia-driver && sudo reboot'
    if 'fedora' in systems:  # from RPM Fusion
        return 'sudo dnf install akmod-nvidia xorg-x11-drv-nvidia-cuda && sudo reboot'
    return ''


def _systems() -> list[str]:
    """This Linux, and those that it descends from, as /etc/os-release names them."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return []
    return [release.get('ID', ''), *release.get('ID_LIKE', '').split()]


def pinned(package: str) -> str:
    """Give a package with the version that the course pins, such as 'numpy==1.23.5'.

    Parameters
    ----------
    package : str

    Returns
    -------
    str
        Without a version, where our own package is not installed as one.

    Examples
    --------
    >>> pinned('numpy').startswith('numpy')
    True
    """
    try:
        wanted = [line.split(';')[0].strip() for line in requires('mgpu-helpers') or []]
    except PackageNotFoundError:
        wanted = []
    return next((line for line in wanted if line.startswith(f'{package}==')), package)
