"""Recording what devices do: real training steps, and everything that can come in between."""

import collections
import json
import os
import stat
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import mxnet as mx
import pytest
from mxnet import autograd, nd
from mxnet.base import MXNetError

import mgpu_helpers as mgpu
from mgpu_helpers.timeline import one_batch, phase, record

ROOT = Path(__file__).parent.parent
DEVICES = [mx.cpu(0), mx.cpu(1)]
X, Y = nd.random.uniform(shape=(8, 1, 28, 28)), nd.arange(8)


@pytest.fixture
def replicas():
    return [mgpu.get_params(mgpu.init_params(seed=0), device) for device in DEVICES]


@pytest.fixture
def step(replicas):
    """Chapter 1's training step on two devices, warm."""

    def step():
        return mgpu.train_batch(X, Y, replicas, DEVICES, lr=0.1)

    step()
    nd.waitall()
    return step


def counts(timeline):
    return collections.Counter((s.lane, s.kind, s.name) for s in timeline.spans)


def kinds(timeline):
    return collections.Counter((s.kind, s.name) for s in timeline.spans)


def run(code, **env):
    """Run a script in a process and a folder of its own, as a reader does."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / 'script.py'
        script.write_text(textwrap.dedent(code))
        path = os.pathsep.join([str(ROOT), os.environ.get('PYTHONPATH', '')])
        done = subprocess.run(
            [sys.executable, script],
            cwd=folder,
            env=os.environ | {'PYTHONPATH': path} | env,
            capture_output=True,
            text=True,
            timeout=300,
        )
        done.files = sorted(p.name for p in Path(folder).iterdir() if p != script)
        return done


# --- which operator belongs to which phase ------------------------------------------------------


def test_every_operator_of_chapter_1s_step_has_its_phase(step):
    with record() as timeline:
        step()
    found = counts(timeline)
    assert timeline.lanes == ['cpu(0)', 'cpu(1)']
    for lane in timeline.lanes:
        for name in ('Convolution', 'Pooling', 'dot', 'broadcast_add'):
            assert found[lane, 'forward', name] == 2, name
            assert found[lane, 'backward', name] == 2, name
        assert found[lane, 'update', 'broadcast_sub'] == 8  # a parameter each
        assert found[lane, 'update', '_mul_scalar'] == 8
        assert found[lane, 'forward', '_mul_scalar'] == 1  # the loss
    assert found['cpu(0)', 'copy', 'copy to cpu(1)'] == 2  # the second shard: images and labels
    # A copy between CPU devices is the work of the device that has the data.
    assert found['cpu(1)', 'allreduce', 'copy to cpu(0)'] == 8
    assert found['cpu(0)', 'allreduce', 'broadcast_add'] == 8
    assert found['cpu(0)', 'allreduce', 'copy to cpu(1)'] == 8
    assert {s.kind for s in timeline.spans} == {
        'copy',
        'forward',
        'backward',
        'allreduce',
        'update',
    }


def test_several_steps_in_one_recording(step):
    with record() as once:
        step()
    with record() as timeline:
        for _ in range(3):
            step()
    assert counts(timeline) == collections.Counter({k: 3 * n for k, n in counts(once).items()})
    updates = [s for s in timeline.spans if s.kind == 'update']
    loads = [s for s in timeline.spans if s.kind == 'copy']
    # One after the other: the second step's shards are cut when the first one's updates are done.
    assert loads[2].start >= max(s.end for s in updates[: len(updates) // 3])


def test_recording_works_any_number_of_times(step):
    found = []
    for _ in range(5):
        with record() as timeline:
            step()
        found.append(counts(timeline))
    assert all(one == found[0] for one in found)


def test_earlier_work_is_not_in_it(replicas):
    for _ in range(20):
        nd.dot(nd.ones((300, 300)), nd.ones((300, 300)))
    with record() as timeline:
        nd.ones(3)
    assert {s.name for s in timeline.spans} == {'_ones'}


def test_later_work_is_not_in_it():
    with record() as timeline:
        nd.ones(3)
    nd.dot(nd.ones((3, 3)), nd.ones((3, 3))).wait_to_read()
    with record():
        nd.zeros(3)
    assert {s.name for s in timeline.spans} == {'_ones'}


def test_the_block_ends_when_the_devices_are_done():
    with record() as timeline:
        for _ in range(10):
            nd.dot(nd.ones((400, 400)), nd.ones((400, 400)))
    assert kinds(timeline)['compute', 'dot'] == 10


@pytest.mark.parametrize('compiled', [{}, {'static_alloc': True, 'static_shape': True}, None])
@pytest.mark.parametrize('on_kvstore', [True, False])
def test_gluon(compiled, on_kvstore):
    net = mgpu.gluon.lenet()
    mgpu.gluon.prepare(net, DEVICES, seed=0)
    if compiled is None:
        net.hybridize(False)
    else:
        net.hybridize(True, **compiled)
    trainer = mx.gluon.Trainer(
        net.collect_params(), 'sgd', {'learning_rate': 0.1}, update_on_kvstore=on_kvstore
    )
    for _ in range(2):
        mgpu.gluon.train_batch(X, Y, net, DEVICES, trainer)
    with record() as timeline:
        mgpu.gluon.train_batch(X, Y, net, DEVICES, trainer)
    found = counts(timeline)
    assert timeline.lanes == ['cpu(0)', 'cpu(1)']
    for lane in timeline.lanes:
        for name in ('Convolution', 'Pooling', 'FullyConnected'):
            assert found[lane, 'forward', name] == 2, name
            assert found[lane, 'backward', name] == 2, name
    assert found['cpu(0)', 'copy', 'copy to cpu(1)'] == 2
    found = kinds(timeline)
    assert found['allreduce', 'ElementwiseSum'] == 8
    assert not [name for kind, name in found if kind == 'compute']
    updates = {name for kind, name in found if kind == 'update'}
    assert updates == {'multi_sgd_update'}


def test_an_operator_that_forward_backward_and_update_share():
    """The gradient of a product is a product too, and MXNet asks for that one by itself."""
    w, x = nd.ones((5, 5)), nd.ones((5, 5))
    w.attach_grad()
    with record() as timeline:
        with autograd.record():
            loss = (w * x).sum()
        loss.backward()
        with phase('update'):
            w[:] = w - 0.1 * (w.grad * x)
    found = kinds(timeline)
    assert found['forward', 'broadcast_mul'] + found['forward', 'elemwise_mul'] == 1
    assert found['update', 'broadcast_mul'] + found['update', 'elemwise_mul'] == 1
    assert sum(n for (kind, _), n in found.items() if kind == 'backward') > 0


def test_phases_of_ones_own_code(replicas):
    @phase('update')
    def my_sgd(params):
        """Mine."""
        for p in params:
            p -= 0.1 * p.grad

    assert my_sgd.__name__ == 'my_sgd'
    with autograd.record():
        loss = mgpu.lenet(X, replicas[0]).sum()
    loss.backward()
    with record() as timeline:
        my_sgd(replicas[0])
        with phase('copy'):
            X + 1
        X * 2
    found = kinds(timeline)
    assert (found['update', 'broadcast_sub'], found['update', '_mul_scalar']) == (8, 8)
    assert (found['copy', '_plus_scalar'], found['compute', '_mul_scalar']) == (1, 1)


def test_a_phase_outside_of_a_recording_does_nothing():
    with phase('update'):
        value = nd.ones(1).asscalar()
    assert value == 1


def test_evaluation_is_computing(replicas):
    with record() as timeline:
        mgpu.evaluate_accuracy(lambda X: mgpu.lenet(X, replicas[0]), [(X, Y)], DEVICES[0])
    assert kinds(timeline)['compute', 'Convolution'] == 2
    assert set(timeline.kinds()) <= {'compute', 'copy'}


def test_more_devices_than_cores():
    """MXNet's profiler counts devices only up to the cores, and takes the next for other things."""
    devices = [mx.cpu(i) for i in range(min(os.cpu_count(), 4) + 2)]
    replicas = [mgpu.get_params(mgpu.init_params(seed=0), device) for device in devices]
    with record() as timeline:
        mgpu.train_batch(X, Y, replicas, devices, lr=0.1)
    assert timeline.lanes == [str(device) for device in devices]
    found = counts(timeline)
    for lane in timeline.lanes:
        assert found[lane, 'forward', 'Convolution'] == 2
        assert found[lane, 'update', 'broadcast_sub'] == 8


