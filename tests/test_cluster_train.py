"""Training in a real cluster: the same numbers as in one process, also when resumed."""

import collections
import re
import shutil
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from mgpu_helpers import gluon as single
from mgpu_helpers import scratch
from mgpu_helpers.cluster import (
    LocalCluster,
    connect,
    latest_checkpoint,
    load_checkpoint,
    load_parameters,
    make_trainer,
    parameters,
    resume,
    save_checkpoint,
    shard,
    socket_bytes,
    train,
    train_epoch,
)
from mgpu_helpers.gluon import mx
from mgpu_helpers.processes import ProcessFailed

pytestmark = pytest.mark.usefixtures('started')
ROOT = Path(__file__).resolve().parent.parent


def fresh_net(num_devices=1, seed=None):
    """Make LeNet with its deferred shapes resolved."""
    net, devices = single.lenet(), [mx.cpu(i) for i in range(num_devices)]
    single.prepare(net, devices, seed)
    for device in devices:
        net(mx.nd.zeros((1, 1, 28, 28), ctx=device))
    return net


def run(function, *args, cluster=None, **kwargs):
    """Return the results of two workers and a server, or of another cluster."""
    return (cluster or LocalCluster(2, 1)).run(function, *args, show=False, **kwargs)


def fingerprints(X, y):
    """Identify an example by its label and all its pixels."""
    return [(int(label), image.tobytes()) for image, label in zip(X.asnumpy(), y.asnumpy())]


def a_few_steps(kind, num_gpus, batch_size, num_examples, start):
    """One epoch, in a worker; return all its replicas' parameters and three epochs' shards."""
    store, devices, net, trainer = connect(kind, num_gpus, lr=0.2, seed=0)
    load_parameters(net, start)
    train_iter, _ = single.load_data_fashion_mnist(batch_size, num_examples, seed=0)
    train_epoch(train_iter, net, devices, trainer, store)
    epochs = []
    for _ in range(3):
        parts = [[shard(a, store.rank, store.num_workers) for a in batch] for batch in train_iter]
        epochs.append([f for part in parts if len(part[0]) for f in fingerprints(*part)])
    params = net.collect_params()
    return [{n: p.data(d).asnumpy() for n, p in params.items()} for d in devices], epochs


def flat(arrays):
    return np.concatenate([a.ravel() for a in arrays.values()]).astype('float64')


def test_as_one_process_and_every_example_once():
    """From the small start, where the order of a sum does not yet flip a ReLU (see DESIGN).

    The last batch has two examples for three workers of two devices each.
    """
    workers, servers, kind, num_gpus, num_examples = 3, 2, 'dist_device_sync', 2, 2 * 250 + 2
    values = [p.asnumpy() for p in scratch.init_params(seed=0)]  # chapter 1's start, scale 0.01
    values[4], values[6] = values[4].T, values[6].T  # Dense keeps (out, in)
    net, cluster = fresh_net(), LocalCluster(workers, servers)
    start = dict(zip(net.collect_params(), values, strict=True))
    results = run(a_few_steps, kind, num_gpus, 250, num_examples, start, cluster=cluster)
    replicas = [replica for of_worker, _ in results for replica in of_worker]
    assert len(replicas) == workers * num_gpus
    for replica in replicas[1:]:
        assert all(np.array_equal(replica[name], replicas[0][name]) for name in replica)
    # The same by chapter 2's functions, which know nothing of workers.
    load_parameters(net, start)
    trainer = single.make_trainer(net, lr=0.2)
    for X, y in single.load_data_fashion_mnist(250, num_examples, seed=0)[0]:
        single.train_batch(X, y, net, [mx.cpu(0)], trainer)
    theirs, ours = flat(parameters(net)), flat(replicas[0])
    way = np.linalg.norm(theirs - flat(start))
    assert way > 1e-4 * np.linalg.norm(theirs)  # it has moved
    error = np.linalg.norm(ours - theirs)
    # One example left out of 250 would be about 4e-3 of the way.
    assert error <= 1e-5 * np.linalg.norm(theirs) and error <= 1e-3 * way

    every = list(scratch.load_data_fashion_mnist(60_000, num_examples, seed=9)[0])[0]
    every = collections.Counter(fingerprints(*every))
    for epoch in range(3):
        assert collections.Counter(f for _, epochs in results for f in epochs[epoch]) == every
    orders = [tuple(epoch) for epoch in results[0][1]]
    assert len(set(orders)) == 3


