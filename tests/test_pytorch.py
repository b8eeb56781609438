"""Chapter 5's functions: k devices equal one, and equal chapter 1's, on the data of the course."""

import subprocess
import sys
import threading
import time

import numpy as np
import pytest

torch = pytest.importorskip('torch', reason="PyTorch is not installed: 'make setup TORCH=1'")

import mgpu_helpers as mgpu  # noqa: E402

pt = mgpu.pytorch
DEVICES = [pt.StandIn(i) for i in range(5)]
ONES = torch.ones(2)


def replicas(k, **start):
    params = pt.init_params(**start)
    return [pt.get_params(params, d) for d in DEVICES[:k]]


def run(k, steps, batch_size=256, lr=0.2, dtype='float32', num_examples=None, **start):
    """Train ``steps`` batches on ``k`` devices; give every replica, and the loss of each step."""
    train_iter, _ = pt.load_data_fashion_mnist(
        batch_size, num_examples=num_examples or steps * batch_size, seed=3, dtype=dtype
    )
    device_params, losses = replicas(k, dtype=dtype, seed=1, **start), []
    for X, y in train_iter:
        shards = pt.train_batch(X, y, device_params, DEVICES[:k], lr)
        losses.append(pt.total_loss([shards]) / len(X))
    assert len(losses) == steps
    return [[p.detach().numpy() for p in params] for params in device_params], losses


def ddp(steps, batch_size=256, lr=0.2, dtype='float32', num_examples=None, **start):
    """The same in each process of a group."""
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    import mgpu_helpers.pytorch as pt

    train_iter, _ = pt.load_data_fashion_mnist(
        batch_size, num_examples=num_examples or steps * batch_size, seed=3, dtype=dtype
    )
    net = pt.build_lenet(pt.init_params(dtype=dtype, seed=1, **start)).to(pt.this_device())
    net = DistributedDataParallel(net)
    optimizer, losses = torch.optim.SGD(net.parameters(), lr), []
    for X, y in train_iter:
        loss = pt.ddp_step(X, y, net, optimizer).double().sum()
        dist.all_reduce(loss)
        losses.append(loss.item() / len(X))
    params = (p.detach() for p in net.parameters())
    return [(p.T if p.dim() == 2 else p).numpy() for p in params], losses


def joint_difference(ours, theirs):
    """Difference of all parameters in one vector, relative to its norm."""
    a, b = (np.concatenate([p.ravel() for p in params]) for params in (ours, theirs))
    return np.linalg.norm(a - b) / np.linalg.norm(b)


# 50 examples a batch, neither 3 nor 4 divides it; the last of 20 batches has 31, odd. A livelier
# start than the sources'.
UNEVEN = {'steps': 20, 'batch_size': 50, 'num_examples': 981, 'lr': 0.1, 'scale': 0.1}


@pytest.fixture(scope='module')
def one_device_float64():
    (params,), losses = run(1, dtype='float64', **UNEVEN)
    return params, losses


@pytest.mark.parametrize('k', [2, 3, 4])
def test_k_devices_equal_one_in_float64(k, one_device_float64):
    (first, *others), losses = run(k, dtype='float64', **UNEVEN)
    assert first[0].dtype == np.float64
    assert joint_difference(first, one_device_float64[0]) < 1e-10
    np.testing.assert_allclose(losses, one_device_float64[1], rtol=1e-10)
    for other in others:
        assert all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize('k', [2, 3])
def test_ddp_equals_one_device_in_float64(k, one_device_float64):
    ranks = pt.launch(ddp, k, dtype='float64', **UNEVEN)
    assert len(ranks) == k
    for params, losses in ranks:
        assert joint_difference(params, one_device_float64[0]) < 1e-10
        np.testing.assert_allclose(losses, one_device_float64[1], rtol=1e-10)
        assert all(np.array_equal(a, b) for a, b in zip(params, ranks[0][0], strict=True))


