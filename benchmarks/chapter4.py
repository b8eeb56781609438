"""Chapter 4: what workers on this machine reach, what they wait for, what they send."""

import statistics

from .child import wait_for_the_others

VALUES = 129_068  # of LeNet
TWO_BIT = {'type': '2bit', 'threshold': 0.005}


def without_waits(batch_size, num_examples):
    """Do in a worker what ``train`` does, but hand out steps ahead, as chapters 1 and 2 do.

    Gives the seconds of each of two epochs. The engine itself makes a push wait for its gradient
    and a layer for its pull, so that layers whose gradients are ready are pushed while the others'
    are still computed.
    """
    import time

    import mgpu_helpers as mgpu

    part = mgpu.cluster.training
    store, devices, net, trainer = mgpu.cluster.connect('dist_sync', 1, lr=0.3, seed=0)
    batches, _ = mgpu.load_data_fashion_mnist(batch_size, num_examples, seed=0)

    def step(X, y):
        losses = part.compute_gradients(X, y, net, devices, store.rank, store.num_workers)
        trainer.step(1, ignore_stale_grad=True)
        return losses

    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        mgpu.train_epoch(batches, step, ahead=min(16, 2 + len(batches) // 16))
        seconds.append(time.perf_counter() - start)
    return seconds


def train(num_workers, batch_size, num_examples, kind='dist_sync', compressed=False, waits=True):
    """Train in a new cluster with one server; give what was measured in the second of two epochs.

    The first one warms up. Shares and bytes are means over the workers.
    """
    from mgpu_helpers import cluster

    wait_for_the_others()
    with cluster.LocalCluster(num_workers, servers=1) as started:
        if not waits:
            found = started.run(without_waits, batch_size, num_examples, show=False)
            return {'seconds': max(seconds[1] for seconds in found)}
        histories = started.run(
            cluster.train,
            kind,
            batch_size=batch_size,
            num_epochs=2,
            num_examples=num_examples,
            compression=TWO_BIT if compressed else None,
            show=False,
        )
    model = 4 * VALUES * -(-num_examples // batch_size)  # bytes, as often as there are steps
    return {
        'seconds': max(run.seconds[1] for run in histories),
        'computing': statistics.mean(run.computing[1] / run.seconds[1] for run in histories),
        'waiting': statistics.mean(run.waiting[1] / run.seconds[1] for run in histories),
        'sent': statistics.mean(run.sent[1] / model for run in histories),
        'received': statistics.mean(run.received[1] / model for run in histories),
    }


def one_step(batch_size):
    """Connect in a worker and train one step; give the time at its end."""
    import time

    import mgpu_helpers as mgpu

    part = mgpu.cluster.training
    store, devices, net, trainer = mgpu.cluster.connect('dist_sync', 1, lr=0.3, seed=0)
    batches, _ = mgpu.load_data_fashion_mnist(batch_size, seed=0)
    X, y = next(iter(batches))
    part.compute_gradients(X, y, net, devices, store.rank, store.num_workers)
    trainer.step(1, ignore_stale_grad=True)
    mgpu.gluon.nd.waitall()
    return time.monotonic()


def first_step(num_workers, batch_size, num_examples):
    """Give the seconds from the start of a cluster's processes to the end of their first step."""
    import time

    from mgpu_helpers import cluster

    wait_for_the_others()
    start = time.monotonic()
    with cluster.LocalCluster(num_workers, servers=1) as started:
        return {'waited': max(started.run(one_step, batch_size, show=False)) - start}
