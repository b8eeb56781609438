"""Can a machine take part in a cluster? Asked on each, before anything is started.

``python -m mgpu_helpers.cluster.preflight`` is how another machine is asked (see ``ssh``).
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import json
import os
import random
import shutil
import socket
import sys
from typing import Any

from ..devices.driver import driver_gpus

MARK = 'mgpu-preflight: '  # a login shell may print something, too
# Below those that the kernel gives to anybody's connections: a role loads MXNet before it takes its
# port, and on a busy machine another program had it by then.
OWN_PORTS = range(12000, 32768)


def look(ip: str, ports: list[int], workers: int, program: str) -> dict[str, Any]:
    """Raise unless this machine can take part; say at which ports, and with which GPUs.

    At ``ip`` the others shall reach it, at ``ports``, or, where these are 0, at as many that are
    free; ``program`` is what its ``workers`` run. Gives ``'ports'``, ascending, and ``'gpus'``, for
    each worker what ``share_gpus`` gives.
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
    if not all(ports):
        ports = free_ports(ip, len(ports))
    for port in ports:
        check_port(ip, port)
    return {'ports': ports, 'gpus': share_gpus(workers)}


def find_program(
    program: str, advice: str = 'write it as in a shell, such as: python train.py'
) -> None:
    """Find the program of a command, as a shell would: on the ``PATH``, or by its path."""
    if shutil.which(program) is None:
        if os.path.isfile(program):
            advice = f'the file is there but cannot be executed; perhaps: python {program}'
        raise FileNotFoundError(f'there is no program {program!r} here: {advice}')


def is_here(ip: str) -> bool:
    """Tell whether an IPv4 address is one of this machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.bind((ip, 0))
        except OSError:
            return False
    return True


def free_ports(host: str, count: int) -> list[int]:
    """Find TCP ports at an address of this machine that are free now, ascending."""
    ports: set[int] = set()
    while len(ports) < count:
        with contextlib.suppress(OSError):
            check_port(host, port := random.choice(OWN_PORTS))
            ports.add(port)
    return sorted(ports)


def check_port(host: str, port: int) -> None:
    """Raise if another program has a port at an address of this machine."""
    with socket.socket() as s:
        # As MXNet does: a port whose last connection is still fading away can be had.
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind((host, port))
        except OSError as error:
            raise OSError(
                error.errno,
                f'port {port} at {host} cannot be used ({error.strerror}): name another one, or '
                'none, and a free one is found',
            ) from error


def share_gpus(workers: int) -> list[dict[str, str]]:
    """Give each worker its part of this machine's GPUs, by ``CUDA_VISIBLE_DEVICES``; {} without.

    If there are fewer GPUs than workers here, nobody gets one, so that all compute alike.
    """
    count = len(driver_gpus())
    if not count:
        return [{}] * workers
    given = os.environ.get('CUDA_VISIBLE_DEVICES')
    names = given.split(',')[:count] if given else [str(i) for i in range(count)]
    cuts = [count * i // workers if count >= workers else 0 for i in range(workers + 1)]
    return [{'CUDA_VISIBLE_DEVICES': ','.join(names[a:b])} for a, b in zip(cuts, cuts[1:])]


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
