"""Chapter 7's sharding: the training of one device, in float64, for networks of every kind."""

import copy
import pickle
from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip('torch', reason="PyTorch is not installed: 'make setup TORCH=1'")

import torch.distributed as dist  # noqa: E402
from ten_steps import refused  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import mgpu_helpers as mgpu  # noqa: E402
from mgpu_helpers.pytorch.model_parallel import sharded_optimizer  # noqa: E402

pt = mgpu.pytorch
pytestmark = pytest.mark.usefixtures('without_compiler', 'started')  # nothing is left behind


again = partial(checkpoint, use_reentrant=False)  # computes it again in the backward pass


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inside = nn.Sequential(nn.Linear(width, 7), nn.Tanh(), nn.Linear(7, width))

    def forward(self, x, scale):
        return {'out': x + scale * again(self.inside, x)}


class Odd(nn.Module):
    """Tied, frozen, unused and tiny parameters, modules called twice or recomputed."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 5)
        self.scale = nn.Parameter(torch.ones(()))
        self.layers = nn.ModuleList([Layer(5) for _ in range(3)])
        self.twice, self.unused = nn.Linear(5, 5), nn.Linear(3, 2)
        self.list = nn.ParameterList([torch.ones(2)])
        self.recurrent = nn.GRU(5, 5, batch_first=True)
        self.head = nn.Linear(5, 11, bias=False)
        self.head.weight = self.embed.weight
        self.layers[0].requires_grad_(False)
        self.layers[1].inside[0].requires_grad_(False)

    def forward(self, tokens, broken=False):
        x = self.embed(tokens) * self.scale
        for layer in self.layers[:2]:
            x = layer(x, scale=self.list[0][1])['out']
        x = again(self.layers[2], x, self.list[0][0])['out']
        if broken:
            raise KeyError('broken')
        x = again(lambda x: self.twice(self.recurrent(x)[0]), x)
        return {'scores': self.head(self.twice(torch.tanh(x)))}


def odd(dtype=torch.float64, seed=0):
    torch.manual_seed(seed)
    return Odd().to(dtype)


def batches(steps=10):
    torch.manual_seed(1)
    return torch.randint(11, (steps, 7, 4))


def gradients(net, tokens, whole=False):
    """Backward of the mean over the batch, on this rank's rows of it, in two parts."""
    k, rank = (1, 0) if whole else (dist.get_world_size(), dist.get_rank())
    total = 0
    for part in tokens.chunk(2):
        rows = torch.tensor_split(part, k)[rank]
        scores = net(rows)['scores']
        l = nn.functional.cross_entropy(scores.flatten(0, 1), rows.flatten(), reduction='sum')
        (l * k / tokens.numel()).backward()
        total += l.item()
    return total


def groups(net):
    """Weights decay, others do not, as is usual; by name, since shards are flat."""
    named = [(name, p) for name, p in net.named_parameters() if 'twice' not in name]
    return [
        {'params': [p for name, p in named if 'weight' in name], 'weight_decay': 0.1},
        {'params': [p for name, p in named if 'weight' not in name], 'lr': 0.02},
    ]


def train(net, optimizer, whole=False):
    """Ten steps with a learning-rate schedule and another parameter group after the third."""
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 4, 0.5)
    for step, tokens in enumerate(batches()):
        if step == 3:
            late = [p for name, p in net.named_parameters() if 'twice' in name]
            optimizer.add_param_group({'params': late, 'lr': 0.03})
        gradients(net, tokens, whole)
        optimizer.step()
        schedule.step()
        for p in net.parameters():
            p.grad = None


def values(params):
    return torch.cat([p.detach().reshape(-1) for p in params]).numpy()


class OwnAdamW(torch.optim.AdamW):
    """Treats each value by itself, which only its author can know."""


OPTIMIZERS = (
    (torch.optim.AdamW, {'lr': 0.01}),
    (OwnAdamW, {'lr': 0.01, 'amsgrad': True}),
    (torch.optim.SGD, {'lr': 0.05, 'momentum': 0.9, 'nesterov': True}),
    (torch.optim.Adam, {'lr': 0.01}),
    (torch.optim.RAdam, {'lr': 0.01}),
    (torch.optim.Adamax, {'lr': 0.01}),
    (torch.optim.Adadelta, {}),
    (torch.optim.Adagrad, {'lr': 0.01}),
    (torch.optim.ASGD, {'lr': 0.01}),
    (torch.optim.RMSprop, {'lr': 0.01, 'momentum': 0.9, 'centered': True}),
    (torch.optim.Rprop, {'lr': 0.01}),
    (torch.optim.NAdam, {'lr': 0.01}),  # last: a number of its own for each tensor, beside the step
)


