"""Chapter 1's ``train``."""

from .protocol import WARM_UP, wait_for_the_others


def train(num_devices, batch_size, num_examples, buckets=False):
    """Give the seconds of an epoch.

    ``buckets``: with the way of chapter 3 that does best within training. Small buckets: the five
    small gradients in two of them, the large ones uncopied and early. Among eight ways it was the
    best by a little, and no better than the naive one: between stand-ins a message costs next to
    nothing. Ratios in turns within one process: batch 256, 0.996 to 1.016; batch 64, 0.96 to 1.02.
    One bucket for all, the fastest sum by itself (chapter3.py), copies everything and waits for the
    first layer's gradient: 0.982 with batch 64.
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
    """Do what ``train`` does up to the end of its first step."""
    import mgpu_helpers as mgpu

    devices = mgpu.devices(num_devices)
    batches, _ = mgpu.load_data_fashion_mnist(batch_size, seed=0)
    params = mgpu.init_params(seed=0)
    replicas = [mgpu.get_params(params, device) for device in devices]
    X, y = next(iter(batches))
    mgpu.train_batch(X, y, replicas, devices, lr=0.2)
    mgpu.gluon.nd.waitall()
    return {}
