"""Pipeline parallelism: both schedules equal one device, and what they hold.

Chapter 7 measures how long PyTorch's own let stages idle.
"""

import pytest

torch = pytest.importorskip('torch', reason="PyTorch is not installed: 'make setup TORCH=1'")

import ten_steps as ten  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.distributed import pipelining  # noqa: E402

import mgpu_helpers as mgpu  # noqa: E402
from mgpu_helpers.processes import ProcessFailed  # noqa: E402
from mgpu_helpers.pytorch import Traffic  # noqa: E402

pt = mgpu.pytorch
pytestmark = pytest.mark.usefixtures('without_compiler')
SCHEDULES = {'gpipe': pt.gpipe, 'one_f_one_b': pt.one_f_one_b}
MICRO = 6  # of 47 examples


def from_last(losses, group=None):
    """Give every stage the mean loss, which the last one knows."""
    last = dist.get_world_size(group) - 1
    mean = torch.zeros((), dtype=torch.float64) if losses is None else losses.mean()
    dist.broadcast(mean, group=group, group_src=last)
    return mean.item()


def stage_here(group=None):
    return pt.stage_of(pt.vit(**ten.START), dist.get_rank(group), dist.get_world_size(group))


def by_hand(step):
    """Losses, this stage's part of the state, and what it held, did and sent in one step."""
    done = []

    def gradients(stage, X, y):
        done[:] = [step(stage, X, y, MICRO)]
        return from_last(done[0].losses)

    stage = stage_here()
    losses = ten.ten_steps(stage, gradients)
    with Traffic() as traffic:
        step(stage, *ten.batches()[0], MICRO)
    spans = [(s.kind, int(s.name), s.start, s.end) for s in done[0].spans]
    return (
        (losses, ten.values(stage.state_dict())),
        done[0].held,
        spans,
        (dict(traffic.calls), traffic.total),
    )


def with_tensor():
    """Two by two: stages along the first axis, layers cut along the second."""
    mesh = dist.init_device_mesh('cpu', (2, 2))
    pipe, tensor = mesh.get_group(0), mesh.get_group(1)
    stage = pt.tensor_parallel(stage_here(pipe), tensor)

    def gradients(stage, X, y):
        return from_last(pt.one_f_one_b(stage, X, y, 3, pipe).losses, pipe)

    return ten.ten_steps(stage, gradients), ten.values(pt.full_state(stage, tensor))


def frozen():
    """The gradients of one step with the first stage frozen as a whole."""
    stage = stage_here().requires_grad_(dist.get_rank() > 0)
    pt.one_f_one_b(stage, *ten.batches()[0], MICRO)
    return {name: p.grad.numpy() for name, p in stage.named_parameters() if p.requires_grad}


def by_pytorch():
    """The gradients of one step by PyTorch's schedules, from this rank's stages of four."""
    X, y = (a[:45] for a in ten.batches()[0])
    rank, found = dist.get_rank(), {}
    for name in ('ScheduleInterleaved1F1B', 'ScheduleInterleavedZeroBubble'):
        net = pt.vit(**ten.START)
        parts = {i: pt.stage_of(net, i, 4) for i in (rank, rank + 2)}
        stages = [pipelining.PipelineStage(p, i, 4, torch.device('cpu')) for i, p in parts.items()]
        schedule = getattr(pipelining, name)(stages, 3, loss_fn=torch.nn.functional.cross_entropy)
        schedule.step(*[X][rank:], target=y)
        named = (pair for part in parts.values() for pair in part.named_parameters())
        found[name] = {name: p.grad.numpy() for name, p in named}
    return found


def what_is_refused():
    stage, (X, y), net = stage_here(), ten.batches()[0], pt.vit(**ten.START)
    ten.refused(
        ('must be from 4, the number of stages, so that all can', pt.gpipe, stage, X, y, 3),
        ('to 5, the number of examples, not 6', pt.one_f_one_b, stage, X[:5], y[:5], 6),
        ('y must be a label for each of X (47, ', pt.gpipe, stage, X, y[:-1], 6),
        ('layers must be a function of activations', pt.gpipe, None, X, y, 6),
        ('6 layers cannot be cut into 7 stages', pt.stage_of, net, 0, 7),
        ('stage must be at most 1, not 2', pt.stage_of, net, 2, 2),
        ('net must be an nn.Sequential', pt.stage_of, net[1], 0, 2),
    )


def in_each_rank():
    what_is_refused()
    results = {'with tensor': with_tensor(), 'frozen': frozen()}
    return results | {name: by_hand(step) for name, step in SCHEDULES.items()}


