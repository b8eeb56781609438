"""Can a machine take its part in a cluster? Asked on each, before anything is started.

``python -m mgpu_helpers.cluster.probe`` is how another machine is asked (see ``ssh``).
"""

from __future__ import annotations

import importlib.machinery
import json
import os
import shutil
import sys
from typing import Any

from .hosts import is_here
from .roles import check_port, free_ports, share_gpus

MARK = 'mgpu-probe: '  # a login shell may print something, too


def find_program(
    program: str, advice: str = 'write it as in a shell, such as: python train.py'
) -> None:
    """Find the program of a command, as a shell would: on the ``PATH``, or by its path."""
    if shutil.which(program) is None:
        if os.path.isfile(program):
            advice = f'the file is there but cannot be executed; perhaps: python {program}'
        raise FileNotFoundError(f'there is no program {program!r} here: {advice}')


def look(ip: str, ports: int | list[int], workers: int, program: str) -> dict[str, Any]:
    """Raise unless this machine can take its part; say at which ports, and with which GPUs.

    At ``ip`` the others shall reach it. ``ports`` is how many free ones to find, or a list of those
    that must be free; ``program`` is what its ``workers`` run. Gives ``'ports'``, ascending, and
    ``'gpus'``, for each worker what ``share_gpus`` gives.
    """
    if workers:
        find_program(program)
    # Not found through `import`: the check there would load NVIDIA's libraries into the launcher.
    if importlib.machinery.PathFinder.find_spec('mxnet') is None:
        raise ModuleNotFoundError(
            f"MXNet is not installed in {sys.executable}: run 'make setup' and use its environment"
        )
    if not is_here(ip):
        raise OSError(f'{ip} is no address that this machine can listen at')
    if isinstance(ports, int):
        ports = free_ports(ip, ports)
    for port in ports:
        check_port(ip, port)
    return {'ports': ports, 'gpus': share_gpus(workers)}


def sentence(error: Exception) -> str:
    """Put an error into words, without its number."""
    text = getattr(error, 'strerror', None) or str(error)
    name = getattr(error, 'filename', None)
    return f'{name}: {text}' if name else text


if __name__ == '__main__':
    try:
        answer = look(**json.loads(sys.argv[1]))
    except (OSError, ImportError) as error:
        answer = {'error': sentence(error)}
    print(MARK + json.dumps(answer), flush=True)