def test_chapter_1_takes_the_same_steps(one_device_float64):
    pytest.importorskip('mxnet', reason='MXNet is not installed')
    train_iter, _ = mgpu.load_data_fashion_mnist(50, num_examples=981, seed=3, dtype='float64')
    devices = [mgpu.devices(2)[0]]
    params = [mgpu.get_params(mgpu.init_params(0.1, seed=1, dtype='float64'), devices[0])]
    for X, y in train_iter:
        mgpu.train_batch(X, y, params, devices, lr=0.1)
    theirs = [p.asnumpy() for p in params[0]]
    assert joint_difference(theirs, one_device_float64[0]) < 1e-10


def test_float32_from_the_small_start():
    (one,), losses = run(1, 10)
    assert joint_difference(run(2, 10)[0][0], one) < 1e-5
    for params, ddp_losses in pt.launch(ddp, 2, 10):
        assert joint_difference(params, one) < 1e-5
        np.testing.assert_allclose(ddp_losses, losses, rtol=1e-5)


def test_a_run_repeats_bit_for_bit():
    first, again = run(2, 5)[0][1], run(2, 5)[0][1]
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))


def test_batch_smaller_than_the_devices():
    """Of three devices or ranks, one has no example; its gradient must be 0, not an old one."""
    few = {'steps': 2, 'batch_size': 4, 'num_examples': 6, 'dtype': 'float64', 'scale': 0.1}
    (one,), _ = run(1, **few)
    several, _ = run(3, **few)
    for params in (*several, *(p for p, _ in pt.launch(ddp, 3, **few))):
        assert joint_difference(params, one) < 1e-10


def test_start_is_chapter_1s():
    pytest.importorskip('mxnet', reason='MXNet is not installed')
    for ours, theirs in zip(pt.init_params(seed=4), mgpu.init_params(seed=4), strict=True):
        assert np.array_equal(ours.numpy(), theirs.asnumpy())


def test_layers_compute_what_the_function_computes():
    params, X = pt.init_params(0.1, seed=0, dtype='float64'), torch.rand(3, 1, 28, 28).double()
    # A score near 0 is a difference of larger terms: seen once, 8e-17 off, which is 3e-12 of it.
    torch.testing.assert_close(
        pt.build_lenet(params)(X), pt.lenet(X, params), rtol=1e-12, atol=1e-15
    )


def test_get_params_copies():
    params = pt.init_params(seed=0)
    copy = pt.get_params(params, DEVICES[0])
    with torch.no_grad():
        copy[0].zero_()
    assert params[0].any() and not params[0].requires_grad


def test_get_params_refuses_what_is_no_device():
    with pytest.raises(TypeError, match="'cpu:1' is no device"):
        pt.get_params(pt.init_params(seed=0), 'cpu:1')


