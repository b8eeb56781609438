"""Can a machine take its part in a cluster? Asked on each, before anything is started.

``python -m mgpu_helpers.cluster.probe`` is how another machine is asked (see ``ssh``).
"""

from __future__ import annotations

import importlib.machinery
import json
import os
import shutil
import sys
from collections.abc import Sequence
from typing import Any

from .gpus import share_gpus
from .roles import check_port, free_ports

MARK = 'mgpu-probe: '  # a login shell may print something, too


def find_program(
    program: str, advice: str = 'write it as in a shell, such as: python train.py'
) -> str:
    """Find the program of a command, as a shell would.

    Parameters
    ----------
    program : str
        A name that is looked for on the ``PATH``, or a path.
    advice : str
        For the user, if there is none.

    Returns
    -------
    str

    Raises
    ------
    FileNotFoundError
        If there is none, or if it cannot be executed.

    Examples
    --------
    >>> find_program('sh').endswith('/sh')
    True
    """
    found = shutil.which(program)
    if found is None:
        if os.path.isfile(program):
            advice = f'the file is there but cannot be executed; perhaps: python {program}'
        raise FileNotFoundError(f'there is no program {program!r} here: {advice}')
    return found


def look(
    ip: str, ports: int | Sequence[int], workers: int = 0, program: str | None = None
) -> dict[str, Any]:
    """Raise unless this machine can take its part; say at which ports, and with which GPUs.

    Parameters
    ----------
    ip : str
        The address at which the others shall reach it.
    ports : int or list of int
        How many free ports to find, or which must be free.
    workers : int
        How many of them it gets.
    program : str, optional
        What these run.

    Returns
    -------
    dict
        ``'ports'``: list of int, ascending. ``'gpus'``: for each worker the variables that give it
        its share of the GPUs here; see ``gpus.share_gpus``.

    Raises
    ------
    OSError
        If a port cannot be had, the address is not one of this machine, or the program is missing.
    ModuleNotFoundError
        If MXNet is missing.

    Examples
    --------
    >>> found = look('127.0.0.1', 2, workers=1, program='sh')
    >>> len(found['ports']), len(found['gpus'])
    (2, 1)
    """
    if program:
        find_program(program)
    # Not found through `import`: the check there would load NVIDIA's libraries into the launcher.
    if importlib.machinery.PathFinder.find_spec('mxnet') is None:
        raise ModuleNotFoundError(
            f"MXNet is not installed in {sys.executable}: run 'make setup' and use its environment"
        )
    try:
        free = free_ports(ip, ports if isinstance(ports, int) else 1)
    except OSError as error:
        raise OSError(
            error.errno, f'{ip} is no address that this machine can listen at ({error.strerror})'
        ) from error
    if not isinstance(ports, int):
        for port in ports:
            check_port(ip, port)
        free = ports
    return {'ports': free, 'gpus': [share_gpus(i, workers) for i in range(workers)]}


def sentence(error: Exception) -> str:
    """Put an error into words, without its number.

    Parameters
    ----------
    error : Exception

    Returns
    -------
    str

    Examples
    --------
    >>> sentence(OSError(98, 'that port is taken')), sentence(ValueError('no'))
    ('that port is taken', 'no')
    """
    text = getattr(error, 'strerror', None) or str(error)
    name = getattr(error, 'filename', None)
    return f'{name}: {text}' if name else text


if __name__ == '__main__':
    try:
        answer = look(**json.loads(sys.argv[1]))
    except (OSError, ImportError) as error:
        answer = {'error': sentence(error)}
    print(MARK + json.dumps(answer), flush=True)