def test_shards_are_all_of_it_in_order_and_as_equal_as_can_be():
    for num_workers in (1, 2, 3, 16):
        for n in [*range(70), 255, 256, 257]:
            shards = [shard(range(n), rank, num_workers) for rank in range(num_workers)]
            assert [i for part in shards for i in part] == list(range(n))
            assert max(map(len, shards)) - min(map(len, shards)) <= 1


# Evaluating on 10,000 images takes most of such an epoch.
RUN = {'num_examples': 512, 'num_epochs': 3, 'lr': 0.1, 'batch_size': 64}


@pytest.fixture(scope='module')
def plain(tmp_path_factory):
    """The folder of checkpoints of an uninterrupted run of two workers."""
    folder = tmp_path_factory.mktemp('whole')
    first, second = run(train, checkpoints=folder, **RUN)
    assert all(first[name].tobytes() == second[name].tobytes() for name in first)
    return folder


@pytest.mark.slow  # chapter 4 kills one worker, resumes, and compares
@pytest.mark.parametrize('victim', ['worker 0', 'server 0', 'scheduler'])
def test_killed_and_resumed_it_ends_in_the_same_parameters(plain, tmp_path, victim):
    """To the last bit: two workers' gradients have the same sum in either order."""

    def kill():
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            if any('epoch-0002' in path.name for path in tmp_path.iterdir()):
                return cluster.kill(victim)
            time.sleep(0.0005)  # a checkpoint is being saved for some milliseconds

    with LocalCluster(2, 1) as cluster:
        thread = threading.Thread(target=kill)
        thread.start()
        with pytest.raises(ProcessFailed, match=f'^{victim} was killed by signal 9'):
            many = RUN | {'num_epochs': 1000}
            run(train, cluster=cluster, checkpoints=tmp_path, settle=0.3, **many)
        thread.join()
        for path in sorted(tmp_path.glob('epoch-*.ckpt'))[2:]:
            path.unlink()  # without the scheduler, they go on for a moment
        with warnings.catch_warnings():
            warnings.simplefilter('error')  # what is there is whole
            done = latest_checkpoint(tmp_path).epoch
        assert done >= 1
        run(train, cluster=cluster, checkpoints=tmp_path, **RUN)
    said = [row[2].split(',')[0] for row in cluster.output.rows]
    assert [text for text in said if text.startswith('epoch')] == [
        f'epoch {epoch}' for epoch in range(done + 1, 4)
    ]
    for name in ('epoch-0001.ckpt', 'epoch-0003.ckpt'):
        ours, theirs = load_checkpoint(tmp_path / name), load_checkpoint(plain / name)
        assert (ours.epoch, ours.info) == (theirs.epoch, theirs.info)
        assert list(ours.arrays) == list(theirs.arrays)
        assert all(ours.arrays[n].tobytes() == theirs.arrays[n].tobytes() for n in ours.arrays)


@pytest.fixture(scope='module')
def alone(tmp_path_factory):
    """The checkpoints of a run without a cluster, read only."""
    folder = tmp_path_factory.mktemp('alone')
    train('local', checkpoints=folder, **RUN)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    yield folder
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_a_run_that_is_done_returns_at_once(alone, capsys):
    """The store 'local' needs no cluster."""
    train('local', checkpoints=alone, **RUN)
    assert 'epoch' not in capsys.readouterr().out
    last, net = load_checkpoint(alone / 'epoch-0003.ckpt'), fresh_net(2, seed=7)
    train_iter, _ = single.load_data_fashion_mnist(64, 512, seed=0)
    assert resume(net, train_iter, mx.kv.create('local'), alone, **last.info) == 3
    for name, param in net.collect_params().items():
        for replica in param.list_data():
            assert replica.asnumpy().tobytes() == last.arrays[name].tobytes()


def test_other_settings_or_another_network_are_refused(alone):
    words = 'is of a run with .*: take the same settings, or another'
    last = latest_checkpoint(alone)
    train_iter, _ = single.load_data_fashion_mnist(64, 512, seed=0)
    store = mx.kv.create('local')
    changes = {'lr': 0.2, 'batch_size': 128, 'seed': 1, 'num_examples': 1000}
    for name, value in changes.items():
        with pytest.raises(ValueError, match=words):
            resume(single.lenet(), train_iter, store, alone, **last.info | {name: value})
    net = single.nn.Dense(10, in_units=784)
    net.initialize()
    with pytest.raises(ValueError, match='parameters of another network: .* has the shape'):
        load_parameters(net, last.arrays)


