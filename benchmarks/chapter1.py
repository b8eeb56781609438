"""Chapter 1's ``train``."""

from .protocol import WARM_UP, wait_for_the_others


def train(num_devices, batch_size, num_examples, buckets=False):
    """Return the seconds of an epoch.

    ``buckets``: with chapter 3's tree and small buckets, the best of eight ways within training:
    two buckets for the five small gradients; the large ones are sent early, without a copy. It is
    no faster than the naive way, because between stand-ins a message costs next to nothing: ratio
    0.996 to 1.016 for batch 256, 0.96 to 1.02 for batch 64, measured in turn within one process.
    One bucket for all gradients, the fastest allreduce by itself (chapter3.py), copies everything
    and waits for the first layer's gradient: 0.982 for batch 64.
    """
    import mgpu_helpers as mgpu

    options = {}
    if buckets:
        tree = mgpu.collectives.allreduce_tree
        options['sync'] = mgpu.collectives.sync_with(tree, bucket_bytes=10_000)

    def epoch(n):
        return mgpu.train(num_devices, batch_size, 0.2, 1, num_examples=n, seed=0, **options)

    epoch(min(WARM_UP, num_examples))
    wait_for_the_others()
    return epoch(num_examples).seconds[0]


def first_step(num_devices, batch_size, num_examples):
    """Do what ``train`` does until its first step has ended."""
    import mgpu_helpers as mgpu

    devices = mgpu.devices(num_devices)
    batches, _ = mgpu.load_data_fashion_mnist(batch_size, seed=0)
    params = mgpu.init_params(seed=0)
    replicas = [mgpu.get_params(params, device) for device in devices]
    X, y = next(iter(batches))
    mgpu.train_batch(X, y, replicas, devices, lr=0.2)
    mgpu.gluon.nd.waitall()
    return {}
