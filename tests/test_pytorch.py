"""Chapter 5's functions: several ranks equal one device, on the data of the course."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip('torch', reason="PyTorch is not installed: 'make setup TORCH=1'")

from ten_steps import refused  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

import mgpu_helpers as mgpu  # noqa: E402
from mgpu_helpers.pytorch.ranks import device_for  # noqa: E402

pt = mgpu.pytorch
pytestmark = pytest.mark.usefixtures('without_compiler')
# 50 examples a batch, which 3 does not divide; the last of 10 batches has 2, so that the third rank
# has none: its gradient must be 0, not an old one. A livelier start than the original's.
DATA = {'batch_size': 50, 'num_examples': 452, 'seed': 3, 'dtype': 'float64'}


def trained(ranks):
    """Train on one device, or with DDP as one of several ranks; give parameters and losses."""
    batches, _ = pt.load_data_fashion_mnist(**DATA)
    net = pt.build_lenet(pt.init_params(0.1, seed=1, dtype='float64'))
    wrapped = DistributedDataParallel(net) if ranks else net
    optimizer, losses = torch.optim.SGD(net.parameters(), 0.1), []
    for X, y in batches:
        if ranks:
            losses.append(pt.ddp_step(X, y, wrapped, optimizer).numpy())
            continue
        optimizer.zero_grad()
        one = pt.loss(net(X), y)
        one.mean().backward()
        optimizer.step()
        losses.append(one.detach().numpy())
    return [p.detach().numpy() for p in net.parameters()], losses


def in_each_rank():
    X, y = torch.ones(4, 1, 28, 28), torch.zeros(4).long()
    net = pt.build_lenet(pt.init_params())
    ddp, optimizer = DistributedDataParallel(net), torch.optim.SGD(net.parameters(), 0.1)
    refused(
        ('net must be DistributedDataParallel(net), not a ', pt.ddp_step, X, y, net, optimizer),
        ('X must be an array from PyTorch', pt.ddp_step, X.numpy(), y, ddp, optimizer),
        ('optimizer must be from torch.optim', pt.ddp_step, X, y, ddp, ddp),
        ('are X and y swapped', pt.ddp_step, y, X, ddp, optimizer),
    )
    return trained(ranks=True)


def test_three_ranks_train_as_one_device_however_uneven_their_shards():
    params, losses = trained(ranks=False)
    theirs = pt.launch(in_each_rank, 3)
    for step, shards in zip(losses, zip(*(of_one for _, of_one in theirs)), strict=True):
        np.testing.assert_allclose(np.concatenate(shards), step, rtol=1e-10)
    for replica, _ in theirs:
        for p, q, first in zip(replica, params, theirs[0][0], strict=True):
            np.testing.assert_allclose(p, q, rtol=0, atol=1e-12)
            np.testing.assert_array_equal(p, first)


def test_processes_get_a_gpu_each_or_all_the_cpu_and_the_first_says_so(recwarn):
    gpus = tuple(torch.device('cuda', i) for i in (1, 2))  # 0 cannot be used
    assert [device_for(i, 2, gpus) for i in range(2)] == list(gpus)
    assert device_for(0, 1, gpus) == gpus[0]
    assert device_for(0, 3, ()) == torch.device('cpu') and not recwarn.list
    assert [device_for(i, 3, gpus).type for i in range(3)] == ['cpu'] * 3
    (said,) = recwarn.list
    assert re.search(r'3 processes but only 2 usable .*on the CPU', str(said.message))


def test_labels_images_and_the_start_are_chapter_1s():
    train_iter, test_iter = pt.load_data_fashion_mnist(100, num_examples=250, seed=7)
    assert (len(train_iter), train_iter.num_examples, test_iter.num_examples) == (3, 250, 10_000)
    X, y = next(iter(train_iter))
    assert (X.dtype, y.dtype, X.shape) == (torch.float32, torch.int64, (100, 1, 28, 28))
    expected = next(iter(mgpu.data.load_arrays('fashion-mnist', 100, 250, seed=7)[0]))
    assert np.array_equal(X.numpy(), expected[0]) and np.array_equal(y.numpy(), expected[1])


def test_both_ranks_measure_what_a_second_device_is_worth():
    first, second = pt.launch(pt.compare_ranks, 2, batch_size=8, rounds=2)
    assert [len(rates) for rates in first.rates.values()] == [2] * len(first.rates)
    assert sum(map(len, second.rates.values())) == 2 and repr(first).count('\n') > 2


def python(code, **environment):
    command, env = [sys.executable, '-c', code], os.environ | environment
    return subprocess.run(command, capture_output=True, text=True, env=env)


def test_without_mxnet_and_data(tmp_path):
    """No MXNet, no files and no server that answers: one notice, and the ranks repeat none."""
    code = """
import sys
sys.modules['mxnet'] = sys.modules['d2l'] = None  # an import of them raises
import mgpu_helpers as mgpu
pt = mgpu.pytorch
pt.load_data_fashion_mnist(64)
pt.launch(pt.load_in_turn, 2, pt.load_data_fashion_mnist, 64)
"""
    done = python(code, MXNET_HOME=str(tmp_path), MGPU_DATA_MIRRORS='http://127.0.0.1:9/')
    assert done.returncode == 0, done.stderr
    assert (done.stdout + done.stderr).count('is unavailable') == 1


def test_without_torch_a_sentence_says_what_to_do():
    code = "import sys; sys.modules['torch'] = None; import mgpu_helpers as m; m.pytorch.loss"
    said = "ModuleNotFoundError: PyTorch is not installed in this Python. Run 'make setup"
    assert said in python(code).stderr
