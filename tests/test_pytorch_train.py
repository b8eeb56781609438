"""Chapter 5's ``train`` and ``train_ddp``: what they print, learn and refuse; how they end."""

import contextlib
import io
import os
import socket
import subprocess
import sys
import textwrap
import time

import psutil
import pytest
from click.testing import CliRunner

torch = pytest.importorskip('torch', reason="PyTorch is not installed: 'make setup TORCH=1'")

import mgpu_helpers as mgpu  # noqa: E402
from mgpu_helpers.processes import ProcessFailed  # noqa: E402
from mgpu_helpers.pytorch.__main__ import main  # noqa: E402

pt = mgpu.pytorch
SHORT = '--batch-size 64 --lr 0.2 --num-epochs 1 --num-examples 128 --seed 0'.split()


def workers():
    children = psutil.Process().children(recursive=True)
    return [p for p in children if 'worker._main()' in ' '.join(p.cmdline())]


@pytest.fixture(autouse=True)
def nothing_left_behind():
    yield
    psutil.wait_procs(workers(), timeout=5)
    assert not workers()


def test_learns_and_says_how_it_goes(capsys):
    """900 steps leave chance level, on any of the sets."""
    devices = [pt.StandIn(1), pt.StandIn(4)]
    history = pt.train(2, 32, 0.2, num_epochs=2, num_examples=14_400, seed=0, devices=devices)
    assert history.test_acc[-1] > 0.5
    assert history.train_loss[-1] < history.train_loss[0] - 0.5
    assert len(history.seconds) == 2 and min(history.seconds) > 0
    assert history.label == 'devices: 2, batch: 32'
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == 'running on: cpu:1 cpu:4'
    assert [line.split(',')[0] for line in lines[1:]] == ['epoch 1', 'epoch 2']


BAD = [
    ({'num_gpus': 0}, ValueError, 'num_gpus must be at least 1, not 0'),
    ({'num_gpus': True}, TypeError, 'num_gpus.*True'),
    ({'batch_size': 0}, ValueError, 'batch_size'),
    ({'batch_size': 2.0}, TypeError, 'batch_size'),
    ({'lr': 0}, ValueError, 'lr'),
    ({'lr': None}, TypeError, 'lr'),
    ({'num_epochs': 0}, ValueError, 'num_epochs'),
    ({'num_examples': 0}, ValueError, 'num_examples'),
    ({'num_examples': 60001}, ValueError, 'num_examples'),
    ({'seed': -1}, ValueError, 'seed'),
    ({'dtype': 'int8'}, ValueError, 'dtype'),
]
BAD_DEVICES = [
    ([pt.StandIn(0)] * 2, ValueError, 'cpu:0 appears more than once'),
    ([pt.StandIn(0)], ValueError, 'num_gpus is 2, but devices lists 1'),
    (['cpu', 'cuda'], TypeError, "'cpu' is no device"),
    ([torch.device('cpu', 0), torch.device('cpu', 1)], ValueError, 'the one CPU'),
    ([pt.StandIn(0), torch.device('cuda', 99)], ValueError, 'index=99.* is not there'),
]


@pytest.mark.parametrize('train', [pt.train, pt.train_ddp], ids=lambda f: f.__name__)
def test_refused_before_anything_begins(train, capsys):
    bad = [*BAD]
    if train is pt.train:
        bad += [({'devices': given}, error, words) for given, error, words in BAD_DEVICES]
    for change, error, words in bad:
        with pytest.raises(error, match=words):
            train(**({'num_gpus': 2, 'batch_size': 256, 'lr': 0.2} | change))
    assert 'running on' not in capsys.readouterr().out


def test_launch_refuses():
    with pytest.raises(ValueError, match='timeout must be a number above 0, not -1'):
        pt.launch(print, 2, timeout=-1)
    with pytest.raises(TypeError, match="function must be something to call, not 'train'"):
        pt.launch('train', 2)


def test_the_command_refuses():
    for bad in ('--num-epochs=0', '--lr=-1', '--lr=0', '--num-gpus=0', '--batch-size=x', '--sed=1'):
        refused = CliRunner().invoke(main, [bad])
        assert refused.exit_code == 2 and bad.split('=')[0] in refused.output.splitlines()[-1]


def test_a_rank_killed_in_the_middle_of_training_ends_it():
    """As the kernel's out-of-memory killer does it: from outside, and without a word."""
    killed = []

    class Killer(io.StringIO):
        def write(self, text):
            if text.startswith('epoch 1,'):
                workers()[-1].kill()
                killed.append(time.monotonic())
            return super().write(text)

    with (
        contextlib.redirect_stdout(Killer()),
        pytest.raises(ProcessFailed, match=r'^rank . was killed by signal 9 \(SIGKILL\)'),
    ):
        pt.train_ddp(2, 64, 0.2, num_epochs=50, num_examples=6400, seed=0)
    assert time.monotonic() - killed[0] < 30