def test_a_device_that_does_nothing_is_an_idle_lane():
    with record('one of two', DEVICES) as timeline:
        nd.dot(nd.ones((300, 300)), nd.ones((300, 300)))
    assert timeline.lanes == ['cpu(0)', 'cpu(1)']
    assert timeline.busy('cpu(1)') == 0
    assert timeline.title == 'one of two'


def test_one_batch_of_fewer_images_than_devices():
    timeline = one_batch(num_gpus=2, batch_size=1, tries=1)
    assert counts(timeline)['cpu(0)', 'forward', 'Convolution'] == 2
    assert counts(timeline)['cpu(1)', 'forward', 'Convolution'] == 0
    assert counts(timeline)['cpu(1)', 'update', 'broadcast_sub'] == 8  # both stay equal


def test_recording_changes_no_result(step, replicas):
    others = [mgpu.get_params(p, d) for p, d in zip(replicas, DEVICES, strict=True)]
    losses = mgpu.train_batch(X, Y, others, DEVICES, lr=0.1)
    with record():
        recorded = step()
    for a, b in zip([*losses, *others[1]], [*recorded, *replicas[1]], strict=True):
        assert (a.asnumpy() == b.asnumpy()).all()


# --- when something goes wrong ------------------------------------------------------------------


def hooks():
    lib = mx.base._LIB
    return (
        lib.MXImperativeInvokeEx,
        lib.MXInvokeCachedOpEx,
        lib.MXAutogradBackwardEx,
        lib.MXKVStorePushPullEx,
        mx.gluon.Trainer._update,
        mx.gluon.Trainer._allreduce_grads,
        mgpu.scratch.sgd,
        mgpu.scratch.split_and_load,
    )


