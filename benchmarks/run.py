"""One measured run in a process of its own: ``python -m benchmarks.run WHAT GPUS BATCH EXAMPLES``.

Prints ``ready`` when everything is loaded and warm, waits for a line on standard input (so that two
runs can begin together), and prints one line of JSON.
"""

import json
import resource
import sys
import time

from .cluster import TWO_BIT

WARM_UP = 2560  # ten batches: first allocations, oneDNN's kernels, the CPU's clock


def wait_for_the_others():
    print('ready', flush=True)
    sys.stdin.readline()


def scratch(num_gpus, batch_size, num_examples):
    """Chapter 1's ``train``."""
    import mgpu_helpers as mgpu

    def train(n):
        return mgpu.train(num_gpus, batch_size, 0.2, num_epochs=1, num_examples=n, seed=0)

    train(min(WARM_UP, num_examples))
    wait_for_the_others()
    return train(num_examples).seconds[0]


def scratch_in_buckets(num_gpus, batch_size, num_examples):
    """Chapter 1's ``train`` with the way of chapter 3 that does best within training."""
    import mgpu_helpers as mgpu

    # Small buckets: the five small gradients in two of them, the large ones uncopied and early.
    # Among eight ways it was the best by a little, and no better than the naive one: between
    # stand-ins a message costs next to nothing. Ratios in turns within one process: batch 256,
    # 0.996 to 1.016; batch 64, 0.96 to 1.02. One bucket for all, the fastest sum by itself
    # (sync.py), copies everything and waits for the first layer's gradient: 0.982 with batch 64.
    sync = mgpu.collectives.sync_with(mgpu.collectives.allreduce_tree, bucket_bytes=10_000)

    def train(n):
        return mgpu.train(num_gpus, batch_size, 0.2, 1, num_examples=n, seed=0, sync=sync)

    train(min(WARM_UP, num_examples))
    wait_for_the_others()
    return train(num_examples).seconds[0]


def collectives(num_gpus, batch_size, num_examples):
    """Chapter 3's allreduces by themselves; the arguments do not matter."""
    from . import sync

    wait_for_the_others()
    start = time.time()
    found = sync.measure()
    return {'seconds': time.time() - start, 'allreduces': found}


