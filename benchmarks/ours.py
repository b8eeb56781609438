"""Run the course's own training code, called as a reader would call it."""

import subprocess
import sys
import time
from pathlib import Path

from .protocol import WARM_UP, wait_for_the_others

SCRIPT = Path(__file__).resolve().parent.parent / 'training' / 'train_ddp.py'


def second_epoch(epoch, num_examples):
    """Warm up on a few examples, then return the seconds that ``epoch(num_examples)`` records."""
    epoch(min(WARM_UP, num_examples))
    wait_for_the_others()
    return epoch(num_examples).seconds[0]


def scratch(num_devices, batch_size, num_examples):
    """Time chapter 1's ``train``."""
    import mgpu_helpers as mgpu

    def epoch(n):
        return mgpu.train(num_devices, batch_size, 0.2, 1, num_examples=n, seed=0)

    return second_epoch(epoch, num_examples)


def first_step(num_devices, batch_size, num_examples):
    """Run ``scratch`` until its first step has ended."""
    import mgpu_helpers as mgpu

    devices = mgpu.devices(num_devices)
    batches, _ = mgpu.load_data_fashion_mnist(batch_size, seed=0)
    params = mgpu.init_params(seed=0)
    replicas = [mgpu.get_params(params, device) for device in devices]
    X, y = next(iter(batches))
    mgpu.train_batch(X, y, replicas, devices, lr=0.2)
    mgpu.gluon.nd.waitall()
    return {}


def gluon(num_devices, batch_size, num_examples, network):
    """Time chapter 2's ``train`` on ResNet-18, or on chapter 1's network in Gluon layers."""
    import mgpu_helpers as mgpu

    nn, net = mgpu.gluon.nn, mgpu.gluon.resnet18_28(10)
    if network == 'LeNet':
        net = nn.HybridSequential()
        for layer in mgpu.gluon.lenet():
            net.add(nn.AvgPool2D(2, 2) if isinstance(layer, nn.MaxPool2D) else layer)

    def load(*args, **options):
        """Load only one test batch: evaluation is not timed, and it is slow with ResNet-18."""
        one, _ = mgpu.load_data_fashion_mnist(*args, **options | {'num_examples': batch_size})
        return mgpu.load_data_fashion_mnist(*args, **options)[0], one

    def epoch(n):
        options = {'load_data': load, 'num_examples': n, 'seed': 0}
        return mgpu.gluon.train(net, num_devices, batch_size, 0.05, 1, **options)

    return second_epoch(epoch, num_examples)


def script(num_devices, batch_size, num_examples, shard=False):
    """Time the second of two epochs of chapter 6's training script, started by ``torchrun``."""
    torchrun = f'-m torch.distributed.run --standalone --nproc-per-node={num_devices}'.split()
    options = f'--epochs=2 --batch-size={batch_size} --limit={num_examples}'.split()
    command = [sys.executable, *torchrun, str(SCRIPT), *options, *['--shard'] * shard]
    wait_for_the_others()
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return float(said.split('time: ')[2].split()[0])


def load(num_devices, batch_size, num_examples):
    """Time the import of our package in a fresh interpreter."""
    start = time.perf_counter()
    import mgpu_helpers  # noqa: F401

    return {'waited': time.perf_counter() - start}
