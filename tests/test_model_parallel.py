"""Sharded, cut and staged layers equal one device; cut and staged ones also together.

Chapter 7 counts what they send, goes along a mesh of shards and cut layers, and holds PyTorch's
engines to the same steps.
"""

from functools import partial

import pytest

torch = pytest.importorskip('torch', reason="PyTorch is not installed: 'make setup TORCH=1'")

import ten_steps as ten  # noqa: E402
import torch.distributed as dist  # noqa: E402

import mgpu_helpers as mgpu  # noqa: E402

pt = mgpu.pytorch
pytestmark = pytest.mark.usefixtures('without_compiler')
COLUMNS = 'attention.q', 'attention.k', 'attention.v', 'mlp.0'
ROWS = 'attention.out', 'mlp.2'
gpipe = partial(pt.run_stage, pt.gpipe_order)
one_f_one_b = partial(pt.run_stage, pt.one_f_one_b_order)
SCHEDULES = {'gpipe': gpipe, 'one_f_one_b': one_f_one_b}
MICRO = 6  # of 47 examples


def sharded():
    """Losses and the whole state, by ZeRO 3, of ranks with 12, 12, 12 and 11 examples."""
    net, rank, losses = pt.vit(**ten.START), dist.get_rank(), []
    shards = [pt.shard_parameters(layer) for layer in net]
    assert not any(p.untyped_storage().nbytes() for p in net.parameters())
    optimizer = torch.optim.Adam(shards, lr=1e-3)
    for X, y in ten.batches():
        X_rank, y_rank = (a.tensor_split(4)[rank] for a in (X, y))
        term = ten.backward(net, X_rank, y_rank, 4 * len(X_rank) / len(X))
        optimizer.step()
        optimizer.zero_grad()
        losses.append(torch.tensor(term / 4, dtype=torch.float64))
        dist.all_reduce(losses[-1])
    for layer, shard in zip(net, shards):
        values = pt.views(pt.whole_of(shard.detach()), list(layer.parameters()))
        for p, value in zip(layer.parameters(), values):
            p.data = value
    return [loss.item() for loss in losses], ten.values(net.state_dict())


def cut_layers(group):
    """Losses and the whole state, then what this rank has of it."""
    seed = ten.START['seed'] + dist.get_rank(group)  # the first rank's values count
    net = pt.tensor_parallel(pt.vit(**ten.START | {'seed': seed}), group)
    losses = ten.ten_steps(net)
    return (losses, ten.values(pt.full_state(net, group))), ten.values(net.state_dict())


def two_layers():
    """How far two linear layers are from whole ones: their output, and their input's gradient."""
    torch.manual_seed(0)
    first, second = torch.nn.Linear(6, 8).double(), torch.nn.Linear(8, 5, bias=False).double()
    x = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    whole = second(first(x).relu())
    (whole**2).sum().backward()
    wanted, x.grad = x.grad, None
    y = pt.row_linear(second)(pt.column_linear(first)(pt.SumBackward.apply(x, None)).relu())
    (y**2).sum().backward()
    return max((y - whole).abs().max().item(), (x.grad - wanted).abs().max().item())


def from_last(losses, group=None):
    """Give every stage the mean loss, which the last one knows."""
    mean = torch.zeros((), dtype=torch.float64) if losses is None else losses.mean()
    dist.broadcast(mean, group=group, group_src=dist.get_world_size(group) - 1)
    return mean.item()


def stage_here(group=None):
    return pt.stage_of(pt.vit(**ten.START), dist.get_rank(group), dist.get_world_size(group))


def staged(step):
    """Losses and this stage's state; what it held at most, and in which order it worked."""
    done = []

    def gradients(stage, X, y):
        done[:] = [step(stage, X, y, MICRO)]
        return from_last(done[0].losses)

    stage = stage_here()
    losses = ten.ten_steps(stage, gradients)
    order = [(span.kind, int(span.name)) for span in done[0].spans]
    return (losses, ten.values(stage.state_dict())), done[0].held, order


def stages_of_cut_layers(pipe, tensor):
    stage = pt.tensor_parallel(stage_here(pipe), tensor)

    def gradients(stage, X, y):
        return from_last(one_f_one_b(stage, X, y, 3, pipe).losses, pipe)

    return ten.ten_steps(stage, gradients), ten.values(pt.full_state(stage, tensor))


def frozen():
    """The gradients of one step with the first stage frozen as a whole."""
    stage = stage_here().requires_grad_(dist.get_rank() > 0)
    one_f_one_b(stage, *ten.batches()[0], MICRO)
    return {name: p.grad.numpy() for name, p in stage.named_parameters() if p.requires_grad}