def listening():
    mine = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return {c.laddr.port for p in mine for c in p.net_connections() if c.status == 'LISTEN'}


def test_the_command_alone_and_by_torchrun(monkeypatch):
    """PyTorch's usual port is taken, and named in the environment, as a cluster may have it."""
    before = listening()
    with contextlib.closing(socket.socket()) as taken:
        with contextlib.suppress(OSError):  # somebody else has it: as good
            taken.bind(('127.0.0.1', 29500))
            taken.listen()
        monkeypatch.setenv('MASTER_ADDR', '127.0.0.1')
        monkeypatch.setenv('MASTER_PORT', '29500')
        alone = CliRunner().invoke(main, ['--num-gpus=2', *SHORT], catch_exceptions=False)
    assert listening() <= before
    first, epoch = alone.stdout.splitlines()
    assert first.startswith('running on: ') and epoch.startswith('epoch 1, time: ')
    torchrun = [sys.executable, '-m', 'torch.distributed.run', '--standalone', '--nproc-per-node=2']
    done = subprocess.run(
        [*torchrun, '-m', 'mgpu_helpers.pytorch', *SHORT],
        capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith('epoch 1, time: ')
    assert done.stdout.split('test acc')[1].strip() == epoch.split('test acc')[1].strip()


def test_a_live_curve_and_the_stop_button():
    """Interrupted as Jupyter does it, when the bar of the first epoch is seen to move."""
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name='python3')
    messages, bars = [], []

    def watch(message):
        messages.append(message)
        text = message['content'].get('data', {}).get('text/plain', '')
        if 'epoch 1/50' in text:
            bars.append(text)
            if len(bars) == 3:
                manager.interrupt_kernel()

    def run(cell):
        cell = textwrap.dedent(cell)
        return client.execute_interactive(cell, output_hook=watch, timeout=200)['content']

    try:
        run("""
            import psutil
            import mgpu_helpers as mgpu
            _ = mgpu.pytorch.train(1, 64, 0.2, num_epochs=2, num_examples=128, seed=0)
        """)
        curves = [m for m in messages if 'image/png' in m['content'].get('data', {})]
        stopped = run('mgpu.pytorch.train_ddp(2, 64, 0.2, num_epochs=50, seed=0)')
        shown = [m['content']['data']['text/plain'] for m in messages if 'data' in m['content']]
        again = run("""
            children = psutil.Process().children(recursive=True)
            left = [p for p in children if 'worker._main()' in ' '.join(p.cmdline())]
            history = mgpu.pytorch.train_ddp(2, 64, 0.2, num_epochs=1, num_examples=128, seed=0)
            print(len(left), len(history.seconds))
        """)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert [m['msg_type'] for m in curves] == ['display_data'] + ['update_display_data'] * 2
    text = 'test accuracy after each epoch, devices: 1, batch: 64'
    assert {m['content']['data']['text/plain'] for m in curves} == {text}
    assert len({m['content']['data']['image/png'] for m in curves}) == 3
    assert (stopped['status'], stopped['ename']) == ('error', 'KeyboardInterrupt')
    assert shown[-1] == ''  # no bar is left
    assert again['status'] == 'ok', again
    printed = ''.join(m['content']['text'] for m in messages if m['msg_type'] == 'stream')
    assert printed.splitlines()[-1] == '0 1'


def test_without_mxnet_and_data(tmp_path):
    """No MXNet, no files and no server that answers: one notice, and the workers repeat none."""
    env = os.environ | {'MXNET_HOME': str(tmp_path), 'MGPU_DATA_MIRRORS': 'http://127.0.0.1:9/'}
    code = """
import sys
sys.modules['mxnet'] = sys.modules['d2l'] = None  # an import of them raises
import mgpu_helpers as mgpu
run = mgpu.pytorch.train_ddp(2, 64, 0.2, num_epochs=1, num_examples=128)
other = mgpu.pytorch.train(2, 64, 0.2, num_epochs=1, num_examples=128)
assert len(run.plot(other).axes) == 2
"""
    done = subprocess.run(
        [sys.executable, '-c', code], capture_output=True, text=True, env=env, timeout=200
    )
    assert done.returncode == 0, done.stderr
    assert (done.stdout + done.stderr).count('is not to be had') == 1
