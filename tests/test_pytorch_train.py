"""Chapter 5's ``train`` and ``train_ddp``: what they print, learn and refuse; how they end."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time

import numpy as np
import psutil
import pytest

torch = pytest.importorskip('torch', reason="PyTorch is not installed: 'make setup TORCH=1'")

import mgpu_helpers as mgpu  # noqa: E402
from mgpu_helpers.processes import ProcessFailed  # noqa: E402

pt = mgpu.pytorch


@pytest.fixture(autouse=True)
def nothing_left_behind():
    yield
    children = psutil.Process().children(recursive=True)
    gone, alive = psutil.wait_procs(children, timeout=5)
    assert not [p for p in alive if 'worker._main()' in ' '.join(p.cmdline())]


@pytest.mark.parametrize('train', [pt.train, pt.train_ddp], ids=lambda f: f.__name__)
def test_learns_and_says_how_it_goes(train, capsys):
    """900 steps leave chance level, on any of the sets."""
    history = train(2, 32, 0.2, num_epochs=2, num_examples=14_400, seed=0)
    assert history.test_acc[-1] > 0.5
    assert history.train_loss[-1] < history.train_loss[0] - 0.5
    assert len(history.seconds) == 2 and min(history.seconds) > 0
    assert history.label.removeprefix('DDP, ') == 'devices: 2, batch: 32'
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ['running', 'epoch', 'epoch']


def test_uneven_last_batch_and_more_ranks_than_examples():
    """65 = 64 + 1: the last batch has one example for three devices."""
    few = {'num_epochs': 1, 'num_examples': 65, 'seed': 0, 'dtype': 'float64'}
    one, three = pt.train(1, 64, 0.2, **few), pt.train(3, 64, 0.2, **few)
    ddp = pt.train_ddp(3, 64, 0.2, **few)
    for other in (three, ddp):
        assert other.train_loss == pytest.approx(one.train_loss, rel=1e-10)
        assert other.test_acc == one.test_acc


def test_without_a_seed_the_ranks_agree_on_one():
    first, second = pt.launch(pt.train_rank, 2, 64, 0.2, 1, 256)
    assert np.isfinite(first.train_loss[0])
    assert first.train_loss == second.train_loss and first.test_acc == second.test_acc


def test_own_devices(capsys):
    pt.train(2, 64, 0.2, 1, num_examples=64, devices=[pt.StandIn(1), pt.StandIn(4)])
    assert 'running on: cpu:1 cpu:4' in capsys.readouterr().out


BAD = [
    ({'num_gpus': 0}, ValueError, 'num_gpus must be at least 1, not 0'),
    ({'num_gpus': 1.5}, TypeError, 'num_gpus.*1.5'),
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


@pytest.mark.parametrize('train', [pt.train, pt.train_ddp], ids=lambda f: f.__name__)
@pytest.mark.parametrize('change,error,words', BAD)
def test_refused_before_anything_begins(train, change, error, words, capsys):
    with pytest.raises(error, match=words):
        train(**({'num_gpus': 2, 'batch_size': 256, 'lr': 0.2} | change))
    assert 'running on' not in capsys.readouterr().out


@pytest.mark.parametrize(
    'devices,error,words',
    [
        ([pt.StandIn(0)] * 2, ValueError, 'cpu:0 appears more than once'),
        ([pt.StandIn(0)], ValueError, 'num_gpus is 2, but devices lists 1'),
        (['cpu', 'cuda'], TypeError, "'cpu' is no device"),
        ([torch.device('cpu', 0), torch.device('cpu', 1)], ValueError, 'the one CPU'),
        ([pt.StandIn(0), torch.device('cuda', 99)], ValueError, 'index=99.* is not there'),
    ],
)
def test_devices_that_cannot_be(devices, error, words):
    with pytest.raises(error, match=words):
        pt.train(2, 256, 0.2, devices=devices)


def test_launch_refuses_a_time_limit_that_is_none():
    with pytest.raises(ValueError, match='timeout must be a number above 0, not -1'):
        pt.launch(print, 2, timeout=-1)


def test_launch_refuses_what_it_cannot_call():
    with pytest.raises(TypeError, match="function must be something to call, not 'train'"):
        pt.launch('train', 2)


def first_fails():
    import torch.distributed as dist

    if dist.get_rank() == 1:
        raise ArithmeticError('rank 1 has had enough')
    dist.all_reduce(
        torch.ones(1, device=pt.this_device())
    )  # waits for rank 1, or hears that it is gone


def second_is_killed():
    import torch.distributed as dist

    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(torch.ones(1, device=pt.this_device()))


@pytest.mark.parametrize(
    'function,words',
    [
        (first_fails, 'rank 1 failed with ArithmeticError: rank 1 has had enough'),
        (second_is_killed, r'rank 1 was killed by signal 9 \(SIGKILL\)'),
    ],
)
def test_a_rank_that_fails_ends_the_run_with_its_own_error(function, words):
    started = time.time()
    with pytest.raises(ProcessFailed, match=words):
        pt.launch(function, 2)
    assert time.time() - started < 30


def test_a_rank_killed_in_the_middle_of_training_ends_it(capsys):
    """As the kernel's out-of-memory killer does it: from outside, during train_ddp."""
    import threading

    def kill_a_rank():
        while not (found := workers()):
            time.sleep(0.1)
        time.sleep(6)  # imports, group, the first steps
        found[-1].kill()
        killed.append(time.time())

    killed = []
    killer = threading.Thread(target=kill_a_rank)
    killer.start()
    with pytest.raises(ProcessFailed, match='rank . was killed by signal 9'):
        pt.train_ddp(2, 64, 0.2, num_epochs=50, seed=0)
    assert time.time() - killed[0] < 30
    killer.join()


