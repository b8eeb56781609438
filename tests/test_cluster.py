"""A scheduler and servers beside ranks: who is who, stores one after another, nothing left."""

import os
import subprocess
import sys

import pytest
from workers import at_work

from mgpu_helpers.cluster import serve

pytestmark = pytest.mark.usefixtures('started')


def push_and_pull():
    """Sum over the workers; give rank, number of workers and the sum."""
    import mxnet as mx

    store, value = mx.kv.create('dist_sync'), mx.nd.ones(3)
    store.init('x', value)
    value *= store.rank + 1
    store.push('x', value)
    store.pull('x', out=value)
    return os.environ['RANK'], store.rank, store.num_workers, value.asnumpy().tolist()


def test_store_after_store_in_order_of_rank_also_of_fewer_workers(capfd):
    with at_work(3, servers=2) as (ranks, processes):
        names = 'scheduler', 'server 0', 'server 1', 'worker 0', 'worker 1', 'worker 2'
        assert tuple(processes) == names
        assert [processes[name].pid for name in names[3:]] == ranks[:].apply_sync(os.getpid)
        for _ in range(2):
            found = ranks[:].apply_sync(push_and_pull)
            assert found == [(str(i), i, 3, [6.0] * 3) for i in range(3)]
            processes = serve(ranks[:], servers=2)
        serve(ranks[:2])
        assert not processes['server 1'].is_running()
        assert ranks[:2].apply_sync(push_and_pull) == [(str(i), i, 2, [3.0] * 3) for i in (0, 1)]
    assert capfd.readouterr() == ('', '')


def wait_for_ever():
    import threading

    import mxnet as mx

    store, value = mx.kv.create('dist_sync'), mx.nd.ones(3)
    store.init('x', value)
    if store.rank == 0:
        store.push('x', value)
        store.pull('x', out=value)
        value.wait_to_read()
    threading.Event().wait()


def test_ranks_that_wait_are_told_of_and_new_ones_work(monkeypatch):
    monkeypatch.setattr('mgpu_helpers.cluster.local.SECONDS', 2.0)
    with at_work() as (ranks, processes):
        ranks[:].apply_async(wait_for_ever)
        with pytest.raises(
            RuntimeError, match='within 2 s; they may be blocked in a kvstore call. Restart'
        ):
            serve(ranks[:])
        assert not processes['scheduler'].is_running()
        for name in ('worker 0', 'worker 1'):
            processes[name].kill()
    with at_work(workers=1) as (ranks, _):
        assert ranks[:].apply_sync(push_and_pull) == [('0', 0, 1, [1.0] * 3)]
        for servers, words in ((0, 'at least 1, not 0'), (2, 'at most 1, not 2')):
            with pytest.raises(ValueError, match=f'the number of servers must be {words}'):
                serve(ranks[:], servers=servers)


def test_all_roles_end_with_their_starter(started):
    code = (
        'import mgpu_helpers as mgpu, time; from mgpu_helpers.cluster import serve; '
        'r = mgpu.ranks(2); print(len(serve(r[:]))); time.sleep(60)'
    )
    with subprocess.Popen([sys.executable, '-uc', code], stdout=subprocess.PIPE) as starter:
        assert b'4\n' in starter.stdout
        assert len(started()) > 4
        starter.kill()  # `started` looks for the others


def test_what_has_only_begun_ends_with_its_starter():
    code = 'import subprocess as s, mgpu_helpers.processes as p; s.Popen(p.leashed(["sleep","99"]))'
    subprocess.run([sys.executable, '-c', code], check=True)  # it ends at once
