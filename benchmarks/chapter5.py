"""Chapter 5: training in PyTorch, from scratch and with ``DistributedDataParallel``."""

import time

from .protocol import WARM_UP, wait_for_the_others


def train(num_devices, batch_size, num_examples):
    """Return the seconds of an epoch of chapter 5's ``train``."""
    import mgpu_helpers as mgpu

    def epoch(n):
        return mgpu.pytorch.train(num_devices, batch_size, 0.2, 1, num_examples=n, seed=0)

    epoch(min(WARM_UP, num_examples))
    wait_for_the_others()
    return epoch(num_examples).seconds[0]


def train_ddp(num_devices, batch_size, num_examples):
    """Return the seconds of the second of two epochs; the first one warms up."""
    import mgpu_helpers as mgpu

    wait_for_the_others()
    history = mgpu.pytorch.train_ddp(num_devices, batch_size, 0.2, 2, num_examples, seed=0)
    return history.seconds[1]


def one_step(batch_size):
    """Do what ``train_rank`` does until its first step has ended; return the time then."""
    import torch

    import mgpu_helpers as mgpu

    part = mgpu.pytorch
    batches, _ = part.load_in_turn(part.load_data_fashion_mnist, batch_size, None, 0)
    net = part.build_lenet(part.init_params(seed=0)).to(part.this_device())
    net = torch.nn.parallel.DistributedDataParallel(net)
    X, y = next(iter(batches))
    part.ddp_step(X, y, net, torch.optim.SGD(net.parameters(), 0.2))
    return time.monotonic()


def first_step(num_devices, batch_size, num_examples):
    """Time the processes from their start to the end of their first step."""
    import mgpu_helpers as mgpu

    part = mgpu.pytorch  # PyTorch is loaded before the clock starts, as in a notebook
    part.load_data_fashion_mnist(batch_size)
    wait_for_the_others()
    start = time.monotonic()
    return {'waited': max(part.launch(one_step, num_devices, batch_size)) - start}
