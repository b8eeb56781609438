"""Chapter 1's ``train``: what it prints, returns and learns."""

import os
import signal
import threading

import mxnet as mx
import numpy as np
import pytest
from mxnet import nd

import mgpu_helpers as mgpu


@pytest.mark.slow
def test_full_runs_on_one_and_on_two_devices_learn_alike():
    """The original texts' run, four epochs; the chapter itself takes three."""
    accuracies = [mgpu.train(k, 256, 0.2, seed=0).test_acc[-1] for k in (1, 2)]
    assert min(accuracies) >= 0.70
    assert abs(accuracies[0] - accuracies[1]) <= 0.03


def test_one_and_three_devices_learn_the_same_and_a_run_repeats(capsys):
    """257 = 2 × 128 + 1: no batch divides by three, and the last one has one example for three."""
    few, synced = {'num_examples': 257, 'seed': 5}, []

    def sync(grads):
        synced.append((len(grads), len(grads[0])))
        mgpu.sync_gradients(grads)

    one = mgpu.train(1, 128, 0.2, num_epochs=2, **few)
    first, *epochs = capsys.readouterr().out.splitlines()[-3:]
    assert first in ('running on: [cpu(0)]', 'running on: [gpu(0)]')
    assert epochs[0].startswith('epoch 1, time: ') and ' sec, test acc: 0.' in epochs[1]
    assert len(one.seconds) == len(one.train_loss) == len(one.test_acc) == 2
    assert one.examples_per_second == pytest.approx([257 / s for s in one.seconds])
    assert one.label == 'devices: 1, batch: 128'
    own = [mx.cpu(1), mx.cpu(4), mx.cpu(0)]
    three, again = (mgpu.train(3, 128, 0.2, 1, devices=own, sync=sync, **few) for _ in range(2))
    assert 'running on: [cpu(1), cpu(4), cpu(0)]' in capsys.readouterr().out
    assert synced == [(3, 8)] * 6
    # From the small start, rounding to float32 does not grow.
    assert three.train_loss == pytest.approx(one.train_loss[:1], rel=1e-6)
    assert three.test_acc == one.test_acc[:1]
    assert (three.train_loss, three.test_acc) == (again.train_loss, again.test_acc)
    assert [replica[0].context for replica in three.params] == own
    for param in zip(*three.params, *again.params, strict=True):  # what was trained
        assert all(np.array_equal(p.asnumpy(), param[0].asnumpy()) for p in param)
    assert not np.array_equal(one.params[0][7].asnumpy(), three.params[0][7].asnumpy())


def test_a_run_that_diverges_stops_after_the_epoch():
    with pytest.raises(FloatingPointError, match='epoch 1 .* mean loss of nan.* lr'):
        mgpu.train(1, 64, 1e38, num_examples=256, seed=0)


def test_a_stop_finds_few_batches_handed_out():
    """Pushed operators run even if Python is interrupted: 40 of these take half a minute."""
    images, labels = np.zeros((160, 28, 28), dtype='uint8'), np.zeros(160, dtype='int32')
    batches = mgpu.scratch.NDArrayIter(mgpu.data.Batches(images, labels, batch_size=4))
    square, handed = nd.ones((2000, 2000)) / 2000, []
    product = square  # each takes the one before, as training steps do
    with pytest.raises(KeyboardInterrupt):
        for X, _ in batches:
            if len(handed) == 2:  # the first has been waited for
                threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
            handed.append(X)
            for _ in range(4):
                product = nd.dot(product, square)
    nd.waitall()
    assert len(handed) < 24


def test_interrupted_epoch_leaves_a_usable_kernel(kernel):
    """SIGINT, as Jupyter's stop button sends it, in the middle of an epoch; then the next cells."""
    stopped, _, waiting = kernel("""
        import os, signal, time
        import mgpu_helpers as mgpu

        batches = []
        def interrupted_at_the_fifth(grads):
            mgpu.sync_gradients(grads)
            batches.append(len(grads))
            time.sleep(0.3)  # long enough for a bar
            if len(batches) == 5:
                os.kill(os.getpid(), signal.SIGINT)

        mgpu.train(2, 64, 0.2, num_examples=6400, seed=0, sync=interrupted_at_the_fifth)
    """)
    again, _, printed = kernel("""
        history = mgpu.train(2, 64, 0.2, num_epochs=1, num_examples=640, seed=0)
        history.plot()
        print(len(batches), len(history.seconds), history.examples_per_second[0] > 0)
    """)
    assert (stopped['status'], stopped['ename']) == ('error', 'KeyboardInterrupt')
    *bars, last = waiting['stdout'].split('\r')  # the bar came, and is gone
    assert 'training' in bars[-2] and not bars[-1].strip() and not last
    assert again['status'] == 'ok', again
    assert printed['stdout'].splitlines()[-1] == '5 1 True'
