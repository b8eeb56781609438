"""Tensor parallelism: equal to one device, and on a mesh.

Chapter 7 counts its allreduces, goes along a mesh of its own groups, and holds PyTorch's engines
to the same steps.
"""

import pytest

torch = pytest.importorskip('torch', reason="PyTorch is not installed: 'make setup TORCH=1'")

import numpy as np  # noqa: E402
import ten_steps as ten  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402

import mgpu_helpers as mgpu  # noqa: E402

pt = mgpu.pytorch
pytestmark = pytest.mark.usefixtures('without_compiler')
COLUMNS = 'attention.q', 'attention.k', 'attention.v', 'mlp.0'
ROWS = 'attention.out', 'mlp.2'


def by_hand(group):
    """Losses and the whole state, then this rank's own part."""
    seed = ten.START['seed'] + dist.get_rank(group)  # the first rank's values count
    net = pt.tensor_parallel(pt.vit(**ten.START | {'seed': seed}), group)
    losses = ten.ten_steps(net)
    return (losses, ten.values(pt.full_state(net, group))), ten.values(net.state_dict())


def two_layers():
    """Two linear layers, whole and cut, on an input that needs a gradient."""
    torch.manual_seed(0)
    first, second = torch.nn.Linear(6, 8).double(), torch.nn.Linear(8, 5, bias=False).double()
    x = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    whole = second(first(x).relu())
    (whole**2).sum().backward()
    wanted, x.grad = x.grad, None
    rows = pt.row_linear(second)
    y = rows(pt.column_linear(first)(pt.SumBackward.apply(x, None)).relu())
    (y**2).sum().backward()
    return (y - whole).abs().max().item(), (x.grad - wanted).abs().max().item()


def what_is_refused():
    three, layer = dist.new_group([0, 1, 2]), torch.nn.Linear(4, 4)
    cut, other = pt.tensor_parallel(pt.vit(**ten.START)), {'attention': layer, 'mlp': layer}
    ten.refused(
        ('no blocks with .attention and .mlp', pt.tensor_parallel, layer),
        ('no blocks with', pt.tensor_parallel, torch.nn.ModuleDict(other)),
        ('cut already', pt.tensor_parallel, cut),
        ('layer must be a whole nn.Linear', pt.column_linear, cut[1].attention.out),
        ('layer must be a whole nn.Linear, not ReLU()', pt.column_linear, torch.nn.ReLU()),
        ('ranks, 4, not 7', pt.row_linear, torch.nn.Linear(7, 4)),
    )
    if dist.get_rank() < 3:
        net = pt.vit(**ten.START)
        ten.refused(('ranks, 3, not 4', pt.tensor_parallel, net, three))
        assert ten.same_bits(
            ten.values(net.state_dict()), ten.values(pt.vit(**ten.START).state_dict())
        )


def on_a_mesh():
    """Along PyTorch's mesh: shards of the batch on one axis, of the layers on the other."""
    mesh = init_device_mesh('cpu', (2, 2), mesh_dim_names=('data', 'tensor'))
    data, tensor = (mesh.get_group(name) for name in ('data', 'tensor'))
    net = pt.tensor_parallel(pt.vit(**ten.START), tensor)

    def gradients(net, X, y):
        X_rank, y_rank = (a.tensor_split(2)[dist.get_rank(data)] for a in (X, y))
        mean = ten.backward(net, X_rank, y_rank, len(X_rank) / len(X))
        mean = torch.tensor(mean, dtype=torch.float64)
        for x in (mean, *(p.grad for p in net.parameters())):
            dist.all_reduce(x, group=data)
        return mean.item()

    losses = ten.ten_steps(net, gradients)
    return (losses, ten.values(pt.full_state(net, tensor))), ten.values(net.state_dict())


def in_each_rank():
    """Four ranks, which are also two groups of two; in chapter 7 they are one."""
    what_is_refused()
    halves = by_hand(init_device_mesh('cpu', (2, 2)).get_group(1))
    return {'layers': two_layers(), 'mesh': on_a_mesh(), 'halves': halves}


@pytest.fixture(scope='module')
def one():
    return ten.one_device()


@pytest.fixture(scope='module')
def ranks():
    return pt.launch(in_each_rank, 4)


def test_ranks_that_share_each_layer_equal_one_device(ranks, one):
    for rank in ranks:
        ten.check(rank['halves'][0], one)


def test_what_all_ranks_have_is_the_same_bit_for_bit_and_the_rest_is_cut(ranks, one):
    cut = {f'{n}.weight' for n in (*COLUMNS, *ROWS)} | {f'{n}.bias' for n in COLUMNS}
    first, *_ = halves = [rank['halves'][1] for rank in ranks]
    for name, value in ((name, value) for half in halves for name, value in half.items()):
        is_cut = name.partition('.')[2] in cut
        assert value.size * (2 if is_cut else 1) == one[1][name].size, name
        assert is_cut or np.array_equal(value, first[name]), name


def test_two_layers_on_their_own(ranks):
    for rank in ranks:
        assert max(rank['layers']) < 1e-12


def test_data_by_tensor_equals_one_device(ranks, one):
    both, own = zip(*(rank['mesh'] for rank in ranks))
    for result in both:
        ten.check(result, one)
    for a, b in ((0, 2), (1, 3)):  # the same part of the layers
        assert ten.same_bits(own[a], own[b])
    assert ten.apart(own[0], own[1]) > 1e-3


def test_it_takes_a_group():
    ten.refused(('belongs to no group', pt.tensor_parallel, pt.vit(**ten.START)))