def gluon(make_net, num_gpus, batch_size, num_examples):
    """Chapter 2's ``train``."""
    import mgpu_helpers as mgpu

    net = make_net(mgpu.gluon)

    def train(n):
        return mgpu.gluon.train(net, num_gpus, batch_size, 0.05, 1, num_examples=n, seed=0)

    train(min(WARM_UP, num_examples // 2))
    wait_for_the_others()
    return train(num_examples).seconds[0]


def cluster(options, num_workers, batch_size, num_examples):
    """Chapter 4's ``train`` in workers of a cluster on this machine."""
    from . import cluster as chapter

    wait_for_the_others()
    return chapter.measure(num_workers, batch_size, num_examples, **options)


def resnet(chapter):
    return chapter.resnet18_28(10)


def lenet(chapter):
    return chapter.lenet()


def lenet_of_chapter_1(chapter):
    """Chapter 1's network, average pooling, in Gluon's layers: the same operators."""
    from mxnet.gluon import nn

    net = nn.HybridSequential()
    for layer in chapter.lenet():
        net.add(nn.AvgPool2D(2, 2) if isinstance(layer, nn.MaxPool2D) else layer)
    return net


def each_device_updates(num_gpus, batch_size, num_examples):
    """ResNet-18 as ``gluon`` trains it, but every device updates its own replica."""
    from functools import partial

    import mgpu_helpers as mgpu  # and MXNet only after it, which ruff would sort before

    chapter, devices = mgpu.gluon, mgpu.devices(num_gpus)
    net = chapter.resnet18_28(10)
    chapter.prepare(net, devices)
    trained = [p for p in net.collect_params().values() if p.grad_req != 'null']
    sgd = {'learning_rate': 0.05}
    trainer = chapter.gluon.Trainer(trained, 'sgd', sgd, update_on_kvstore=False)
    step = partial(chapter.train_batch, net=net, devices=devices, trainer=trainer)

    def train(n):
        start = time.time()
        batches, _ = mgpu.load_data_fashion_mnist(batch_size, num_examples=n, seed=0)
        mgpu.train_epoch(batches, step, ahead=min(16, 2 + len(batches) // 16))
        return time.time() - start

    train(min(WARM_UP, num_examples // 2))
    wait_for_the_others()
    return train(num_examples)


def evaluate(make_net, num_gpus, batch_size, num_examples):
    """Chapter 2's evaluation on all devices, the test set again and again."""
    import mgpu_helpers as mgpu

    net, devices = make_net(mgpu.gluon), mgpu.devices(num_gpus)
    net.initialize(ctx=devices)
    net.hybridize(static_alloc=True, static_shape=True)
    # Training batches stand in for test batches: their number can be chosen.
    few, _ = mgpu.load_data_fashion_mnist(batch_size, num_examples=min(WARM_UP, num_examples))
    many, _ = mgpu.load_data_fashion_mnist(batch_size, num_examples=num_examples)
    mgpu.gluon.evaluate_accuracy_gpus(net, few)
    wait_for_the_others()
    start = time.time()
    mgpu.gluon.evaluate_accuracy_gpus(net, many)
    return time.time() - start


def peer(num_gpus, batch_size, num_examples):
    """Source 000's code, with MXNet's own settings."""
    import mxnet  # noqa: F401  first, so that MXNet's own defaults are in force

    from . import peer as source

    images, labels = arrays(num_examples)
    source.train(images[:WARM_UP], labels[:WARM_UP], num_gpus, batch_size, num_epochs=1)
    wait_for_the_others()
    return source.train(images, labels, num_gpus, batch_size, num_epochs=1)[0]


def torch_scratch(num_gpus, batch_size, num_examples):
    """Chapter 5's ``train``."""
    import mgpu_helpers as mgpu

    def train(n):
        return mgpu.pytorch.train(num_gpus, batch_size, 0.2, num_epochs=1, num_examples=n, seed=0)

    train(min(WARM_UP, num_examples))
    wait_for_the_others()
    return train(num_examples).seconds[0]


def torch_ddp(num_gpus, batch_size, num_examples):
    """Chapter 5's ``train_ddp``, the second of two epochs: its processes warm up in the first."""
    import mgpu_helpers as mgpu

    wait_for_the_others()
    history = mgpu.pytorch.train_ddp(num_gpus, batch_size, 0.2, 2, num_examples, seed=0)
    return history.seconds[1]


def bare_ddp(num_gpus, batch_size, num_examples):
    """``DistributedDataParallel`` without us, the second of two epochs."""
    from . import peer_ddp

    images, labels = arrays(num_examples)
    wait_for_the_others()
    seconds, trained = peer_ddp.train(images, labels, num_gpus, batch_size, epochs=2)
    return seconds[1] * num_examples / trained


def ten_epochs(num_gpus, batch_size, num_examples):
    """Source 004's run, from scratch: ten epochs, learning rate 0.2."""
    import mgpu_helpers as mgpu

    wait_for_the_others()
    history = mgpu.pytorch.train(num_gpus, batch_size, 0.2, 10, num_examples, seed=0)
    print('test accuracy after each epoch:', [round(a, 3) for a in history.test_acc])
    return {'seconds': sum(history.seconds) / 10, 'best_test_acc': max(history.test_acc)}


def arrays(num_examples):
    """Read the data in a process without our settings, which importing the package would make."""
    import subprocess

    import numpy as np

    script = (
        'import sys, numpy as np; from mgpu_helpers import data; '
        "d = data.dataset('fashion-mnist'); n = int(sys.argv[1]); "
        'np.savez(sys.stdout.buffer, X=d.train_images[:n], y=d.train_labels[:n])'
    )
    done = subprocess.run(
        [sys.executable, '-c', script, str(num_examples)], stdout=subprocess.PIPE, check=True
    )
    import io

    loaded = np.load(io.BytesIO(done.stdout))
    return loaded['X'], loaded['y'].astype('int32')


RUNS = {
    'scratch': scratch,
    'scratch in buckets': scratch_in_buckets,
    'collectives': collectives,
    'peer': peer,
    'gluon lenet': lambda *args: gluon(lenet, *args),
    'gluon lenet of chapter 1': lambda *args: gluon(lenet_of_chapter_1, *args),
    'gluon resnet': lambda *args: gluon(resnet, *args),
    'each device updates': each_device_updates,
    'evaluate lenet': lambda *args: evaluate(lenet, *args),
    'evaluate resnet': lambda *args: evaluate(resnet, *args),
    'cluster': lambda *args: cluster({}, *args),
    'cluster, no waits': lambda *args: cluster({'waits': False}, *args),
    'cluster, dist_async': lambda *args: cluster({'kind': 'dist_async'}, *args),
    'cluster, 2-bit': lambda *args: cluster({'compression': TWO_BIT}, *args),
    'torch scratch': torch_scratch,
    'torch ddp': torch_ddp,
    'bare ddp': bare_ddp,
    'ten epochs': ten_epochs,
}


def main():
    what, num_gpus, batch_size, num_examples = sys.argv[1], *map(int, sys.argv[2:5])
    measured = RUNS[what](num_gpus, batch_size, num_examples)
    if not isinstance(measured, dict):
        measured = {'seconds': measured}
    measured['examples_per_second'] = num_examples / measured['seconds']
    measured['peak_mb'] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    print(json.dumps(measured))


if __name__ == '__main__':
    main()
