"""Start MXNet's parameter server on this machine: scheduler and servers for a notebook's ranks."""

from __future__ import annotations

import atexit
import contextlib
import os
import random
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import psutil

from .. import arguments
from ..devices.driver import driver_gpus
from ..processes.engines import KILL, leashed

if TYPE_CHECKING:
    import ipyparallel

LOOPBACK = '127.0.0.1'
# Below the kernel's ephemeral ports: a process loads MXNet before it opens its port,
# and on a busy machine another program could take an ephemeral one first.
OWN_PORTS = range(12000, 32768)
SECONDS = 10.0  # to wait for stores to close
# MXNet reads its role when it loads: the import itself serves until the workers close their store.
SERVE = 'import sys; _, *sys.path = sys.argv; import mgpu_helpers, mxnet'
_roles: list[subprocess.Popen[bytes]] = []  # the running processes


def serve(workers: ipyparallel.DirectView, servers: int = 1) -> dict[str, psutil.Process]:
    """Start a scheduler and servers, and make ranks their workers: ``serve(ranks[:])``.

    They replace this notebook's earlier ones and end with the notebook. Returns processes by name:
    ``'scheduler'``, ``'server 0'``, ``'worker 0'``, ... Environment variables (``DMLC_…``) tell
    workers where the others are and which GPUs are theirs: call this before they load MXNet.
    Scheduler and servers exit when the workers close their store: call this again for a new one.
    """
    count = len(workers)
    arguments.positive_int('the number of servers', servers, most=count)
    workers.use_cloudpickle()  # sends a notebook's functions by value
    # A reference cycle in Trainer keeps its store open: close it while its servers still run.
    closing = workers.client[:].execute('import gc; gc.collect()', block=False)
    closing.wait(SECONDS)
    stop()
    if not closing.ready():
        raise RuntimeError(
            f'the ranks did not answer within {SECONDS:.0f} s; they may be blocked in a kvstore '
            'call. Restart them with mgpu.ranks, then call serve again'
        )
    names = ['scheduler', *(f'server {i}' for i in range(servers))]
    ports = free_ports(len(names) + count)
    same = {'DMLC_PS_ROOT_URI': LOOPBACK, 'DMLC_PS_ROOT_PORT': str(ports[0])}
    same |= {'DMLC_NUM_SERVER': str(servers), 'DMLC_NUM_WORKER': str(count)}
    same |= {'DMLC_NODE_HOST': LOOPBACK}
    for name, port in zip(names, ports):
        env = os.environ | same | {'DMLC_ROLE': name.split()[0], 'PORT': str(port)}
        env |= {'CUDA_VISIBLE_DEVICES': ''}
        command = leashed([sys.executable, '-c', SERVE, *sys.path], KILL)
        _roles.append(subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL))
    # The scheduler assigns ranks in ascending order of ports.
    for rank, port, gpus in zip(workers.targets, ports[len(names) :], share_gpus(count)):
        environment = same | gpus | {'DMLC_ROLE': 'worker', 'PORT': str(port)}
        workers.client[rank].execute(f'import os; os.environ.update({environment})', silent=True)
    pids = [role.pid for role in _roles] + workers.apply_sync(os.getpid)
    names += [f'worker {i}' for i in range(count)]
    return {name: psutil.Process(pid) for name, pid in zip(names, pids)}


@atexit.register
def stop() -> None:
    """Stop this notebook's scheduler and servers."""
    for role in _roles:
        role.kill()
    while _roles:
        _roles.pop().wait()


def free_ports(count: int) -> list[int]:
    """Return ``count`` free TCP ports on this machine, in ascending order."""
    ports: set[int] = set()
    while len(ports) < count:
        port = random.choice(OWN_PORTS)
        with contextlib.suppress(OSError), socket.socket() as s:
            s.bind((LOOPBACK, port))
            ports.add(port)
    return sorted(ports)


def share_gpus(workers: int) -> list[dict[str, str]]:
    """Return ``CUDA_VISIBLE_DEVICES`` for each worker, so that workers share this machine's GPUs.

    Without GPUs, each gets {}. With fewer GPUs than workers, all workers use CPUs: never a mix.
    """
    count = len(driver_gpus())
    if not count:
        return [{}] * workers
    given = os.environ.get('CUDA_VISIBLE_DEVICES')
    names = given.split(',')[:count] if given else [str(i) for i in range(count)]
    cuts = [count * i // workers if count >= workers else 0 for i in range(workers + 1)]
    return [{'CUDA_VISIBLE_DEVICES': ','.join(names[a:b])} for a, b in zip(cuts, cuts[1:])]