@pytest.mark.parametrize('error', [ZeroDivisionError, KeyboardInterrupt])
def test_an_error_in_the_block_passes_on_and_leaves_nothing_behind(step, error):
    before = hooks()
    with pytest.raises(error), record() as timeline:
        step()
        raise error
    assert hooks() == before
    assert kinds(timeline)['forward', 'Convolution'] == 4  # what ran until then
    with record() as again:
        step()
    assert kinds(again) == kinds(timeline)


def test_an_error_on_a_device_passes_on(step):
    """It happens later than the line that causes it: when the block waits for the devices."""
    before = hooks()
    with pytest.raises(MXNetError, match='scale'), record():
        nd.random.normal(0, -1, shape=(3,))
    assert hooks() == before
    with record() as again:
        step()
    assert kinds(again)['forward', 'Convolution'] == 4


def test_recording_inside_a_recording(step):
    with record() as timeline:
        with pytest.raises(RuntimeError, match='recording is already on'), record():
            pass
        step()
    assert kinds(timeline)['forward', 'Convolution'] == 4


def test_nothing_ran():
    with record('an empty block') as timeline:
        pass
    with pytest.raises(ValueError, match="nothing was recorded in 'an empty block'"):
        timeline.plot()


@pytest.mark.parametrize(
    ('devices', 'error', 'words'),
    [
        ([], ValueError, 'empty list'),
        ('cpu(0)', TypeError, 'list of devices'),
        (mx.cpu(0), TypeError, 'list of devices'),
        (['cpu(0)'], TypeError, 'no MXNet device'),
        ([mx.cpu(0), mx.cpu(0)], ValueError, 'more than once'),
        ([mx.cpu(5000)], ValueError, r'cpu\(5000\) cannot be recorded.*at most'),
    ],
)
def test_devices_are_checked(devices, error, words):
    with pytest.raises(error, match=words), record(devices=devices):
        pytest.fail('the block began')
    with record() as timeline:
        nd.ones(3)
    assert timeline.lanes == ['cpu(0)']


def test_a_device_that_would_end_the_process_is_refused_in_time():
    with pytest.raises(ValueError, match=r'cpu\(5000\) cannot be recorded'), record():
        nd.ones(3, ctx=mx.cpu(5000))


@pytest.mark.parametrize('kind', ['sync', '', None, 3])
def test_phase_is_checked_when_it_is_named(kind):
    with pytest.raises(ValueError, match='kind must be one of compute, forward'):
        phase(kind)


@pytest.mark.parametrize(
    'options',
    [{'num_gpus': 0}, {'batch_size': 0}, {'batch_size': '8'}, {'tries': 0}, {'tries': 1.5}],
)
def test_one_batch_checks_its_arguments(options):
    with pytest.raises((TypeError, ValueError), match=next(iter(options))):
        one_batch(**options)


def test_mxnets_own_profiler_is_on_or_was_used_before():
    """In a process of its own: MXNet has one profiler, and its first dump ends it."""
    done = run(
        """
        import json, pathlib
        import mgpu_helpers as mgpu
        from mxnet import nd, profiler

        profiler.set_config(profile_all=True, filename='mine.json')
        profiler.set_state('run')
        nd.ones(3).wait_to_read()
        try:
            with mgpu.timeline.record(): pass
        except RuntimeError as error:
            kept = pathlib.Path(str(error).split()[-1])
            records = json.loads(kept.read_text())['traceEvents']
            print('on:', any(e['name'] == '_ones' for e in records), error)
            kept.unlink()
        profiler.set_state('stop')
        with mgpu.timeline.record() as timeline: nd.ones(3)
        print('off:', {s.name for s in timeline.spans})
        profiler.set_config(profile_all=True, filename='mine.json')
        profiler.set_state('run')
        nd.ones(3).wait_to_read()
        profiler.set_state('stop')
        profiler.dump()
        assert '_ones' in pathlib.Path('mine.json').read_text()
        pathlib.Path('mine.json').unlink()
        with mgpu.timeline.record() as timeline: nd.ones(3, ctx=__import__('mxnet').cpu(1))
        print('dumped:', {s.name for s in timeline.spans}, timeline.lanes)
        """
    )
    assert not done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("on: True MXNet's own profiler is already on. Switch it off")
    assert lines[1:] == ["off: {'_ones'}", "dumped: {'_ones'} ['cpu(1)']"]


