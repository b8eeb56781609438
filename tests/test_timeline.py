"""Recording what devices do: real training steps, and everything that can come in between."""

import collections
import contextlib
import functools
import gc
import itertools
import os
import stat
import sys
import textwrap

import mxnet as mx
import pytest
from checkouts import ROOT, call
from mxnet import autograd, nd
from mxnet.base import MXNetError

import mgpu_helpers as mgpu
from mgpu_helpers.timeline import record

DEVICES = [mx.cpu(0), mx.cpu(1)]
X, Y = nd.random.uniform(shape=(8, 1, 28, 28)), nd.arange(8)


def new_replicas():
    return [mgpu.get_params(mgpu.init_params(seed=0), device) for device in DEVICES]


@pytest.fixture(scope='module')
def step():
    """Chapter 1's training step on two devices, warm."""
    replicas = new_replicas()

    def step():
        return mgpu.train_batch(X, Y, replicas, DEVICES, lr=0.1)

    step()
    nd.waitall()
    return step


@pytest.fixture(scope='module')
def recorded(step):
    """Count the events of one step by lane, kind and name."""
    return counts(record_of(step))


def record_of(function):
    with record() as timeline:
        function()
    return timeline


def counts(timeline):
    return collections.Counter((s.lane, s.kind, s.name) for s in timeline.spans)


def kinds(timeline):
    return collections.Counter((s.kind, s.name) for s in timeline.spans)


def run(code, folder, **env):
    """Run a script in a separate process and folder, as a reader does; return its lines."""
    done = call(folder, sys.executable, '-c', textwrap.dedent(code), PYTHONPATH=ROOT, **env)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout.splitlines()


def test_every_operator_of_chapter_1s_step_has_its_phase(recorded):
    wanted = {
        ('cpu(0)', 'copy', 'copy to cpu(1)'): 2,  # the second shard: images and labels
        # A copy between CPU devices is the work of the device that has the data.
        ('cpu(1)', 'allreduce', 'copy to cpu(0)'): 8,
        ('cpu(0)', 'allreduce', 'broadcast_add'): 8,
        ('cpu(0)', 'allreduce', 'copy to cpu(1)'): 8,
    }
    for lane in ('cpu(0)', 'cpu(1)'):
        wanted[lane, 'forward', '_mul_scalar'] = 1  # the loss
        wanted |= {(lane, 'update', name): 8 for name in ('broadcast_sub', '_mul_scalar')}
        layers = itertools.product(('forward', 'backward'), 'Convolution Pooling dot'.split())
        wanted |= {(lane, *layer): 2 for layer in layers}
    assert wanted.items() <= recorded.items()
    assert {lane for lane, *_ in recorded} == {'cpu(0)', 'cpu(1)'}
    found = {kind for _, kind, _ in recorded}
    assert found == {'copy', 'forward', 'backward', 'allreduce', 'update'}