def optimizers_in_each_rank():
    results, plain_state, kept_state = {}, {}, {}
    for make, options in OPTIMIZERS:
        one, ours = odd(), odd(seed=dist.get_rank())  # rank 0's values count
        ours.twice.load_state_dict(one.twice.state_dict())  # not known from the beginning
        plain = make(groups(one), **options)
        optimizer = pt.ShardedOptimizer(groups(ours), make, make is OwnAdamW, **options)
        train(one, plain, whole=True)
        train(ours, optimizer)
        results[make.__name__] = values(one.parameters()), values(ours.parameters())
        for numbers, how in ((plain_state, plain), (kept_state, optimizer)):
            state = [(name, t) for s in how.state.values() for name, t in s.items()]
            numbers[make.__name__] = sum(t.numel() for name, t in state if name != 'step')
    # What is saved is what one device would save, and goes on in either.
    saved = optimizer.state_dict()
    assert saved['param_groups'] == plain.state_dict()['param_groups']
    again = odd()
    again.load_state_dict(one.state_dict())
    late = {'params': list(again.twice.parameters())}
    other = make([*groups(again), late], **options)
    other.load_state_dict(saved)
    optimizer.load_state_dict(copy.deepcopy(plain.state_dict()))  # PyTorch would share its counts
    for net, how, whole in ((one, plain, True), (ours, optimizer, False), (again, other, True)):
        gradients(net, batches()[0], whole)
        how.step()
    results['resumed'] = values(one.parameters()), values(ours.parameters())
    results['on one device'] = values(one.parameters()), values(again.parameters())
    return results, (plain_state, kept_state)


def fsdp_in_each_rank():
    results, rank = {}, dist.get_rank()
    one, net = odd(), pt.OwnFSDP(odd(seed=rank))
    held = sum(p.numel() for p in net.parameters())
    plain, optimizer = (torch.optim.AdamW(groups(n), lr=0.01) for n in (one, net))
    train(one, plain, True)
    with pytest.raises(KeyError):  # leaves nothing gathered behind
        net(batches()[0], broken=True)
    train(net, optimizer)
    with net.full_parameters() as whole, net.full_parameters():
        assert list(whole) == [name for name, _ in one.named_parameters()]
        results['AdamW'] = values(one.parameters()), values(whole.values())
        saved = {name: value.clone() for name, value in net.module.state_dict().items()}
    with torch.no_grad():
        results['scores'] = tuple(n(batches()[1])['scores'].flatten().numpy() for n in (one, net))
    with net.full_parameters() as whole:
        net.module.load_state_dict({name: value + 1 for name, value in saved.items()})
    with net.full_parameters() as whole:
        results['written'] = values(one.parameters()) + 1, values(whole.values())
    total = sum(p.numel() for p in one.parameters())
    return results, held, total, sorted({p.dim() for p in net.parameters()})


