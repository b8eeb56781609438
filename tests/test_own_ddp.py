"""``OwnDDP``: any network, on any number of ranks, is trained as on one device."""

import numpy as np
import pytest

torch = pytest.importorskip('torch', reason="PyTorch is not installed: 'make setup TORCH=1'")

from ten_steps import refused  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

import mgpu_helpers as mgpu  # noqa: E402
from mgpu_helpers.processes import RankFailed  # noqa: E402

pt = mgpu.pytorch
pytestmark = pytest.mark.usefixtures('without_compiler')
UNEVEN, EVEN = (7, 5, 6, 2), (6, 6)  # examples in each batch: of 2, the third rank has none


class Odd(nn.Module):
    """Tied, frozen and scalar parameters, one in another memory format; statistics and a mask."""

    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.conv = nn.Conv2d(2, 6, 3).to(memory_format=torch.channels_last)
        self.norm = nn.BatchNorm1d(6)
        self.norm.running_mean.normal_()
        self.one, self.two, self.frozen = (nn.Linear(6, 6) for _ in range(3))
        self.two.weight = self.one.weight
        self.frozen.requires_grad_(False)
        self.scale = nn.Parameter(torch.rand(()))
        self.last, self.spare = nn.Linear(6, 10), nn.Linear(6, 10).requires_grad_(False)
        self.register_buffer('mask', torch.rand(6) > 0.3)
        self.double()

    def forward(self, X, spare=False):
        h = self.norm(self.conv(X).flatten(1)).relu()
        h = self.frozen(self.two(self.one(h).relu())) * self.mask * self.scale
        return self.last(h) + (self.spare(h) if spare else 0)


def batches(sizes):
    draw = torch.Generator().manual_seed(5)
    for n in sizes:
        X = torch.randn(n, 2, 3, 3, generator=draw, dtype=torch.float64)
        yield X, torch.randint(10, (n,), generator=draw)


def alone(X, y, net, optimizer):
    optimizer.zero_grad()
    pt.loss(net(X), y).mean().backward()
    if isinstance(net, pt.OwnDDP):
        net.finish()
    optimizer.step()


def trained(net, step, sizes, training):
    """Train, with batch normalization's statistics as they are unless ``training``."""
    getattr(net, 'module', net).norm.train(training)
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9, weight_decay=0.01)
    for X, y in batches(sizes):
        step(X, y, net, optimizer)
    values = getattr(net, 'module', net).state_dict()
    return {name: value.numpy().copy() for name, value in values.items()}


def what_is_refused():
    """Missing gradients, a second backward pass, an optimizer step before synchronization."""
    (X, y), net = next(iter(batches(EVEN))), Odd(0)
    net.spare.requires_grad_(True)
    own = pt.OwnDDP(net)
    own(X).sum().backward()
    optimizer = torch.optim.SGD(own.parameters(), 0.1)
    wrapped = 'net must be DistributedDataParallel(net) or OwnDDP(net), not a '
    refused(
        ('no gradient was summed for spare.weight, spare.bias:', own.finish),
        ('a second backward pass before finish():', own(X).sum().backward),
        (wrapped + 'Odd', pt.ddp_step, X, y, net, optimizer),
        (wrapped + 'SGD', pt.ddp_step, X, y, optimizer, optimizer),
        ('X must be an array of PyTorch', pt.ddp_step, X.numpy(), y, own, optimizer),
        ('optimizer must be one of torch.optim', pt.ddp_step, X, y, own, own),
    )


def in_each_rank():
    rank = torch.distributed.get_rank()
    own, under_way = pt.OwnDDP(Odd(seed=rank)), []

    def watch(module, inputs, output):
        output.register_hook(lambda grad: under_way.append(len(own.works)))

    own.module.conv.register_forward_hook(watch)
    theirs = DistributedDataParallel(Odd(seed=rank), forward_sync_buffers=False)
    what_is_refused()
    return {
        'uneven': trained(own, pt.ddp_step, UNEVEN, training=False),
        'under way': under_way,
        'own': trained(pt.OwnDDP(Odd(seed=rank)), pt.ddp_step, EVEN, training=True),
        "PyTorch's": trained(theirs, pt.ddp_step, EVEN, training=True),
    }


def same(ours, others, tolerance=1e-12):
    assert list(ours) == list(others)
    for name, value in ours.items():
        np.testing.assert_allclose(value, others[name], rtol=tolerance, atol=tolerance)


@pytest.fixture(scope='module')
def ranks():
    """Three processes; chapter 5 has two."""
    return pt.launch(in_each_rank, 3)


def test_any_network_is_trained_as_on_one_device_and_as_by_pytorchs_wrapper(ranks):
    """From rank 0's start: tied weights count once, frozen ones stay, a mask arrives."""
    one = trained(Odd(seed=0), alone, UNEVEN, training=False)
    assert len(ranks) == 3
    for rank in ranks:
        same(rank['uneven'], one)
        assert len(rank['under way']) == len(UNEVEN) and min(rank['under way']) > 0
        params = {n: v for n, v in rank['own'].items() if 'running' not in n}
        same(params, {n: rank["PyTorch's"][n] for n in params})
        same(params, {n: ranks[0]['own'][n] for n in params}, tolerance=0)


def test_only_a_network_itself_is_wrapped():
    for wrong in (3, pt.OwnDDP(Odd(0)), nn.Sequential(nn.ReLU(), pt.Replica(Odd(0)))):
        with pytest.raises(TypeError, match='module must be the network itself'):
            pt.OwnDDP(wrong)


def test_without_a_group_it_is_the_network_itself():
    same(trained(pt.OwnDDP(Odd(0)), alone, EVEN, True), trained(Odd(0), alone, EVEN, True))


def one_rank_takes_another_branch():
    net = Odd(0)
    net.spare.requires_grad_(True)
    own, (X, _) = pt.OwnDDP(net), next(iter(batches(EVEN)))
    own(X, spare=torch.distributed.get_rank() == 0).sum().backward()
    own.finish()


def test_a_rank_that_takes_another_branch_is_named_and_nobody_waits():
    with pytest.raises(RankFailed, match=r'^rank 1 failed with .*for spare.weight, spare.bias:'):
        pt.launch(one_rank_takes_another_branch, 2, timeout=300)


def rank_1_skips_a_sum(returns):
    x, long = torch.ones(4), torch.ones(1000)
    if torch.distributed.get_rank() == 0:
        torch.distributed.all_reduce(x)
    elif returns:
        return
    torch.distributed.all_reduce(long)


def test_a_rank_that_skips_a_sum_is_named_with_the_call_and_the_way_to_find_it():
    for returns in (True, False):
        words = r'(?s)^rank 0 .*(all_reduce\(x\)|mismatch).*in different.*_DEBUG=DETAIL'
        with pytest.raises(RankFailed, match=words):
            pt.launch(rank_1_skips_a_sum, 2, returns=returns, timeout=300)
