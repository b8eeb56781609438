"""Chapter 6's scripts in an empty folder, as their readers have them."""

import contextlib
import importlib
import os
import shutil
import subprocess
import sys
import threading
from subprocess import PIPE
from types import SimpleNamespace

import psutil
import pytest
from checkouts import ROOT
from serving import real_files


class Alone:
    """A folder with copies of the scripts, in which ``import mgpu_helpers`` fails."""

    def __init__(self, folder):
        self.folder, self.path = folder, f'{folder}:{ROOT}/tests/without_compiler'
        shutil.copytree(ROOT / 'training', folder, dirs_exist_ok=True)
        (folder / 'mgpu_helpers.py').write_text('raise ImportError("not in this folder")')

    def start(self, options, ranks=None, torchrun='--standalone', script='train_ddp.py', err=PIPE):
        command = [sys.executable]
        if ranks:
            command += ['-m', 'torch.distributed.run', f'--nproc-per-node={ranks}']
            command += torchrun.split()
        return subprocess.Popen(
            [*command, script, *options.split()], cwd=self.folder, text=True,
            stdout=PIPE, stderr=err,
            env=os.environ | {'PYTHONPATH': self.path},
        )  # fmt: skip

    def run(self, options, ranks=None, torchrun='--standalone', status=0, script='train_ddp.py'):
        """Run the copy to its end; return its lines, or stderr's if it should fail."""
        with self.start(options, ranks, torchrun, script) as process:
            out, err = ended(process, 500)
        assert process.returncode == status, err
        return (err if status else out).splitlines()

    def parameters(self, folder):
        import torch  # not every environment has it
        from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

        newest = max((self.folder / folder).glob('step-*'))
        dcp_to_torch_save(newest, whole := self.folder / 'whole.pt')
        state = torch.load(whole, weights_only=True)
        return torch.cat([value.flatten() for _, value in sorted(state['net'].items())])


@pytest.fixture
def alone(tmp_path, monkeypatch):
    real_files('fashion-mnist')  # or skip
    monkeypatch.setenv('OMP_NUM_THREADS', '1')
    return Alone(tmp_path)


@pytest.fixture
def ranks(monkeypatch):
    """The modules beside train_ddp.py, and a group of one rank."""
    import torch.distributed as dist

    monkeypatch.syspath_prepend(ROOT / 'training')
    dist.init_process_group('gloo', store=dist.HashStore(), rank=0, world_size=1)
    names = 'ranks', 'checkpoints', 'tasks'
    yield SimpleNamespace(**{name: importlib.import_module(name) for name in names})
    dist.destroy_process_group()
    for name in names:
        sys.modules.pop(name)


def ended(process, seconds):
    """Return its output; stop it if it does not end, so that its output is not lost."""
    late = threading.Timer(seconds, process.kill)  # its ranks then end themselves
    late.start()
    try:
        return process.communicate()
    finally:
        late.cancel()
        process.kill()  # also where somebody interrupts us


def workers(torchrun):
    """List what torchrun has started by now, in the order of their ranks."""
    started = {}
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(torchrun.pid).children():
            with contextlib.suppress(psutil.Error):
                started[int(child.environ().get('RANK', -1))] = child
    return [started[rank] for rank in sorted(started) if rank >= 0]