def go_on(kind, folders, info):
    """In a worker: resume from each pair of folders in turn; return the epochs or the error."""
    store, _, net, _ = connect(kind, 1, lr=0.1, seed=0)
    results = []
    for pair in folders:
        train_iter, _ = single.load_data_fashion_mnist(64, 512, seed=0)
        try:
            results.append(resume(net, train_iter, store, pair[store.rank], **info))
        except (ValueError, OSError) as error:
            results.append(str(error))
    return results


@pytest.mark.parametrize('kind', ['dist_sync', 'dist_async'])
def test_all_go_on_from_the_same_checkpoint_or_none_does(alone, tmp_path, kind):
    """Otherwise one worker would take more steps than the other and wait for it forever."""
    last = latest_checkpoint(alone)
    copies = {n: tmp_path / n for n in ('same', 'older', 'other', 'broken', 'a file')}
    for name in ('same', 'older', 'other', 'broken'):
        shutil.copytree(alone, copies[name])
    (copies['older'] / 'epoch-0003.ckpt').unlink()
    save_checkpoint(copies['other'], 3, {n: 2 * a for n, a in last.arrays.items()}, **last.info)
    (copies['broken'] / 'epoch-0003.ckpt').write_bytes(b'')
    copies['a file'].touch()
    pairs = [(alone, folder) for folder in (*copies.values(), None)]
    first, second = run(go_on, kind, [*pairs, [copies['broken']] * 2], last.info, timeout=120)
    assert (first.pop(0), first.pop()) == (second.pop(0), second.pop()) == (3, 2)
    for ours, theirs, folder, state in (
        (first[0], second[0], copies['older'], 'epoch 2 .*'),
        (first[1], second[1], copies['other'], 'epoch 3 .*'),
        (first[2], second[2], copies['broken'], 'epoch 2 .*'),
        (first[3], '', copies['a file'], 'an error .*Not a directory.*'),
        (first[4], second[4], 'no folder', 'no checkpoint'),
    ):
        words = rf'\(rank 0: epoch 3 .* in .*{alone}; rank 1: {state} in .*{folder}\): let all'
        assert re.search(words, ours), ours
        assert theirs in ('', ours)  # one sentence for all
    assert 'Not a directory' in second[3]


def learn(kind, code=None):
    """Train in a worker, perhaps with another trainer; give the accuracy."""
    store, devices, net, trainer = connect(kind, 1, lr=0.3, seed=0)
    if code:
        exec(code, names := {})
        trainer = names['compressing'](net, store)
    train_iter, test_iter = single.load_data_fashion_mnist(64, 6400, seed=0)
    for _ in range(3):
        before = socket_bytes()
        train_epoch(train_iter, net, devices, trainer, store)
        sent, received = (now - then for now, then in zip(socket_bytes(), before))
    return single.evaluate_accuracy_gpus(net, test_iter), sent / 100 / MODEL, received / 100 / MODEL


MODEL = 4 * 129_068  # bytes


@pytest.mark.slow
def test_they_learn_and_each_gradient_is_sent_once_each_parameter_received_once():
    """With dist_async; and in 2 bits, as README shows it, a sixteenth. Chapter 4 has dist_sync."""
    readme = (ROOT / 'training' / 'README.md').read_text()
    (code,) = re.findall('```python\n(.*?)```', readme, re.DOTALL)
    for kind, more, expected in (('dist_async', (), 1), ('dist_sync', (code,), 1 / 16)):
        for test_acc, sent, received in run(learn, kind, *more):
            assert test_acc > 0.6
            assert sent == pytest.approx(expected, rel=0.03)
            assert received == pytest.approx(1, rel=0.01)


def test_refused_before_it_begins(capsys):
    for change, words in (
        ({'kind': 'dist_asnyc'}, 'kind must be one of local, device, nccl, dist_sync'),
        ({'kind': 'dist_sync'}, 'needs a cluster, and this process is no worker of one'),
        ({'num_epochs': 0}, 'num_epochs must be at least 1, not 0'),
        ({'batch_size': 0}, 'batch_size must be at least 1, not 0'),
        ({'num_gpus': 0}, 'num_gpus must be at least 1, not 0'),
        ({'lr': -1}, 'lr must be a number above 0, not -1'),
        ({'seed': None}, 'seed must be an integer of at least 0, not None'),
    ):
        with pytest.raises((TypeError, ValueError, RuntimeError), match=words):
            train(**{'kind': 'local'} | change)
    assert 'epoch' not in capsys.readouterr().out
    with pytest.raises(ValueError, match='kind must be one of local, device'):
        make_trainer(fresh_net(), 0.1, mx.kv.create('lokal'))  # MXNet takes it