class Normalized(nn.Module):
    """Buffers: running statistics, and one that is added to activations of lower precision."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4)])
        self.register_buffer('places', torch.rand(4))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x) + self.places
        return x


def lower_precision_in_each_rank():
    """Chapter 7 shows that tiny steps accumulate in it."""
    for dtype in (None, torch.bfloat16, torch.float16):
        net = pt.OwnFSDP(odd(torch.float32), compute_dtype=dtype)
        gradients(net, batches()[0])
        assert {g.dtype for p in net.parameters() for g in (p, p.grad) if g is not None} == {
            torch.float32
        }
        assert net(batches()[0])['scores'].dtype == torch.float32
        one, net = Normalized(), pt.OwnFSDP(Normalized(), compute_dtype=dtype)
        X = torch.rand(64, 4, generator=torch.Generator().manual_seed(2))
        one(X).sum().backward(), net(X).sum().backward()
        for ours, exact in zip(net.buffers(), one.buffers(), strict=True):
            assert ours.dtype == exact.dtype and torch.allclose(ours, exact, rtol=0.01, atol=0.01)


class Strange(nn.Linear):
    def forward(self, x):
        return {1, 2}


def what_is_refused_in_each_rank():
    net, sharded = nn.Linear(2, 2), pt.OwnFSDP(nn.Linear(2, 2))
    whole = 'TypeError: module must be the network itself, not wrapped nor in shares: '
    saved = 'RuntimeError: these parameters lie in shares: save and load net.module.state_dict'
    sparse = pt.OwnFSDP(nn.Embedding(3, 2, sparse=True))(torch.tensor([1])).sum()
    sgd, sharding = torch.optim.SGD, partial(pt.ShardedOptimizer, net.parameters())
    by_value = 'TypeError: optimizer_class must be a class of optimizers that treat'
    refused(
        (by_value, sharding, torch.optim.LBFGS),
        (by_value, sharding, type('MyLBFGS', (torch.optim.LBFGS,), {})),
        (by_value, sharding, OwnAdamW),
        (by_value, sharding, 'adam'),
        ('ValueError: Invalid learning rate: -1', partial(sharding, lr=-1), sgd),
        ('ValueError: optimizer got an empty parameter list', pt.ShardedOptimizer, [], sgd),
        ("copy or save the optimizer's state_dict", pickle.dumps, sharding(sgd)),
        (whole + '3', pt.OwnFSDP, 3),
        (whole, pt.OwnFSDP, sharded),
        (whole + 'Linear', pt.OwnFSDP, sharded.module),
        (whole, pt.OwnFSDP, nn.Sequential(nn.ReLU(), pt.OwnDDP(net))),
        ('ValueError: ReLU() has no parameters', pt.OwnFSDP, nn.ReLU()),
        ('compute_dtype must be one of None, torch.bfloat16', pt.OwnFSDP, net, 'bfloat16'),
        ('before OwnFSDP(module)', sharded.to, torch.float64),
        ('Strange gave back {1, 2}; return tensors', pt.OwnFSDP(Strange(2, 2)), torch.ones(1, 2)),
        ('TypeError: a share cannot be copied', copy.deepcopy, sharded),
        (saved, sharded.state_dict),
        (saved, sharded.load_state_dict, {}),
        ('TypeError: a sparse gradient cannot be cut', sparse.backward),
    )


def in_each_rank():
    lower_precision_in_each_rank()
    what_is_refused_in_each_rank()
    return optimizers_in_each_rank(), fsdp_in_each_rank()


@pytest.fixture(scope='module', params=[1, 3])
def ranks(request):
    """The results of all processes: a group of one, and a size that divides no parameter."""
    return list(zip(*pt.launch(in_each_rank, request.param)))


def check(ranks):
    """Compare with one device, and the ranks with each other, bit for bit."""
    for result in ranks:
        for what, (exact, ours) in result.items():
            assert np.linalg.norm(ours - exact) <= 1e-12 * np.linalg.norm(exact), what
            assert (ours == ranks[0][what][1]).all(), what


def test_a_sharded_optimizer_is_the_optimizer(ranks):
    check([result for result, _ in ranks[0]])
    for make in ('AdamW', 'SGD'):  # the state: each number once
        assert sum(kept[make] for _, (_, kept) in ranks[0]) == ranks[0][0][1][0][make]


def test_own_fsdp_trains_as_one_device_does(ranks):
    check([result for result, *_ in ranks[1]])
    _, _, total, _ = ranks[1][0]
    # Nothing twice, and no rank more than its part and a value of padding for each unit.
    assert sum(held for _, held, *_ in ranks[1]) == total
    assert max(held for _, held, *_ in ranks[1]) <= total / len(ranks[1]) + 12
    assert all(dims == [1] for *_, dims in ranks[1])


def test_each_optimizer_of_pytorch_is_known_or_refused():
    kinds = [getattr(torch.optim, name) for name in dir(torch.optim)]
    found = {k for k in kinds if isinstance(k, type) and issubclass(k, torch.optim.Optimizer)}
    trained = {make for make, _ in OPTIMIZERS if make is not OwnAdamW}
    whole = {getattr(torch.optim, n) for n in 'Optimizer LBFGS SparseAdam Adafactor Muon'.split()}
    assert trained == found - whole and sharded_optimizer.KNOWN == trained


def test_they_take_a_group():
    refused(
        ('belongs to no group', pt.OwnFSDP, nn.Linear(1, 1)),
        ('belongs to no group', pt.ShardedOptimizer, [], torch.optim.SGD),
    )