def test_operators_in_bulk_are_still_forward_or_backward():
    """Where the user asked MXNet to hand out operators together."""
    done = run(
        """
        import mgpu_helpers as mgpu
        timeline = mgpu.timeline.one_batch(num_gpus=2, batch_size=8, tries=1)
        print({s.kind for s in timeline.spans if s.name == 'several operators'})
        print({s.kind for s in timeline.spans if s.name == 'Convolution'})
        """,
        MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN='15',
    )
    assert done.stdout.splitlines()[-2:] == ["{'backward'}", "{'forward'}"]


# --- as it is used ------------------------------------------------------------------------------


def test_a_script_saves_a_picture_and_a_trace():
    done = run(
        """
        import mgpu_helpers as mgpu
        import json
        from pathlib import Path
        timeline = mgpu.timeline.one_batch(num_gpus=2, batch_size=8, title='a script', tries=1)
        timeline.save_picture('step.png')
        timeline.save_trace('step.json')
        print(len(timeline.spans), 0 <= timeline.overlap <= 1)
        events = json.loads(Path('step.json').read_text())['traceEvents']
        print(len([e for e in events if e['ph'] == 'X']))
        print(sorted({e['args']['name'] for e in events if e['name'] == 'process_name'}))
        print(Path('step.png').read_bytes()[:4])
        """
    )
    assert not done.stderr
    spans, events, lanes, picture = done.stdout.splitlines()[-4:]
    assert spans == f'{events} True'
    assert lanes == "['cpu(0)', 'cpu(1)']"
    assert picture == r"b'\x89PNG'"
    assert done.files == ['step.json', 'step.png']  # and nothing of MXNet's


def test_two_settings_in_two_processes_one_picture():
    """The chapter's first lesson: the same batch with MXNet's default workspaces and with ours."""
    names = ["MXNet's default", 'ours']
    call = [((2, 16), {'title': name, 'tries': 1}) for name in names]
    envs = [{'MXNET_CPU_TEMP_COPY': '4'}, {'MXNET_CPU_TEMP_COPY': '64'}]
    default, ours = mgpu.processes.run_workers(one_batch, call, names, envs, timeout=120)
    assert counts(default) == counts(ours)
    panels = default.plot(ours).axes
    assert [axes.get_title('left') for axes in panels] == names


def test_a_notebook_shows_the_picture_and_the_table():
    from jupyter_client.manager import start_new_kernel

    code = (
        'import mgpu_helpers as mgpu; from mxnet import nd\n'
        'with mgpu.timeline.record("here") as timeline: nd.dot(nd.ones((9, 9)), nd.ones((9, 9)))\n'
        'display(timeline)\n'
        'timeline.plot()'
    )
    manager, client = start_new_kernel(kernel_name='python3', cwd=str(ROOT))
    try:
        messages = []
        reply = client.execute_interactive(code, output_hook=messages.append, timeout=120)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert reply['content']['status'] == 'ok', json.dumps(reply['content'].get('traceback'))
    shown = [sorted(m['content']['data']) for m in messages if 'data' in m['content']]
    assert shown == [['text/html', 'text/plain'], ['image/png', 'text/plain']]
    assert not [m for m in messages if m['content'].get('name') == 'stderr']


def test_recording_leaves_the_null_device_alone():
    """MXNet removes the file that it is about to write; for root, /dev/null was gone."""
    with record():
        nd.ones(3)
    done = run(
        """
        import mgpu_helpers as mgpu
        mgpu.timeline.one_batch(num_gpus=1, batch_size=4, tries=2)
        """
    )
    assert done.returncode == 0
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_what_the_profiler_cannot_count_does_not_end_the_process():
    done = run(
        """
        import os
        import mgpu_helpers as mgpu
        from mgpu_helpers.collectives import allreduce_kvstore
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
                allreduce_kvstore(arrays)
        except ValueError as error:
            print('cannot be recorded' in str(error))
        with mgpu.timeline.record() as timeline:
            nd.ones(3)
        print(len(timeline.spans))
        """
    )
    assert done.stdout.splitlines() == ["['cpu(0)']", 'True', '1'], done.stderr


def test_a_gpu_that_is_not_there_is_refused_and_nothing_stays_on():
    absent = mx.gpu(mx.context.num_gpus())
    with pytest.raises(ValueError, match=r'gpu\(\d+\) cannot be recorded: MXNet finds \d+ GPUs'):
        with record(devices=[absent]):
            pass
    with record() as timeline:
        nd.ones(3)
    assert len(timeline.spans) == 1