@pytest.fixture(scope='module')
def one():
    return ten.one_device()


@pytest.fixture(scope='module')
def results():
    return pt.launch(in_each_rank, 4)


def joined(runs):
    """Put the stages' values into one state, after their losses, which all know."""
    losses, states = zip(*runs, strict=True)
    assert all(other == losses[0] for other in losses)
    return losses[0], {name: value for state in states for name, value in state.items()}


def test_stages_equal_one_device_by_both_schedules_with_the_same_bits(results, one):
    by_gpipe, by_1f1b = (joined([rank[name][0] for rank in results]) for name in SCHEDULES)
    ten.check(by_gpipe, one)
    assert by_1f1b[0] == by_gpipe[0] and ten.same_bits(by_1f1b[1], by_gpipe[1])


def test_stages_of_cut_layers_equal_one_device(results, one):
    results = [rank['with tensor'] for rank in results]
    ten.check(joined([results[0], results[2]]), one)
    assert all(ten.same_bits(results[i][1], results[i + 1][1]) for i in (0, 2))


def test_a_frozen_first_stage_only_computes(results):
    net = pt.vit(**ten.START)
    ten.backward(net, *ten.batches()[0])
    exact = {name: p.grad.numpy() for name, p in net.named_parameters()}
    ours = {name: grad for rank in results for name, grad in rank['frozen'].items()}
    assert not results[0]['frozen']
    assert ten.apart(ours, {name: exact[name] for name in ours}) < 1e-10


def test_activations_go_to_the_next_stage_and_their_gradients_come_back(results):
    """Beside them, a first message says how large they are: two small sends."""
    size = 47 * 16 * ten.START['width'] * 8
    for stage, rank in enumerate(results):
        on, back = stage < 3, stage > 0
        for calls, total in (rank[name][3] for name in SCHEDULES):
            assert calls == {'send': MICRO * (on + back) + 2 * on}
            assert 0 <= total - size * (on + back) < 1000 * on + 1


def test_what_a_stage_holds_and_in_which_order_it_works(results):
    for stage, rank in enumerate(results):
        assert rank['gpipe'][1] == MICRO and rank['one_f_one_b'][1] == 4 - stage
        for name in SCHEDULES:
            order, spans = getattr(pt, f'{name}_order')(MICRO, stage, 4), rank[name][2]
            assert [span[:2] for span in spans] == order
            assert sorted(order) == [(p, i) for p in ('backward', 'forward') for i in range(MICRO)]
            times = [t for span in spans for t in span[2:]]
            assert times == sorted(times)
    last = pt.one_f_one_b_order(3, 3, 4)
    assert [f'{kind[0]}{i}' for kind, i in last] == ['f0', 'b0', 'f1', 'b1', 'f2', 'b2']


def test_no_pass_begins_before_what_it_needs_is_there(results):
    """One clock for all processes of this machine."""
    for name in SCHEDULES:
        of_stage = [{span[:2]: span[2:] for span in rank[name][2]} for rank in results]
        for here, further in zip(of_stage, of_stage[1:]):
            for i in range(MICRO):
                assert here['forward', i][1] <= further['forward', i][0]
                assert further['backward', i][1] <= here['backward', i][0]


def test_stages_have_about_as_many_parameters_each_and_the_names_of_the_whole():
    net = pt.vit()
    for k in (1, 2, 3, 4):
        stages = [pt.stage_of(net, s, k) for s in range(k)]
        assert [name for s in stages for name in s.state_dict()] == list(net.state_dict())
    blocks = [sum(hasattr(layer, 'mlp') for layer in pt.stage_of(net, s, 4)) for s in range(4)]
    assert blocks == [1, 1, 1, 1]


def test_pytorchs_schedules_have_the_gradients_of_one_device():
    net = pt.vit(**ten.START)
    ten.backward(net, *(a[:45] for a in ten.batches()[0]))
    exact = {name: p.grad.numpy() for name, p in net.named_parameters()}
    first, second = pt.launch(by_pytorch, 2)
    for name in first:
        both = first[name] | second[name]
        assert ten.apart({n: both[n] for n in exact}, exact) < 1e-10, name


def gives_two():
    pt.gpipe(lambda X: (X, X), *ten.batches()[0], MICRO)


def test_a_stage_gives_one_tensor_and_belongs_to_a_group():
    ten.refused(('belongs to no group', pt.gpipe, pt.vit(**ten.START), *ten.batches()[0], 2))
    with pytest.raises(ProcessFailed, match='what a stage gives to the next must be'):
        pt.launch(gives_two, 1)