def workers(process=None):
    children = (process or psutil.Process()).children(recursive=True)
    return [p for p in children if 'worker._main()' in ' '.join(p.cmdline())]


def listening():
    mine = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return {c.laddr.port for p in mine for c in p.net_connections() if c.status == 'LISTEN'}


def test_no_port_is_left_open_and_one_in_use_is_no_trouble(monkeypatch):
    """PyTorch's usual port is taken, and named in the environment, as a cluster may have it."""
    before = listening()
    with contextlib.closing(socket.socket()) as taken:
        with contextlib.suppress(OSError):  # somebody else has it: as good
            taken.bind(('127.0.0.1', 29500))
            taken.listen()
        monkeypatch.setenv('MASTER_ADDR', '127.0.0.1')
        monkeypatch.setenv('MASTER_PORT', '29500')
        pt.train_ddp(2, 64, 0.2, num_epochs=1, num_examples=256)
    assert listening() <= before


def test_stop_button_ends_all_workers_and_leaves_a_usable_kernel():
    """Interrupted as Jupyter does it, when the bar of the first epoch is seen to move."""
    from jupyter_client.manager import start_new_kernel

    training = """
        import psutil
        import mgpu_helpers as mgpu
        mgpu.pytorch.train_ddp(2, 64, 0.2, num_epochs=50, seed=0)
    """
    again = """
        children = psutil.Process().children(recursive=True)
        left = [p for p in children if 'worker._main()' in ' '.join(p.cmdline())]
        history = mgpu.pytorch.train_ddp(2, 64, 0.2, num_epochs=1, num_examples=640, seed=0)
        print(len(left), len(history.seconds))
    """
    manager, client = start_new_kernel(kernel_name='python3')
    messages, bars = [], []

    def watch(message):
        messages.append(message)
        if 'data' in message['content']:
            bars.append(message['content']['data']['text/plain'])
            if 'epoch 1/50' in bars[-1] and len(bars) == 4:
                manager.interrupt_kernel()

    try:
        first, second = (
            client.execute_interactive(textwrap.dedent(cell), output_hook=watch, timeout=120)[
                'content'
            ]
            for cell in (training, again)
        )
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert (first['status'], first['ename']) == ('error', 'KeyboardInterrupt')
    assert second['status'] == 'ok', second
    printed = ''.join(m['content']['text'] for m in messages if m['msg_type'] == 'stream')
    assert printed.splitlines()[-1] == '0 1'
    assert bars[-1] == ''


def test_live_curve_is_one_display_with_a_picture():
    from jupyter_client.manager import start_new_kernel

    cell = """
        import mgpu_helpers as mgpu
        _ = mgpu.pytorch.train(1, 64, 0.2, num_epochs=2, num_examples=640, seed=0)
    """
    manager, client = start_new_kernel(kernel_name='python3')
    messages = []
    try:
        client.execute_interactive(textwrap.dedent(cell), output_hook=messages.append, timeout=120)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    curves = [m for m in messages if 'image/png' in m['content'].get('data', {})]
    assert [m['msg_type'] for m in curves] == ['display_data'] + ['update_display_data'] * 2
    text = 'test accuracy after each epoch, devices: 1, batch: 64'
    assert {m['content']['data']['text/plain'] for m in curves} == {text}
    assert len({m['content']['data']['image/png'] for m in curves}) == 3


def test_torchrun_runs_the_same_code():
    arguments = '--batch-size 64 --lr 0.2 --num-epochs 1 --num-examples 640 --seed 0'.split()
    torchrun = [sys.executable, '-m', 'torch.distributed.run', '--standalone', '--nproc-per-node=2']
    done = subprocess.run(
        [*torchrun, '-m', 'mgpu_helpers.pytorch', *arguments],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith('epoch 1, time: ')
    alone = subprocess.run(
        [sys.executable, '-m', 'mgpu_helpers.pytorch', '--num-gpus=2', *arguments],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert alone.stdout.startswith('running on: ')
    assert alone.stdout.split('test acc')[1] == done.stdout.split('test acc')[1]


@pytest.mark.parametrize('bad', ['--num-epochs=0', '--lr=-1', '--num-gpus=0', '--batch-size=x'])
def test_command_line_refuses(bad):
    done = subprocess.run(
        [sys.executable, '-m', 'mgpu_helpers.pytorch', bad], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert bad.split('=')[0] in done.stderr.splitlines()[-1]


def test_offline_the_notice_comes_once(tmp_path):
    """Neither files nor a server that answers: this process warns, its workers do not again."""
    env = os.environ | {'MXNET_HOME': str(tmp_path), 'MGPU_DATA_MIRRORS': 'http://127.0.0.1:9/'}
    code = """
import mgpu_helpers as mgpu
mgpu.pytorch.train_ddp(2, 64, 0.2, num_epochs=1, num_examples=256)
"""
    done = subprocess.run(
        [sys.executable, '-c', code], capture_output=True, text=True, env=env, check=True
    )
    assert (done.stdout + done.stderr).count('is not to be had') == 1