@pytest.mark.parametrize('dtype', [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize('k', [1, 2, 3, 5])
def test_allreduce_writes_the_sum_into_every_tensor(k, dtype):
    data = [torch.full((2, 3), i + 1.0, dtype=dtype) for i in range(k)]
    kept = list(data)
    pt.allreduce(data)
    for x, same in zip(data, kept, strict=True):
        assert x is same
        assert x.dtype == dtype and (x == k * (k + 1) / 2).all()


def test_source_004s_allreduce_loses_the_broadcast():
    """What the chapter shows: the list has the sum, the tensor that was in it has not."""

    def rebinding(data):
        for i in range(1, len(data)):
            data[0][:] += data[i].to(data[0].device)
        for i in range(1, len(data)):
            data[i] = data[0].to(data[i].device)

    def sync(grads):
        for grads_of_one_param in zip(*grads):
            rebinding(list(grads_of_one_param))

    X, y = torch.rand(8, 1, 28, 28), torch.arange(8)
    params = replicas(2, seed=0, scale=0.1)
    pt.train_batch(X, y, params, DEVICES[:2], 0.2, sync)
    assert not torch.equal(params[0][6], params[1][6])


@pytest.mark.parametrize(
    'bad,error,words',
    [
        ([], ValueError, 'empty'),
        (None, TypeError, 'list of arrays'),
        ([torch.ones(2), torch.ones(3)], ValueError, r'different shapes.*\(2,\).*\(3,\)'),
        ([torch.ones(2), torch.ones(2).double()], TypeError, 'float32.*float64'),
        ([ONES, ONES], ValueError, 'the same array stands in the list twice'),
    ],
)
def test_allreduce_refuses(bad, error, words):
    before = [x.clone() for x in bad or []]
    with pytest.raises(error, match=words):
        pt.allreduce(bad)
    assert all(torch.equal(a, b) for a, b in zip(before, bad or [], strict=True))


@pytest.mark.parametrize('n,k,lengths', [(4, 2, [2, 2]), (7, 3, [3, 2, 2]), (9, 4, [3, 2, 2, 2])])
def test_scatter_loses_nothing_and_is_as_even_as_can_be(n, k, lengths):
    data = torch.arange(n * 5).reshape(n, 5)
    shards = pt.scatter(data, DEVICES[:k])
    assert [len(s) for s in shards] == lengths
    assert torch.equal(torch.cat(shards), data)


@pytest.mark.parametrize(
    'data,devices,error,words',
    [
        (torch.zeros(0, 5), DEVICES[:1], ValueError, 'empty batch'),
        (torch.zeros(2, 5), DEVICES[:3], ValueError, '2 examples over 3 devices'),
        (
            torch.zeros(4, 5),
            [DEVICES[1], pt.StandIn(1)],
            ValueError,
            'cpu:1 appears more than once',
        ),
        (torch.zeros(4, 5), [], ValueError, 'empty list'),
        (torch.zeros(4, 5), pt.StandIn(0), TypeError, 'list of devices'),
        (torch.zeros(4, 5), ['cpu'], TypeError, "'cpu' is no device"),
        ([1, 2], DEVICES[:2], TypeError, r'the batch must be an array or a tensor, not \[1, 2\]'),
    ],
)
def test_scatter_refuses(data, devices, error, words):
    with pytest.raises(error, match=words):
        pt.scatter(data, devices)


def test_split_batch_refuses_labels_of_another_length():
    with pytest.raises(ValueError, match='X has 4 examples and y has 3 labels'):
        pt.split_batch(torch.zeros(4, 5), torch.zeros(3), DEVICES[:2])


@pytest.mark.parametrize(
    'change,error,words',
    [
        ({'X': torch.zeros(0, 1, 28, 28), 'y': torch.zeros(0).long()}, ValueError, 'empty batch'),
        ({'y': torch.zeros(3).long()}, ValueError, '4 examples and y has 3'),
        ({'devices': DEVICES[:1]}, ValueError, '2 replicas of the parameters for 1 devices'),
        ({'devices': [DEVICES[0]] * 2}, ValueError, 'appears more than once'),
        ({'lr': 0}, ValueError, 'lr'),
        ({'lr': '0.1'}, TypeError, 'lr'),
    ],
)
def test_train_batch_refuses_before_anything_changes(change, error, words):
    params = replicas(2, seed=0)
    good = {'X': torch.zeros(4, 1, 28, 28), 'y': torch.zeros(4).long(), 'lr': 0.1}
    with pytest.raises(error, match=words):
        pt.train_batch(**(good | {'device_params': params, 'devices': DEVICES[:2]} | change))
    assert all(p.grad is None for replica in params for p in replica)


def test_labels_and_images_are_chapter_1s():
    train_iter, test_iter = pt.load_data_fashion_mnist(100, num_examples=250, seed=7)
    assert (len(train_iter), train_iter.num_examples, test_iter.num_examples) == (3, 250, 10_000)
    batches = list(train_iter)
    assert [len(X) for X, _ in batches] == [100, 100, 50]
    X, y = batches[0]
    assert (X.dtype, y.dtype, X.shape) == (torch.float32, torch.int64, (100, 1, 28, 28))
    expected = next(iter(mgpu.data.load_arrays('fashion-mnist', 100, 250, seed=7)[0]))
    assert np.array_equal(X.numpy(), expected[0]) and np.array_equal(y.numpy(), expected[1])


def test_evaluation_counts_each_example_once():
    batches = [(torch.eye(3), torch.tensor([0, 1, 0])), (torch.eye(3)[:1], torch.tensor([0]))]
    assert pt.evaluate_accuracy(lambda X: X, batches, DEVICES[0]) == 0.75
    with pytest.raises(ValueError, match='no examples to evaluate on'):
        pt.evaluate_accuracy(lambda X: X, [], DEVICES[0])


def test_stand_ins_are_threads_of_their_own_that_work_at_the_same_time():
    """Each call waits for the other: with one thread for both, neither would ever come back."""
    meet = threading.Barrier(2, timeout=20)

    def work(_):
        meet.wait()
        return threading.current_thread().name, torch.get_num_threads()

    (first, n), (second, m) = pt.on_each(DEVICES[:2], work, [0, 1])
    assert first != second and n == m == 1
    again = pt.StandIn(0).submit(lambda: threading.current_thread().name).result()
    assert again == first


def test_on_each_waits_for_all_before_it_raises():
    done = []

    def work(i):
        if i == 0:
            raise ValueError('zero')
        time.sleep(0.3)
        done.append(i)

    with pytest.raises(ValueError, match='zero'):
        pt.on_each(DEVICES[:2], work, [0, 1])
    assert done == [1]


def test_stand_ins_use_one_core_also_when_torch_came_first():
    code = """
import os
os.environ.pop('OMP_NUM_THREADS', None)
import torch
torch.ones(300, 300) @ torch.ones(300, 300)
import mgpu_helpers.pytorch as pt
print(pt.on_each(pt.devices(2), lambda i: torch.get_num_threads(), [0, 1]))
"""
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert done.stdout == '[1, 1]\n'


def test_threads_that_the_user_chose_stay():
    code = """
import os
os.environ['OMP_NUM_THREADS'] = '2'
import mgpu_helpers.pytorch as pt, torch
print(pt.StandIn(0).submit(torch.get_num_threads).result())
"""
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert done.stdout == '2\n'


def test_devices():
    if not pt.num_gpus():
        assert pt.try_gpu(0) == pt.StandIn(0)
        assert pt.try_all_gpus() == [pt.StandIn(i) for i in range(mgpu.usable_cores())]
    assert len(pt.devices(3)) == 3 and len({type(d) for d in pt.devices(3)}) == 1
    assert pt.StandIn(1) == pt.StandIn(1) != pt.StandIn(2)
    with pytest.raises(ValueError, match='at least 1'):
        pt.devices(0)
    with pytest.raises(ValueError, match='-1'):
        pt.try_gpu(-1)
    with pytest.raises(ValueError, match='100000 stand-ins are too many.*at most 256'):
        pt.train(100_000, 256, 0.2)


def test_the_package_needs_no_mxnet():
    """In a Python that cannot find it, as on a Mac: nothing on the way imports it."""
    code = """
import sys
sys.modules['mxnet'] = sys.modules['d2l'] = None  # an import of them raises
import mgpu_helpers as mgpu
history = mgpu.pytorch.train(2, 64, 0.2, num_epochs=1, num_examples=256)
assert len(history.plot().axes) == 2
mgpu.pytorch.train_ddp(2, 64, 0.2, num_epochs=1, num_examples=256)
"""
    subprocess.run([sys.executable, '-c', code], check=True, capture_output=True)


def test_without_torch_a_sentence_says_what_to_do():
    code = """
import sys
sys.modules['torch'] = None
import mgpu_helpers as mgpu
mgpu.pytorch.train(2, 64, 0.2)
"""
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)
    assert "ModuleNotFoundError: PyTorch is not installed in this Python. Run 'make setup" in (
        done.stderr
    )
