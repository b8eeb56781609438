"""Training in a real cluster: the same numbers as in one process, also when resumed."""

import collections
import contextlib
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from workers import at_work, on_workers

from mgpu_helpers import gluon as single
from mgpu_helpers import scratch
from mgpu_helpers.cluster import (
    connect,
    latest_checkpoint,
    load_checkpoint,
    parameters,
    resume,
    save_checkpoint,
    serve,
    shard,
    train,
    train_epoch,
)
from mgpu_helpers.gluon import mx


def set_parameters(net, arrays):
    for name, param in net.collect_params().items():
        param.set_data(mx.nd.array(arrays[name]))


def fresh_net(num_devices=1, seed=None):
    """Make LeNet with its deferred shapes resolved."""
    net, devices = single.lenet(), [mx.cpu(i) for i in range(num_devices)]
    single.prepare(net, devices, seed)
    for device in devices:
        net(mx.nd.zeros((1, 1, 28, 28), ctx=device))
    return net


def fingerprints(X, y):
    """Identify an example by its label and all its pixels."""
    return [(int(label), image.tobytes()) for image, label in zip(X.asnumpy(), y.asnumpy())]


def a_few_steps(kind, num_gpus, batch_size, num_examples, start):
    """One epoch, in a worker; return all its replicas' parameters and three epochs' shards."""
    store, devices, net, trainer = connect(kind, num_gpus, lr=0.2, seed=0)
    set_parameters(net, start)
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


@pytest.mark.usefixtures('started')
def test_as_one_process_and_every_example_once():
    """From the small start, where the order of a sum does not yet flip a ReLU (see DESIGN).

    The last batch has two examples for three workers of two devices each.
    """
    workers, servers, kind, num_gpus, num_examples = 3, 2, 'dist_device_sync', 2, 2 * 250 + 2
    values = [p.asnumpy() for p in scratch.init_params(seed=0)]  # chapter 1's start, scale 0.01
    values[4], values[6] = values[4].T, values[6].T  # Dense keeps (out, in)
    net = fresh_net()
    start = dict(zip(net.collect_params(), values, strict=True))
    settings = num_gpus, 250, num_examples, start
    results = on_workers(a_few_steps, kind, *settings, workers=workers, servers=servers)
    replicas = [replica for of_worker, _ in results for replica in of_worker]
    assert len(replicas) == workers * num_gpus
    for replica in replicas[1:]:
        assert all(np.array_equal(replica[name], replicas[0][name]) for name in replica)
    # The same by chapter 2's functions, which know nothing of workers.
    set_parameters(net, start)
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


# Evaluating on 10,000 images takes most of such an epoch.
RUN = {'num_examples': 512, 'num_epochs': 3, 'lr': 0.1, 'batch_size': 64}
SETTINGS = {name: RUN[name] for name in ('num_examples', 'lr', 'batch_size')} | {'seed': 0}


@pytest.fixture(scope='module')
def pair():
    """Call a function in two workers, each time with a new store."""
    with at_work() as (ranks, _):

        def call(function, *args, **kwargs):
            serve(ranks[:])
            return ranks[:].apply_sync(function, *args, **kwargs)

        yield call


@pytest.fixture(scope='module')
def whole(pair, tmp_path_factory):
    """The folder and the parameters of an uninterrupted run of two workers."""
    folder = tmp_path_factory.mktemp('whole')
    first, second = pair(train, checkpoints=folder, **RUN)
    assert all(first[name].tobytes() == second[name].tobytes() for name in first)
    return folder, first


def go_on(folders):
    """In a worker: resume from a folder of its own; give the error."""
    store, _, net, _ = connect('dist_sync', 1, lr=0.1, seed=0)
    train_iter, _ = single.load_data_fashion_mnist(64, 512, seed=0)
    with contextlib.suppress(ValueError):
        return resume(net, train_iter, store, folders[store.rank], **SETTINGS)
    return 'refused'


def test_all_go_on_from_the_same_epoch_or_none_does(whole, pair, tmp_path):
    """Otherwise one worker would take more steps than the other and wait for it forever."""
    assert pair(go_on, [whole[0], whole[0]]) == [3, 3]
    assert pair(go_on, [whole[0], tmp_path]) == ['refused'] * 2


def test_a_run_that_is_done_returns_at_once(whole, capsys):
    """The store 'local' needs no cluster; all replicas get the parameters."""
    folder, params = whole
    train('local', checkpoints=folder, **RUN)
    assert 'epoch' not in capsys.readouterr().out
    net = fresh_net(2, seed=7)
    train_iter, _ = single.load_data_fashion_mnist(64, 512, seed=0)
    assert resume(net, train_iter, mx.kv.create('local'), folder, **SETTINGS) == 3
    for name, param in net.collect_params().items():
        for replica in param.list_data():
            assert replica.asnumpy().tobytes() == params[name].tobytes()


