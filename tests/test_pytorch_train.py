"""Chapter 5's ``train`` and ``train_rank``: what they print and learn; how they end."""

import contextlib
import io
import os
import socket
import subprocess
import sys
import time

import psutil
import pytest
from click.testing import CliRunner

torch = pytest.importorskip('torch', reason="PyTorch is not installed: 'make setup TORCH=1'")

import mgpu_helpers as mgpu  # noqa: E402
from mgpu_helpers.processes import RankFailed  # noqa: E402
from mgpu_helpers.pytorch.__main__ import main  # noqa: E402

pt = mgpu.pytorch
SHORT = '--batch-size 64 --lr 0.2 --num-epochs 1 --num-examples 128 --seed 0'.split()
pytestmark = pytest.mark.usefixtures('without_compiler', 'started')  # nothing is left behind


@pytest.mark.slow
def test_the_originals_ten_epochs():
    """Batches of 256, learning rate 0.2, the small start: what its text trains, on two devices."""
    assert max(pt.train(2, 256, 0.2, num_epochs=10, seed=0).test_acc) >= 0.8


def test_a_bad_option_is_named():
    for option in ('--num-epochs=0', '--lr=0', '--batch-size=x', '--sed=1'):
        refused = CliRunner().invoke(main, [option])
        assert refused.exit_code == 2
        assert option.split('=')[0] in refused.output.splitlines()[-1]
    assert 'start it by torchrun' in CliRunner().invoke(main, SHORT).output


def test_a_rank_killed_in_the_middle_of_training_ends_it():
    """As the kernel's out-of-memory killer does: SIGKILL, without any message."""
    killed = []

    class Killer(io.StringIO):
        def write(self, text):
            if text.startswith('epoch 1,'):
                children = psutil.Process().children(recursive=True)
                [p for p in children if 'launching import _run' in ' '.join(p.cmdline())][-1].kill()
                killed.append(time.monotonic())
            return super().write(text)

    with (
        contextlib.redirect_stdout(Killer()),
        pytest.raises(RankFailed, match=r'^rank . was killed by signal 9 \(SIGKILL\)'),
    ):
        pt.launch(pt.train_rank, 2, 64, 0.2, 50, 640, seed=0, labels=False)
    assert time.monotonic() - killed[0] < 30


def test_launch_and_torchrun_train_alike(monkeypatch):
    """PyTorch's usual port is taken, and named in the environment, as a cluster may have it."""
    before = {c for c in psutil.Process().net_connections() if c.status == 'LISTEN'}
    with contextlib.closing(socket.socket()) as taken:
        with contextlib.suppress(OSError):  # somebody else has it: as good
            taken.bind(('127.0.0.1', 29500))
            taken.listen()
        monkeypatch.setenv('MASTER_ADDR', '127.0.0.1')
        monkeypatch.setenv('MASTER_PORT', '29500')
        launched, _ = pt.launch(pt.train_rank, 2, 64, 0.2, 1, 128, seed=0, labels=False)
    assert {c for c in psutil.Process().net_connections() if c.status == 'LISTEN'} <= before
    torchrun = [sys.executable, '-m', 'torch.distributed.run', '--standalone', '--nproc-per-node=2']
    done = subprocess.run(
        [*torchrun, '-m', 'mgpu_helpers.pytorch', *SHORT],
        capture_output=True, text=True, timeout=400,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith('epoch 1, time: ')
    assert done.stdout.split('test acc: ')[1].strip() == f'{launched.test_acc[0]:.2f}'


def test_the_stop_button(kernel):
    """Interrupted as Jupyter does it, in the second epoch."""

    def press(text):
        if 'epoch 1,' in text:
            kernel.interrupt()

    stopped, _, _ = kernel(
        """
        import psutil
        import mgpu_helpers as mgpu
        mgpu.launch(mgpu.pytorch.train_rank, 2, 64, 0.2, 50, 6400, seed=0, labels=False)
        """,
        press,
    )
    again, _, printed = kernel("""
        children = psutil.Process().children(recursive=True)
        left = [p for p in children if 'launching import _run' in ' '.join(p.cmdline())]
        history = mgpu.launch(mgpu.pytorch.train_rank, 2, 64, 0.2, 1, 128, labels=False)[0]
        print(len(left), len(history.seconds))
    """)
    assert (stopped['status'], stopped['ename']) == ('error', 'KeyboardInterrupt')
    assert again['status'] == 'ok', again
    assert printed['stdout'].splitlines()[-1] == '0 1'


def test_without_mxnet_and_data(tmp_path):
    """No MXNet, no files and no server that answers: one notice, and the workers repeat none."""
    env = os.environ | {'MXNET_HOME': str(tmp_path), 'MGPU_DATA_MIRRORS': 'http://127.0.0.1:9/'}
    code = """
import sys
sys.modules['mxnet'] = sys.modules['d2l'] = None  # an import of them raises
import mgpu_helpers as mgpu
other = mgpu.pytorch.train(2, 64, 0.2, num_epochs=1, num_examples=128)
run = mgpu.launch(mgpu.pytorch.train_rank, 2, 64, 0.2, num_epochs=1, num_examples=128)[0]
assert len(run.plot(other).axes) == 2
"""
    done = subprocess.run(
        [sys.executable, '-c', code], capture_output=True, text=True, env=env, timeout=200
    )
    assert done.returncode == 0, done.stderr
    assert (done.stdout + done.stderr).count('is unavailable') == 1
