"""Chapter 5's functions: k devices equal one, on the data of the course.

The chapter itself holds them to chapter 1's.
"""

import os
import re
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

torch = pytest.importorskip('torch', reason="PyTorch is not installed: 'make setup TORCH=1'")

from ten_steps import apart, same_bits  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

import mgpu_helpers as mgpu  # noqa: E402
from mgpu_helpers.pytorch.ranks import device_for  # noqa: E402

pt = mgpu.pytorch
pytestmark = pytest.mark.usefixtures('without_compiler')
DEVICES = [pt.StandIn(i) for i in range(5)]
# 50 examples a batch, neither 3 nor 4 divides it; the last of 10 batches has 2, so that a device or
# rank has none: its gradient must be 0, not an old one. A livelier start than the original's.
DATA = {'batch_size': 50, 'num_examples': 452, 'seed': 3, 'dtype': 'float64'}
START = {'scale': 0.1, 'seed': 1, 'dtype': 'float64'}
ODD = {'num_epochs': 1, 'num_examples': 65, 'seed': 0, 'dtype': 'float64'}  # 64 + 1


def run(k):
    """Train on ``k`` devices; return every replica and the loss of each step."""
    batches, _ = pt.load_data_fashion_mnist(**DATA)
    device_params = [pt.get_params(pt.init_params(**START), d) for d in DEVICES[:k]]
    losses = []
    for X, y in batches:
        shards = pt.train_batch(X, y, device_params, DEVICES[:k], 0.1)
        losses.append(pt.total_loss([shards]) / len(X))
    return [dict(enumerate(p.detach().numpy() for p in params)) for params in device_params], losses


def normalizing():
    """A network whose running statistics are those of the last batch that it has seen."""
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.BatchNorm1d(784, momentum=1.0), torch.nn.Linear(784, 10)
    )


def buffers(net):
    return [b.detach().clone().numpy() for b in net.buffers()]


def with_statistics():
    train_iter, test_iter = pt.load_data_fashion_mnist(9, 90, seed=3)
    net = DistributedDataParallel(normalizing())
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for X, y in train_iter:
        pt.ddp_step(X, y, net, optimizer)
    own = buffers(net)
    return own, pt.evaluate_ddp(net, test_iter), buffers(net), list(net.parameters())


def in_each_rank():
    return {
        'statistics': with_statistics(),
        'odd': pt.train_rank(64, 0.2, **ODD, wrap=pt.OwnDDP),
        'no seed': pt.train_rank(64, 0.2, 1, 192),
    }


@pytest.fixture(scope='module')
def ranks():
    """The results of three processes of one group."""
    return pt.launch(in_each_rank, 3)


@pytest.fixture(scope='module')
def one_device():
    (params,), losses = run(1)
    return params, losses


def test_k_devices_equal_one_in_float64_and_a_run_repeats_bit_for_bit(one_device):
    assert same_bits(run(1)[0][0], one_device[0])
    for k in (2, 3, 4):
        (first, *others), losses = run(k)
        assert first[0].dtype == np.float64 and len(losses) == 10
        assert apart(first, one_device[0]) < 1e-10
        np.testing.assert_allclose(losses, one_device[1], rtol=1e-10)
        assert len(others) == k - 1 and all(same_bits(first, other) for other in others)


def test_training_with_an_uneven_last_batch_and_more_devices_than_examples(ranks, capsys):
    one = pt.train(1, 64, 0.2, **ODD)
    three = pt.train(3, 64, 0.2, **ODD, devices=[pt.StandIn(i) for i in (1, 4, 0)])
    first, epoch = capsys.readouterr().out.splitlines()[-2:]
    assert first == 'running on: cpu:1 cpu:4 cpu:0' and epoch.startswith('epoch 1, time: ')
    assert three.label == 'devices: 3, batch: 64' and len(three.seconds) == 1
    for other in (three, *(rank['odd'] for rank in ranks)):
        assert other.train_loss == pytest.approx(one.train_loss, rel=1e-10)
        assert other.test_acc == one.test_acc


def test_without_a_seed_the_ranks_agree_on_one(ranks):
    first, *others = (rank['no seed'] for rank in ranks)
    assert np.isfinite(first.train_loss[0])
    for other in others:
        assert (other.train_loss, other.test_acc) == (first.train_loss, first.test_acc)


def test_ranks_evaluate_one_network_with_the_running_statistics_of_rank_0(ranks):
    owns, accuracies, afters, params = zip(*(rank['statistics'] for rank in ranks), strict=True)
    assert not np.allclose(owns[0][0], owns[1][0])  # each has its last shard's
    one = normalizing()
    with torch.no_grad():
        for p, trained in zip(one.parameters(), params[0], strict=True):
            p.copy_(trained)
        for b, of_rank_0 in zip(one.buffers(), owns[0], strict=True):
            b.copy_(torch.from_numpy(of_rank_0))
    for after in afters:
        for b, of_rank_0 in zip(after, owns[0], strict=True):
            np.testing.assert_array_equal(b, of_rank_0)
    _, test_iter = pt.load_data_fashion_mnist(9, 90, seed=3)
    right = pt.evaluate_accuracy(one.eval(), test_iter, DEVICES[0])
    assert accuracies == pytest.approx([right] * 3, abs=3e-4)  # of 10,000, rounding may flip some