def test_other_settings_another_network_and_a_damaged_file_are_refused(whole, tmp_path):
    _, path = latest_checkpoint(whole[0])
    for name, value in {'lr': 0.2, 'batch_size': 128, 'seed': 1, 'num_examples': 1000}.items():
        with pytest.raises(ValueError, match='was saved by a run with .*: use the same settings'):
            load_checkpoint(path, fresh_net(), **SETTINGS | {name: value})
    net = single.nn.Dense(10, in_units=784)
    net.initialize()
    with pytest.raises(ValueError, match='damaged or from another network .*remove this folder'):
        load_checkpoint(path, net, **SETTINGS)
    copy = shutil.copytree(path, tmp_path / 'epoch-0003')
    file, net = copy / 'net.params', fresh_net(seed=3)
    file.write_bytes(file.read_bytes()[:-1000])
    with pytest.raises(ValueError, match='damaged or from another network .*remove this folder'):
        load_checkpoint(copy, net, **SETTINGS)


def interrupted(path):
    """Leave half a file, as a save that is killed does."""
    Path(path).write_bytes(b'half')
    raise KeyboardInterrupt


def test_a_trainers_momentum_is_saved_too_and_a_killed_save_leaves_no_half(tmp_path):
    nets = [fresh_net(seed=0), fresh_net(seed=1)]
    options = {'learning_rate': 0.1, 'momentum': 0.9}
    trainers = [single.gluon.Trainer(n.collect_params(), 'sgd', dict(options)) for n in nets]
    X, y = next(iter(single.load_data_fashion_mnist(64, 64, seed=0)[0]))
    single.train_batch(X, y, nets[0], [mx.cpu(0)], trainers[0])
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(trainers[0], 'save_states', interrupted)
        save_checkpoint(tmp_path, 1, nets[0], trainers[0], lr=0.1)
    assert latest_checkpoint(tmp_path) is None and any(tmp_path.iterdir())
    path = save_checkpoint(tmp_path, 1, nets[0], trainers[0], lr=0.1)
    assert latest_checkpoint(tmp_path) == (1, path) and path.name == 'epoch-0001'
    single.train_batch(X, y, nets[1], [mx.cpu(0)], trainers[1])  # so that it has states
    load_checkpoint(path, nets[1], trainers[1], lr=0.1)
    for net, trainer in zip(nets, trainers):
        single.train_batch(X, y, net, [mx.cpu(0)], trainer)
    ours, theirs = (list(parameters(net).values()) for net in nets)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(ours, theirs, strict=True))


def test_a_full_disk_is_named_and_leaves_no_checkpoint(tmp_path, full_disk):
    with pytest.raises(OSError, match='epoch-0001.tmp could not be written: .*disk full'):
        save_checkpoint(tmp_path, 1, fresh_net(), lr=0.1)
    assert latest_checkpoint(tmp_path) is None


@pytest.mark.usefixtures('started')
def test_killed_and_resumed_it_ends_in_the_same_parameters(whole, tmp_path):
    """To the last bit: two workers' gradients have the same sum in either order."""
    with at_work() as (ranks, processes):
        many = RUN | {'num_epochs': 1000}
        ranks[:].apply_async(train, checkpoints=tmp_path, **many)
        deadline = time.monotonic() + 120
        while not (tmp_path / 'epoch-0002').exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        for name in ('worker 0', 'worker 1'):
            processes[name].kill()
            processes[name].wait()
    for path in sorted(tmp_path.glob('epoch-*'))[2:]:  # what came before the kill
        path.rename(tmp_path / path.with_suffix('.tmp'))  # is as half written
    with at_work() as (ranks, _):
        again = ranks[:].apply_async(train, checkpoints=tmp_path, **RUN)
        resumed, _ = again.get()
        again.wait_for_output(30)
        assert [line.split(',')[0] for line in again.stdout[0].splitlines()] == ['epoch 3']
    assert all(resumed[name].tobytes() == whole[1][name].tobytes() for name in resumed)


def test_refused_before_it_begins(capsys):
    for change, words in (
        ({'kind': 'dist_asnyc'}, 'kind must be one of local, device, nccl, dist_sync'),
        ({'kind': 'dist_sync'}, 'needs a cluster, but this process is not a worker'),
        ({'num_epochs': 0}, 'num_epochs must be at least 1, not 0'),
        ({'batch_size': 0}, 'batch_size must be at least 1, not 0'),
        ({'num_gpus': 0}, 'num_gpus must be at least 1, not 0'),
        ({'lr': -1}, 'lr must be a number above 0, not -1'),
        ({'seed': None}, 'seed must be an integer of at least 0, not None'),
    ):
        with pytest.raises((TypeError, ValueError, RuntimeError), match=words):
            train(**{'kind': 'local'} | change)
    assert 'epoch' not in capsys.readouterr().out
