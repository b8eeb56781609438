"""Chapter 1's ``train``: what it prints, returns, learns and refuses."""

import textwrap

import mxnet as mx
import pytest

import mgpu_helpers as mgpu


@pytest.mark.slow
def test_train_learns():
    """900 steps: enough to leave chance level, on any of the sets."""
    learned = mgpu.train(2, 32, 0.2, num_epochs=2, num_examples=14_400, seed=0)
    assert learned.test_acc[-1] > 0.5
    assert learned.train_loss[-1] < learned.train_loss[0] - 0.5


def test_prints_as_the_sources_do_and_gives_a_value_per_epoch(capsys):
    history = mgpu.train(1, 256, 0.2, num_epochs=2, num_examples=512, seed=0)
    lines = capsys.readouterr().out.splitlines()[-3:]
    assert lines[0] in ('running on: [cpu(0)]', 'running on: [gpu(0)]')
    assert lines[1].startswith('epoch 1, time: ')
    assert ' sec, test acc: 0.' in lines[2]
    assert len(history.seconds) == len(history.train_loss) == len(history.test_acc) == 2
    rates = [512 / s for s in history.seconds]
    assert history.examples_per_second == pytest.approx(rates)
    assert history.label == 'devices: 1, batch: 256'


def test_one_and_three_devices_learn_the_same_in_float64_and_a_run_repeats():
    """257 = 2 × 128 + 1: no batch divides by three, and the last one has one example for three."""
    one, three, again = (
        mgpu.train(k, 128, 0.2, 1, num_examples=257, seed=5, dtype='float64') for k in (1, 3, 3)
    )
    assert three.train_loss == pytest.approx(one.train_loss, rel=1e-10)
    assert three.test_acc == one.test_acc
    assert (three.train_loss, three.test_acc) == (again.train_loss, again.test_acc)


def test_own_devices_and_another_sync_are_used(capsys):
    """Without any sum, device 0 trains on its own half of the batch, and the replicas drift."""
    seen, own = [], [mx.cpu(1), mx.cpu(4)]
    mgpu.train(2, 64, 0.2, 1, num_examples=64, seed=0, devices=own, sync=seen.append)
    assert 'running on: [cpu(1), cpu(4)]' in capsys.readouterr().out
    ((on_first, on_second),) = seen
    assert len(on_first) == len(on_second) == 8
    assert not (on_first[0].asnumpy() == on_second[0].asnumpy()).all()


def test_train_refuses_before_it_begins(capsys):
    for change, error, words in [
        ({'num_gpus': 0}, ValueError, 'num_gpus must be at least 1, not 0'),
        ({'num_gpus': 1.5}, TypeError, 'num_gpus.*1.5'),
        ({'num_gpus': True}, TypeError, 'num_gpus.*True'),
        ({'num_gpus': '2'}, TypeError, "num_gpus.*'2'"),
        ({'devices': [mx.cpu(0), mx.cpu(0)]}, ValueError, r'cpu\(0\) appears more than once'),
        ({'devices': [mx.cpu(0)]}, ValueError, 'num_gpus is 2, but devices lists 1'),
        ({'devices': []}, ValueError, 'empty list'),
        ({'devices': ['cpu(0)', 'cpu(1)']}, TypeError, 'no MXNet device'),
        ({'batch_size': 0}, ValueError, 'batch_size'),
        ({'batch_size': 2.0}, TypeError, 'batch_size'),
        ({'lr': 0}, ValueError, 'lr'),
        ({'num_epochs': 0}, ValueError, 'num_epochs'),
        ({'num_examples': 0}, ValueError, 'num_examples'),
        ({'num_examples': 60001}, ValueError, 'num_examples'),
        ({'dtype': 'int8'}, ValueError, 'dtype'),
    ]:
        with pytest.raises(error, match=words):
            mgpu.train(**({'num_gpus': 2, 'batch_size': 256, 'lr': 0.2} | change))
        assert 'running on' not in capsys.readouterr().out


def test_interrupted_epoch_leaves_a_usable_kernel():
    """SIGINT, as Jupyter's stop button sends it, in the middle of an epoch; then the next cells."""
    from jupyter_client.manager import start_new_kernel

    interrupted = """
        import os, signal
        import mgpu_helpers as mgpu

        batches = []
        def interrupted_at_the_fifth(grads):
            mgpu.sync_gradients(grads)
            batches.append(len(grads))
            if len(batches) == 5:
                os.kill(os.getpid(), signal.SIGINT)

        mgpu.train(2, 64, 0.2, num_examples=6400, seed=0, sync=interrupted_at_the_fifth)
    """
    again = """
        history = mgpu.train(2, 64, 0.2, num_epochs=1, num_examples=640, seed=0)
        print(len(batches), len(history.seconds))
    """
    manager, client = start_new_kernel(kernel_name='python3')
    try:
        messages = []
        first = client.execute_interactive(
            textwrap.dedent(interrupted), output_hook=messages.append, timeout=120
        )['content']
        bars = [m['content']['data']['text/plain'] for m in messages if 'data' in m['content']]
        second = client.execute_interactive(
            textwrap.dedent(again), output_hook=messages.append, timeout=120
        )['content']
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert (first['status'], first['ename']) == ('error', 'KeyboardInterrupt')
    assert second['status'] == 'ok', second
    printed = ''.join(m['content']['text'] for m in messages if m['msg_type'] == 'stream')
    assert printed.splitlines()[-1] == '5 1'
    assert any('epoch 1/4' in text for text in bars)
    assert bars[-1] == ''