def test_several_steps_in_one_recording_and_it_changes_no_result(step, recorded):
    timeline = record_of(lambda: [step() for _ in range(3)])
    assert counts(timeline) == collections.Counter({k: 3 * n for k, n in recorded.items()})
    updates, loads = ([s for s in timeline.spans if s.kind == k] for k in ('update', 'copy'))
    # One after the other: the second step's shards are cut when the first one's updates are done.
    assert loads[2].start >= max(s.end for s in updates[: len(updates) // 3])
    ends = []
    for around in (contextlib.nullcontext, record):
        replicas = new_replicas()
        mgpu.train_batch(X, Y, replicas, DEVICES, lr=0.1)
        with around():
            losses = mgpu.train_batch(X, Y, replicas, DEVICES, lr=0.1)
        ends.append([a.asnumpy() for a in (*losses, *replicas[1])])
    assert all((a == b).all() for a, b in zip(*ends, strict=True))


def test_python_has_a_lane_of_its_own_which_ends_before_the_devices_do(step):
    large = nd.random.uniform(shape=(512, 1, 28, 28)), nd.arange(512) % 10
    replicas = new_replicas()
    for _ in range(2):
        with record(python=True) as timeline:
            mgpu.train_batch(*large, replicas, DEVICES, lr=0.1)
    assert timeline.lanes == ['Python', 'cpu(0)', 'cpu(1)']
    python, *_ = timeline.by_lane().values()
    asked = [span.name for span in python]
    assert asked[-5:] == ['copy', 'forward', 'backward', 'allreduce', 'update']
    assert all(a.end == b.start for a, b in itertools.pairwise(python))
    assert python[0].start == timeline.ends[0] and python[-1].end < timeline.ends[1]


def test_earlier_work_is_not_in_it_and_all_that_was_asked_for_is():
    for _ in range(20):
        nd.dot(nd.ones((300, 300)), nd.ones((300, 300)))
    with record() as timeline:
        for _ in range(10):
            nd.dot(nd.zeros((400, 400)), nd.zeros((400, 400)))
    with record('an empty block') as empty:
        pass
    assert kinds(timeline) == {('compute', '_zeros'): 20, ('compute', 'dot'): 10}
    assert not empty.spans and empty.title == 'an empty block'


def test_gluon():
    for options in ({}, {'static_alloc': True, 'static_shape': True}, {'active': False}):
        net = mgpu.gluon.lenet()
        mgpu.gluon.prepare(net, DEVICES, seed=0)
        net.hybridize(**options)
        for where in ({'update_on_kvstore': True}, {'update_on_kvstore': False}):
            trainer = mx.gluon.Trainer(net.collect_params(), 'sgd', {'learning_rate': 0.1}, **where)
            step = functools.partial(mgpu.gluon.train_batch, X, Y, net, DEVICES, trainer)
            for _ in range(2):
                step()
            timeline = record_of(step)
            counted = counts(timeline)
            assert timeline.lanes == ['cpu(0)', 'cpu(1)']
            layers = ('forward', 'backward'), 'Convolution Pooling FullyConnected'.split()
            assert all(counted[layer] == 2 for layer in itertools.product(timeline.lanes, *layers))
            assert counted['cpu(0)', 'copy', 'copy to cpu(1)'] == 2
            counted = kinds(timeline)
            assert counted['allreduce', 'ElementwiseSum'] == 8
            assert not [name for kind, name in counted if kind == 'compute']
            assert {name for kind, name in counted if kind == 'update'} == {'multi_sgd_update'}


def test_phases_of_ones_own_code():
    """An update is what writes into an array that has a gradient, and what made what it reads."""
    (params, _), (w, x, v) = new_replicas(), (nd.ones((5, 5)) for _ in range(3))
    w.attach_grad()
    with record() as timeline:
        with autograd.record():
            loss = (w * x).sum()
        loss.backward()
        gradient = w.grad
        gradient += x  # as an allreduce adds
        v[:] = 0.9 * v + w.grad * x
        w[:] = w - 0.1 * (w.grad * x)
        mgpu.evaluate_accuracy(lambda X: mgpu.lenet(X, params), [(X, Y)], DEVICES[0])
    phases = kinds(timeline)
    # The gradient of a product is a product too, and so may an update be: each has its phase.
    assert phases['forward', 'broadcast_mul'] == phases['update', 'broadcast_mul'] == 1
    assert phases['allreduce', 'broadcast_add'] == 2 and phases['update', '_mul_scalar'] == 1
    assert any(kind == 'backward' for kind, _ in phases)
    assert phases['compute', 'Convolution'] == 2


def test_more_devices_than_cores_and_than_images():
    """MXNet's profiler has lanes for as many devices as cores; the next get other names."""
    k = min(os.cpu_count(), 4) + 2
    devices = [mx.cpu(i) for i in range(k)]
    replicas = [mgpu.get_params(mgpu.init_params(seed=0), device) for device in devices]
    with record() as timeline:
        mgpu.train_batch(X[: k - 1], Y[: k - 1], replicas, devices, lr=0.1)
    assert timeline.lanes == [str(device) for device in devices]
    counted = counts(timeline)
    for i, lane in enumerate(timeline.lanes):
        assert counted[lane, 'forward', 'Convolution'] == (2 if i < k - 1 else 0)
        assert counted[lane, 'update', 'broadcast_sub'] == 8  # all stay equal


def test_an_error_in_the_block_passes_on_and_leaves_nothing_behind(step, recorded):
    for error in (ZeroDivisionError, KeyboardInterrupt):
        with pytest.raises(error), record() as timeline:
            step()
            raise error
        assert counts(timeline) == recorded  # what ran until then
        nd.ones(3, ctx=mx.cpu(100)).wait_to_read()  # refused only while something is recorded
    net, unknown = mgpu.gluon.lenet(), mx.cpu(100)
    mgpu.gluon.prepare(net, [unknown])
    with autograd.record():
        net(nd.ones((1, 1, 28, 28), ctx=unknown)).backward()
    nd.waitall()
    net.itself = [net]  # a cycle: freed while something was recorded, it ended the process
    gc.collect()  # only a full collection will free it now
    del net
    with record():
        gc.collect()
    # An error on a device happens later than its line: when the block waits for the devices.
    with pytest.raises(MXNetError, match='scale'), record():
        nd.random.normal(0, -1, shape=(3,))
    # A device that would end the process is refused in time.
    for absent in (mx.cpu(5000), mx.gpu(mx.context.num_gpus())):
        with pytest.raises(ValueError, match='cannot be recorded.*supports only'), record():
            nd.ones(3, ctx=absent)
    with record() as timeline:
        with pytest.raises(RuntimeError, match='recording is already running'), record():
            pass
        step()
    assert counts(timeline) == recorded


def test_mxnets_own_profiler_is_on_or_was_used_before(tmp_path):
    code = """
        import pathlib
        import mgpu_helpers as mgpu
        from mxnet import cpu, nd, profiler
        def mine():
            profiler.set_config(profile_all=True, filename='mine.json')
            profiler.set_state('run')
            nd.ones(3).wait_to_read()
        mine()
        with mgpu.timeline.record() as timeline: nd.zeros(3)
        print('off:', {s.name for s in timeline.spans})
        mine()
        profiler.set_state('stop')
        profiler.dump()
        print('dumped:', '_ones' in pathlib.Path('mine.json').read_text())
        with mgpu.timeline.record() as timeline: nd.ones(3, ctx=cpu(1))
        print({s.name for s in timeline.spans}, timeline.lanes)"""
    assert run(code, tmp_path) == ["off: {'_zeros'}", 'dumped: True', "{'_ones'} ['cpu(1)']"]
    assert [path.name for path in tmp_path.iterdir()] == ['mine.json']  # and none of ours


def test_what_the_profiler_cannot_count_does_not_end_the_process(tmp_path):
    code = """
        import os
        import mgpu_helpers as mgpu
        from mgpu_helpers.gluon import mx, nd
        far = [mx.cpu(i) for i in (0, 3 + os.cpu_count())]
        freed = nd.ones(3, ctx=far[1])
        with mgpu.timeline.record() as timeline:
            nd.ones(3)
            del freed
        print(timeline.lanes)
        arrays = [nd.ones(3, ctx=d) for d in far]
        try:
            with mgpu.timeline.record():
                arrays[0].copyto(arrays[1])
        except ValueError as error:
            print('cannot be recorded' in str(error))
        replicas = [mgpu.get_params(mgpu.init_params(seed=0), mx.cpu(i)) for i in (0, 1)]
        X, y = nd.ones((8, 1, 28, 28)), nd.zeros(8)
        with mgpu.timeline.record() as timeline:
            mgpu.train_batch(X, y, replicas, [mx.cpu(0), mx.cpu(1)], 0.1)
        print({s.kind for s in timeline.spans if s.name == 'several operators'})
        print({s.kind for s in timeline.spans if s.name == 'Convolution'})"""
    # Operators in bulk are forward or backward, too.
    lines = run(code, tmp_path, MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN='15')
    assert lines == ["['cpu(0)']", 'True', "{'backward'}", "{'forward'}"]
    assert not list(tmp_path.iterdir())  # nothing of MXNet's
    # MXNet removes the file that it is about to write; for root, /dev/null was gone.
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