def what_is_refused():
    three, layer = dist.new_group([0, 1, 2]), torch.nn.Linear(4, 4)
    cut, other = pt.tensor_parallel(pt.vit(**ten.START)), {'attention': layer, 'mlp': layer}
    alone = dist.init_device_mesh('cpu', (4, 1)).get_group(1)
    stage, (X, y), net = stage_here(), ten.batches()[0], pt.vit(**ten.START)
    ten.refused(
        ('no blocks with .attention and .mlp', pt.tensor_parallel, layer),
        ('no blocks with', pt.tensor_parallel, torch.nn.ModuleDict(other)),
        ('already been cut', pt.tensor_parallel, cut),
        ('layer must be a whole nn.Linear', pt.column_linear, cut[1].attention.out),
        ('layer must be a whole nn.Linear, not ReLU()', pt.column_linear, torch.nn.ReLU()),
        ('ranks, 4, not 7', pt.row_linear, torch.nn.Linear(7, 4)),
        ('must be from 4, the number of stages, so that no', gpipe, stage, X, y, 3),
        ('to 5, the number of examples, not 6', one_f_one_b, stage, X[:5], y[:5], 6),
        ('y must be a label per example of X (47, ', gpipe, stage, X, y[:-1], 6),
        ('layers must be a function of activations', gpipe, None, X, y, 6),
        ('the output of a stage', gpipe, lambda X: (X, X), X, y, 6, alone),
        ('6 layers cannot be cut into 7 stages', pt.stage_of, net, 0, 7),
        ('stage must be at most 1, not 2', pt.stage_of, net, 2, 2),
        ('net must be an nn.Sequential', pt.stage_of, net[1], 0, 2),
    )
    if dist.get_rank() < 3:
        ten.refused(('ranks, 3, not 4', pt.tensor_parallel, net, three))
    assert ten.same_bits(ten.values(net.state_dict()), ten.values(pt.vit(**ten.START).state_dict()))


def in_each_rank():
    """Four ranks in one row, and two by two."""
    what_is_refused()
    mesh = dist.init_device_mesh('cpu', (2, 2))
    pipe, tensor = mesh.get_group(0), mesh.get_group(1)
    return {
        'sharded': sharded(),
        'layers': two_layers(),
        'cut': cut_layers(tensor),
        'both': stages_of_cut_layers(pipe, tensor),
        'frozen': frozen(),
        **{name: staged(step) for name, step in SCHEDULES.items()},
    }


@pytest.fixture(scope='module')
def one():
    return ten.one_device()


@pytest.fixture(scope='module')
def ranks():
    return pt.launch(in_each_rank, 4)


def joined(runs):
    """Put the stages' values into one state, after their losses, which all know."""
    losses, states = zip(*runs, strict=True)
    assert all(other == losses[0] for other in losses)
    return losses[0], {name: value for state in states for name, value in state.items()}


def test_sharded_parameters_equal_one_device(ranks, one):
    for rank in ranks:
        ten.check(rank['sharded'], one)
        assert ten.same_bits(rank['sharded'][1], ranks[0]['sharded'][1])


def test_cut_layers_equal_one_device(ranks, one):
    """What is not cut is the same on all ranks, bit for bit."""
    cut = {f'{n}.weight' for n in (*COLUMNS, *ROWS)} | {f'{n}.bias' for n in COLUMNS}
    first = ranks[0]['cut'][1]
    for rank in ranks:
        assert rank['layers'] < 1e-12
        ten.check(rank['cut'][0], one)
        for name, value in rank['cut'][1].items():
            is_cut = name.partition('.')[2] in cut
            assert value.size * (2 if is_cut else 1) == one[1][name].size, name
            assert is_cut or (value == first[name]).all(), name


def test_stages_equal_one_device_by_both_schedules_with_the_same_bits(ranks, one):
    by_gpipe, by_1f1b = (joined([rank[name][0] for rank in ranks]) for name in SCHEDULES)
    ten.check(by_gpipe, one)
    assert by_1f1b[0] == by_gpipe[0] and ten.same_bits(by_1f1b[1], by_gpipe[1])


def test_stages_of_cut_layers_equal_one_device(ranks, one):
    both = [rank['both'] for rank in ranks]
    ten.check(joined([both[0], both[2]]), one)
    assert all(ten.same_bits(both[i][1], both[i + 1][1]) for i in (0, 2))


def test_a_frozen_first_stage_only_computes(ranks):
    net = pt.vit(**ten.START)
    ten.backward(net, *ten.batches()[0])
    exact = {name: p.grad.numpy() for name, p in net.named_parameters()}
    ours = {name: grad for rank in ranks for name, grad in rank['frozen'].items()}
    assert not ranks[0]['frozen']
    assert ten.apart(ours, {name: exact[name] for name in ours}) < 1e-10


def test_what_a_stage_holds_and_in_which_order_it_works(ranks):
    for stage, rank in enumerate(ranks):
        assert rank['gpipe'][1] == MICRO and rank['one_f_one_b'][1] == 4 - stage
        for name in SCHEDULES:
            order = getattr(pt, f'{name}_order')(MICRO, stage, 4)
            assert rank[name][2] == order
            assert sorted(order) == [(p, i) for p in ('backward', 'forward') for i in range(MICRO)]
    last = pt.one_f_one_b_order(3, 3, 4)
    assert [f'{kind[0]}{i}' for kind, i in last] == ['f0', 'b0', 'f1', 'b1', 'f2', 'b2']


def test_stages_are_the_whole_network_in_parts_of_about_one_size():
    net = pt.vit()
    for k in (1, 2, 3, 4):
        stages = [pt.stage_of(net, s, k) for s in range(k)]
        assert [name for s in stages for name in s.state_dict()] == list(net.state_dict())
    assert [sum(hasattr(layer, 'mlp') for layer in stage) for stage in stages] == [1, 1, 1, 1]


def test_they_take_a_group():
    net, batch = pt.vit(**ten.START), ten.batches()[0]
    ten.refused(
        ('has no process group', pt.tensor_parallel, net),
        ('has no process group', gpipe, net, *batch, 2),
    )