def test_processes_get_a_gpu_each_or_all_the_cpu_and_the_first_says_so(recwarn):
    gpus = tuple(torch.device('cuda', i) for i in (1, 2))  # 0 cannot be used
    assert [device_for(i, 2, gpus) for i in range(2)] == list(gpus)
    assert device_for(0, 1, gpus) == gpus[0]
    assert device_for(0, 3, ()) == torch.device('cpu') and not recwarn.list
    assert [device_for(i, 3, gpus).type for i in range(3)] == ['cpu'] * 3
    (said,) = recwarn.list
    assert re.search(r'3 processes on this machine, and 2 usable .*on the CPU', str(said.message))


def test_allreduce_writes_the_sum_into_every_tensor():
    for k, dtype in ((1, torch.float32), (2, torch.float16), (3, torch.float64), (5, torch.int64)):
        data = [torch.full((2, 3), i + 1, dtype=dtype) for i in range(k)]
        kept = list(data)
        pt.allreduce(data)
        for x, same in zip(data, kept, strict=True):
            assert x is same and x.dtype == dtype and (x == k * (k + 1) / 2).all()


def test_scatter_loses_nothing_and_is_as_even_as_can_be():
    for n, k, lengths in ((4, 2, [2, 2]), (7, 3, [3, 2, 2]), (9, 4, [3, 2, 2, 2])):
        data = torch.arange(n * 5).reshape(n, 5)
        shards = pt.scatter(data, DEVICES[:k])
        assert [len(s) for s in shards] == lengths and torch.equal(torch.cat(shards), data)


def test_labels_and_images_are_chapter_1s():
    train_iter, test_iter = pt.load_data_fashion_mnist(100, num_examples=250, seed=7)
    assert (len(train_iter), train_iter.num_examples, test_iter.num_examples) == (3, 250, 10_000)
    X, y = next(iter(train_iter))
    assert (X.dtype, y.dtype, X.shape) == (torch.float32, torch.int64, (100, 1, 28, 28))
    expected = next(iter(mgpu.data.load_arrays('fashion-mnist', 100, 250, seed=7)[0]))
    assert np.array_equal(X.numpy(), expected[0]) and np.array_equal(y.numpy(), expected[1])


def test_evaluation_counts_each_example_once():
    batches = [(torch.eye(3), torch.tensor([0, 1, 0])), (torch.eye(3)[:1], torch.tensor([0]))]
    assert pt.evaluate_accuracy(lambda X: X, batches, DEVICES[0]) == 0.75


def test_stand_ins_are_threads_of_their_own_that_work_at_the_same_time():
    """Each call waits for the other: with one thread for both, neither would ever return."""
    meet = threading.Barrier(2, timeout=20)

    def work(_):
        meet.wait()
        return threading.current_thread().name, torch.get_num_threads()

    (first, n), (second, m) = pt.on_each(DEVICES[:2], work, [0, 1])
    assert first != second and n == m == 1
    assert pt.StandIn(0).submit(lambda: threading.current_thread().name).result() == first
    done = []

    def fail_or_come_later(i):
        if i == 0:
            raise ValueError('zero')
        time.sleep(0.3)
        done.append(i)

    with pytest.raises(ValueError, match='zero'):  # raised when all have ended
        pt.on_each(DEVICES[:2], fail_or_come_later, [0, 1])
    assert done == [1]


def python(code, **environment):
    command, env = [sys.executable, '-c', code], os.environ | environment
    return subprocess.run(command, capture_output=True, text=True, env=env)


def test_stand_ins_use_one_core_also_when_torch_came_first_or_as_many_as_the_user_chose():
    """In a process as torchrun starts it, without a GPU."""
    rank = {'LOCAL_RANK': '1', 'LOCAL_WORLD_SIZE': '2', 'CUDA_VISIBLE_DEVICES': ''}
    code = """
import os
os.environ.pop('OMP_NUM_THREADS', None)
import torch
torch.ones(300, 300) @ torch.ones(300, 300)
import mgpu_helpers.pytorch as pt
print(pt.on_each(pt.devices(2), lambda i: torch.get_num_threads(), [0, 1]))
os.environ['OMP_NUM_THREADS'] = '2'
print(pt.StandIn(9).submit(torch.get_num_threads).result(), pt.this_device())
"""
    done = python(code, **rank)
    assert (done.stdout, done.stderr) == ('[1, 1]\n2 cpu\n', '')


def test_devices():
    if not pt.num_gpus():
        assert pt.try_gpu() == pt.StandIn(0)
        assert pt.try_all_gpus() == [pt.StandIn(i) for i in range(mgpu.usable_cores())]
    assert len(pt.describe_devices().rows) >= len(pt.try_all_gpus())
    assert len(pt.devices(3)) == 3 and len({type(d) for d in pt.devices(3)}) == 1
    assert pt.StandIn(1) == pt.StandIn(1) != pt.StandIn(2)


def test_without_torch_a_sentence_says_what_to_do():
    code = "import sys; sys.modules['torch'] = None; import mgpu_helpers as m; m.pytorch.train"
    said = "ModuleNotFoundError: PyTorch is not installed in this Python. Run 'make setup"
    assert said in python(code).stderr
