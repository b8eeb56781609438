"""Chapter 4: how fast workers on this machine train, how long they wait, how much they send."""

import statistics

from .protocol import wait_for_the_others

VALUES = 129_068  # of LeNet
TWO_BIT = {'type': '2bit', 'threshold': 0.005}


def compressing(net, store):
    """Make a trainer that sends gradients in 2 bits a number; see ``training/README.md``."""
    from mxnet import gluon

    class PushPullTrainer(gluon.Trainer):
        def _allreduce_grads(self):
            for i, param in enumerate(self._params):
                self._kvstore.push(i, param.list_grad(), priority=-i)
                self._kvstore.pull(i, param.list_data(), priority=-i)

    return PushPullTrainer(
        net.collect_params(),
        'sgd',
        {'learning_rate': 0.3},
        kvstore=store,
        update_on_kvstore=True,
        compression_params=TWO_BIT,
    )


def two_epochs(kind, batch_size, num_examples, compressed):
    """Train two epochs in a worker, the first as warm-up.

    Returns for the second: its seconds, those of computing and of waiting, bytes sent and received.
    """
    import time

    import numpy as np

    import mgpu_helpers as mgpu

    store, devices, net, trainer = mgpu.cluster.connect(kind, 1, lr=0.3, seed=0)
    if compressed:
        trainer = compressing(net, store)
    batches, _ = mgpu.load_data_fashion_mnist(batch_size, num_examples, seed=0)
    for _ in range(2):
        before, start = mgpu.cluster.socket_bytes(), time.perf_counter()
        split = mgpu.cluster.train_epoch(batches, net, devices, trainer, store)
        seconds = time.perf_counter() - start
        traffic = np.subtract(mgpu.cluster.socket_bytes(), before)
    return seconds, *split, *map(int, traffic)


def train(num_workers, batch_size, num_examples, kind='dist_sync', compressed=False):
    """Train two epochs in a new cluster with one server, and measure the second.

    Shares of the time, and bytes over those of the model, are means over the workers.
    """
    from mgpu_helpers import cluster

    wait_for_the_others()
    with cluster.LocalCluster(num_workers, servers=1) as started:
        workers = started.run(two_epochs, kind, batch_size, num_examples, compressed, show=False)
    model = 4 * VALUES * -(-num_examples // batch_size)  # the model's bytes, once per step
    seconds, computing, waiting, sent, received = zip(*workers)
    return {
        'seconds': max(seconds),
        'computing': statistics.mean(c / s for c, s in zip(computing, seconds)),
        'waiting': statistics.mean(w / s for w, s in zip(waiting, seconds)),
        'sent': statistics.mean(sent) / model,
        'received': statistics.mean(received) / model,
    }


def one_step(batch_size):
    """Connect in a worker and train one step; return the time at its end."""
    import time

    import mgpu_helpers as mgpu

    store, devices, net, trainer = mgpu.cluster.connect('dist_sync', 1, lr=0.3, seed=0)
    batches, _ = mgpu.load_data_fashion_mnist(batch_size, seed=0)
    X, y = next(iter(batches))
    mgpu.cluster.compute_gradients(X, y, net, devices, store.rank, store.num_workers)
    trainer.step(1, ignore_stale_grad=True)
    mgpu.gluon.nd.waitall()
    return time.monotonic()


def first_step(num_workers, batch_size, num_examples):
    """Time a cluster from the start of its processes to the end of their first step."""
    import time

    from mgpu_helpers import cluster

    wait_for_the_others()
    start = time.monotonic()
    with cluster.LocalCluster(num_workers, servers=1) as started:
        return {'waited': max(started.run(one_step, batch_size, show=False)) - start}
