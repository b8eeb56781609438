"""Ranks that live in the notebook: processes in which the cells that begin with ``%%px`` run.

They are ``ipyparallel``'s engines, on this machine. What is under ``%%px`` could stand in a script
under ``torchrun``: the same variables in the environment, the same calls.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import socket
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from . import arguments

if TYPE_CHECKING:
    import ipyparallel

MOST = 64  # each is a Python of its own: with PyTorch, 0.3 GiB
TIMEOUT = 60.0  # seconds for all to come up
KILL = getattr(signal, 'SIGKILL', signal.SIGTERM)  # Windows has the second only
# A kernel killed with -9 says nothing to what it has started; Linux does (PR_SET_PDEATHSIG). The
# controller is asked to end, with its own processes; an engine may be computing, and is killed.
RUN = """
import ctypes, runpy, sys
_, signal, *sys.argv = sys.argv
if sys.platform == 'linux':
    ctypes.CDLL(None).prctl(1, int(signal))
runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)
"""
# What each rank does first: `rank` and `world_size` are there for readers.
BEGIN = """
import os
os.environ.update({environment})
rank, world_size = {rank}, {world_size}
import mgpu_helpers
"""
JOIN = """
import datetime
from mgpu_helpers.pytorch import this_device
import torch, torch.distributed as dist
device = this_device()
if device.type == 'cuda':
    torch.cuda.set_device(device)
dist.init_process_group(
    'nccl' if device.type == 'cuda' else 'gloo', timeout=datetime.timedelta(seconds={seconds})
)
"""
FOLDER = 'mgpu-ranks-'  # and the kernel's number
_clusters: list[Any] = []  # the one that runs


def ranks(k: int, group: bool = False, seconds: float = 20) -> ipyparallel.Client:
    """Start ``k`` ranks on this machine, instead of those that this notebook has; give the client.

    A cell that begins with ``%%px`` runs on all of them, with ``%%px --targets 1`` on rank 1 alone,
    and what each prints stands below it. ``ranks[:]['x']`` is ``x`` of all ranks, in their order.
    Each has one thread, ``torchrun``'s variables, and with ``group`` is in a process group, in
    which a rank that waits in vain gives up after ``seconds``.
    """
    arguments.positive_int('the number of ranks', k, most=MOST)
    arguments.positive_number('seconds', seconds)
    stop()
    import ipyparallel

    folder = tempfile.mkdtemp(prefix=f'{FOLDER}{os.getpid()}-')
    cluster = ipyparallel.Cluster(n=k, log_level=40, profile_dir=folder, shutdown_atexit=False)
    cluster.config.LocalControllerLauncher.controller_cmd = _command(signal.SIGTERM, 'controller')
    for launcher in (cluster.config.LocalEngineLauncher, cluster.config.LocalEngineSetLauncher):
        launcher.engine_cmd = _command(KILL, 'engine')
    _clusters.append(cluster)
    try:
        cluster.start_cluster_sync()
        client = cluster.connect_client_sync()
        client.wait_for_engines(k, timeout=TIMEOUT, interactive=False)
    except Exception as error:
        lines = [line for e in cluster.engines.values() for line in e.get_output().splitlines()]
        stop()
        raise RuntimeError(
            f'{k} ranks were not there after {TIMEOUT:.0f} s ({type(error).__name__}); the last '
            f'line of their logs: {lines[-1] if lines else "none"}. Close other programs and try '
            'again, or take fewer ranks'
        ) from error
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    same = {'WORLD_SIZE': str(k), 'LOCAL_WORLD_SIZE': str(k)}
    same |= {'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': str(port)}
    same |= {'GLOO_SOCKET_IFNAME': 'lo0' if sys.platform == 'darwin' else 'lo'}
    same |= {'MGPU_SAID': 'stand-ins crowded'}  # that CPU cores stand in is for the notebook to say
    for rank in client.ids:
        environment = same | {'RANK': str(rank), 'LOCAL_RANK': str(rank)}
        code = BEGIN.format(environment=environment, rank=rank, world_size=k)
        client[rank].execute(code, silent=True, block=False)
    try:
        client[:].execute(JOIN.format(seconds=seconds) if group else '', silent=True).get()
    except Exception:
        stop()
        raise
    _activate(client)
    return client


def _command(when_orphaned: int, name: str) -> list[str]:
    return [sys.executable, '-c', RUN, str(int(when_orphaned)), f'ipyparallel.{name}']


def _activate(client: ipyparallel.Client) -> None:
    """Let ``%%px`` show the outputs of one rank after the other, so that they are always alike."""
    from IPython.core.getipython import get_ipython

    if shell := get_ipython():
        client.activate()
        magics = shell.magics_manager.registry['ParallelMagics']
        magics.progress_after_seconds = -1  # no bar
        show, run = '--no-stream --group-outputs=engine ', magics.cell_px
        px: Any = lambda line, cell: run(show + line, cell)  # noqa: E731
        shell.register_magic_function(px, 'cell', 'px')


@atexit.register
def stop() -> None:
    """End this notebook's ranks, and what they have started."""
    while _clusters:
        cluster = _clusters.pop()
        with contextlib.suppress(Exception):
            cluster.stop_cluster_sync()
    for path in Path(tempfile.gettempdir()).glob(f'{FOLDER}*'):  # also of killed kernels
        owner = path.name.removeprefix(FOLDER).split('-')[0]
        ours = owner == str(os.getpid())
        if ours or owner.isdecimal() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(path, ignore_errors=True)
