"""Run ranks on this machine, each in its own process: ``ipyparallel``'s engines."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import socket
import sys
import tempfile
import weakref
from collections.abc import Iterable, Sequence
from pathlib import Path

import psutil

MOST = 64  # each is a Python process: with PyTorch, 0.3 GiB
TIMEOUT = 60.0  # seconds for all to start
KILL = getattr(signal, 'SIGKILL', signal.SIGTERM)  # Windows has only the second
# A parent killed with -9 cannot stop its children; Linux does (PR_SET_PDEATHSIG survives exec).
LEASH = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, int(sys.argv[1]))
if os.getppid() == int(sys.argv[2]):  # otherwise the parent ended first, and no signal would come
    os.execvp(sys.argv[3], sys.argv[3:])
"""
# Each rank runs this first. It defines `rank` and `world_size` for readers, and lets the rank
# import whatever this process can import.
BEGIN = """
import os, sys
sys.path[:] = {}
os.environ.update({})
rank, world_size = {}, {}
import mgpu_helpers
"""
# This is text because this package must not import PyTorch.
JOIN = """
import datetime
import torch, torch.distributed as dist
from mgpu_helpers.pytorch import join_group, this_device
join_group({options})
device = this_device()
"""
# A rank is ready at its first heartbeat: two ranks took 2.8 s, or 7.3 s with a heartbeat every 3 s.
# A rank without a heartbeat for 30 s, the default, counts as dead.
HEARTS = ['--HeartMonitor.period=250', '--HeartMonitor.max_heartmonitor_misses=120']
FOLDER = 'mgpu-ranks-'  # followed by the parent's process id


class Engines:
    """``k`` ranks on this machine, until ``stop`` or the end of this process; see ``ranks``.

    With ``seconds``, they are in a process group in which a waiting rank gives up after that time.
    """

    def __init__(self, k: int, seconds: float | None = None) -> None:
        import ipyparallel

        sweep()
        self.folder = tempfile.mkdtemp(prefix=f'{FOLDER}{os.getpid()}-')
        self.cluster = ipyparallel.Cluster(
            n=k,
            log_level=40,
            profile_dir=self.folder,
            shutdown_atexit=False,
            controller_args=HEARTS,
        )
        config = self.cluster.config
        python = [sys.executable, '-m']
        # SIGTERM lets the controller end its own processes; an engine may be busy, so kill it.
        config.LocalControllerLauncher.controller_cmd = leashed([*python, 'ipyparallel.controller'])
        for launcher in (config.LocalEngineLauncher, config.LocalEngineSetLauncher):
            launcher.engine_cmd = leashed([*python, 'ipyparallel.engine'], KILL)
        _running.add(self)
        try:
            self.cluster.start_cluster_sync()
            self.client = self.cluster.connect_client_sync()
            self.client.wait_for_engines(k, timeout=TIMEOUT, interactive=False)
            self._begin(k)
            if seconds is not None:
                options = f'timeout=datetime.timedelta(seconds={seconds})'
                joined = self.client[:].execute(JOIN.format(options=options), silent=True)
                joined.get(TIMEOUT)
        except Exception as error:
            logs = '\n'.join(e.get_output() for e in self.cluster.engines.values())
            lines = logs.splitlines() or ['none']
            self.stop()
            raise RuntimeError(
                f'{k} ranks did not start within {TIMEOUT:.0f} s ({type(error).__name__}); the '
                f'last line of their logs: {lines[-1]}. Close other programs and try again, or '
                'start fewer ranks'
            ) from error
        except BaseException:  # the stop button
            self.stop()
            raise

    def _begin(self, k: int) -> None:
        with socket.socket() as free:
            free.bind(('127.0.0.1', 0))
            port = {'MASTER_PORT': str(free.getsockname()[1])}
        codes = [BEGIN.format(sys.path, environment(i, k) | port, i, k) for i in range(k)]
        begun = [self.client[i].execute(codes[i], block=False) for i in range(k)]
        for answer in begun:
            # Without a limit, a controller that had lost a process kept us waiting for ever.
            answer.get(TIMEOUT)

    def stop(self) -> None:
        """End the ranks and their child processes."""
        _running.discard(self)
        with contextlib.suppress(Exception):
            self.client.close()
        kill_all(one.pid for of in self.cluster.engines.values() for one in of.launchers.values())
        with contextlib.suppress(Exception):
            self.cluster.stop_cluster_sync()
        shutil.rmtree(self.folder, ignore_errors=True)


_running: weakref.WeakSet[Engines] = weakref.WeakSet()
atexit.register(lambda: [*map(Engines.stop, [*_running])])


def sweep() -> None:
    """Remove the folders that killed processes left behind."""
    for path in Path(tempfile.gettempdir()).glob(f'{FOLDER}*'):
        owner = path.name.removeprefix(FOLDER).split('-')[0]
        if owner.isdecimal() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(path, ignore_errors=True)


def leashed(command: Sequence[str], number: int = signal.SIGTERM) -> list[str]:
    """Wrap a command so that it gets a signal when this process, its parent, ends (Linux)."""
    if sys.platform != 'linux':
        return [*command]
    return [sys.executable, '-I', '-S', '-c', LEASH, f'{number:d}', str(os.getpid()), *command]


def kill_all(pids: Iterable[int]) -> None:
    """Kill the given processes and their descendants."""
    processes = []
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            processes += [*(one := psutil.Process(pid)).children(recursive=True), one]
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()


def environment(rank: int, k: int) -> dict[str, str]:
    """Return the environment variables that ``torchrun`` would set for this rank."""
    return {
        **dict.fromkeys(['WORLD_SIZE', 'LOCAL_WORLD_SIZE'], str(k)),
        **dict.fromkeys(['RANK', 'LOCAL_RANK'], str(rank)),
        'MASTER_ADDR': '127.0.0.1',
        # Otherwise gloo would look up the host name, which may be unknown.
        'GLOO_SOCKET_IFNAME': 'lo0' if sys.platform == 'darwin' else 'lo',
        'MGPU_SAID': 'stand-ins crowded',  # the parent has already said both
    }
