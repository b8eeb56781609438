"""Chapter 2: training and evaluation in Gluon."""

import time

from .protocol import WARM_UP, wait_for_the_others


def make(network):
    """Make a network by its name here."""
    import mgpu_helpers as mgpu

    if network == 'ResNet-18':
        return mgpu.gluon.resnet18_28(10)
    if network == 'LeNet':
        return mgpu.gluon.lenet()
    nn = mgpu.gluon.nn
    net = nn.HybridSequential()  # chapter 1's, in Gluon's layers: the same operators
    for layer in mgpu.gluon.lenet():
        net.add(nn.AvgPool2D(2, 2) if isinstance(layer, nn.MaxPool2D) else layer)
    return net


def train(num_devices, batch_size, num_examples, network):
    """Return the seconds of an epoch of chapter 2's ``train``."""
    import mgpu_helpers as mgpu

    net = make(network)

    def load(*args, **options):
        """Load one test batch only: evaluation is not timed, and slow with ResNet-18."""
        one, _ = mgpu.load_data_fashion_mnist(*args, **options | {'num_examples': batch_size})
        return mgpu.load_data_fashion_mnist(*args, **options)[0], one

    def epoch(n):
        options = {'load_data': load, 'num_examples': n, 'seed': 0}
        return mgpu.gluon.train(net, num_devices, batch_size, 0.05, 1, **options)

    epoch(min(WARM_UP, num_examples // 2))
    wait_for_the_others()
    return epoch(num_examples).seconds[0]


def evaluate(num_devices, batch_size, num_examples, network):
    """Return the seconds of an evaluation on all devices."""
    import mgpu_helpers as mgpu

    net, devices = make(network), mgpu.devices(num_devices)
    net.initialize(ctx=devices)
    net.hybridize(static_alloc=True, static_shape=True)
    # Training batches instead of test batches, because their number can be chosen.
    few, _ = mgpu.load_data_fashion_mnist(batch_size, num_examples=min(WARM_UP, num_examples))
    many, _ = mgpu.load_data_fashion_mnist(batch_size, num_examples=num_examples)
    mgpu.gluon.evaluate_accuracy_gpus(net, few)
    wait_for_the_others()
    start = time.perf_counter()
    mgpu.gluon.evaluate_accuracy_gpus(net, many)
    return time.perf_counter() - start


def first_step(num_devices, batch_size, num_examples, network):
    """Do what ``train`` does until its first step has ended."""
    import mgpu_helpers as mgpu

    net, chapter, devices = make(network), mgpu.gluon, mgpu.devices(num_devices)
    batches, _ = mgpu.load_data_fashion_mnist(batch_size, seed=0)
    chapter.prepare(net, devices, seed=0)
    trainer = chapter.make_trainer(net, 0.05)
    X, y = next(iter(batches))
    chapter.train_batch(X, y, net, devices, trainer)
    chapter.nd.waitall()
    return {}
