"""What a second device is worth: one device, two of one process, and two ranks train in turn."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ... import arguments
from ...devices.speeds import BOTH, ONE, TWO, Speeds
from ..ranks import check_group, this_device
from ..stand_ins import devices, on_each, synchronize
from .ddp import build_lenet, ddp_step
from .from_scratch import forward_backward, get_params, init_params, sgd, train_batch

THREADS = 'two threads, a core each'
STEPS = 6  # in a turn; with 256 examples, half a second


def compare_ranks(batch_size: int = 256, rounds: int = 5) -> Speeds:
    """Measure how many examples a second LeNet learns from, on one device and on two.

    Called by both of two ranks. Each setting gets the same batch, and all take turns, so that what
    else the machine does meets all of them: one device (on stand-ins with one core, and with both),
    two devices in one process (``train_batch``), and two ranks with DDP.
    """
    arguments.positive_int('batch_size', batch_size)
    arguments.positive_int('rounds', rounds)
    check_group()
    rank, here = dist.get_rank(), this_device()
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(batch_size, 1, 28, 28, generator=generator)
    y = torch.randint(10, (batch_size,), generator=generator)
    net = DistributedDataParallel(build_lenet(init_params(seed=0)).to(here))
    two_ranks = partial(ddp_step, X, y, net, torch.optim.SGD(net.parameters(), 0.1))
    pair = devices(2)
    replicas = [get_params(init_params(seed=0), device) for device in pair]

    def one(threads: int) -> None:
        on_each(pair[:1], torch.set_num_threads, [threads])
        on_each(pair[:1], forward_backward, [X.to(here)], [y.to(here)], replicas[:1])
        on_each(pair[:1], partial(sgd, lr=0.1, batch_size=batch_size), replicas[:1])

    def threads() -> None:
        on_each(pair[:1], torch.set_num_threads, [1])
        train_batch(X, y, replicas, pair, 0.1)

    settings: dict[str, Callable[[], object]] = {
        ONE: partial(one, 1), BOTH: partial(one, 2), THREADS: threads, TWO: two_ranks
    }  # fmt: skip
    if here.type == 'cuda':  # no stand-ins, no cores
        settings = {'one device': partial(one, 1), THREADS: threads, 'two ranks': two_ranks}
    rates: dict[str, list[float]] = {name: [] for name in settings}
    for turn in range(rounds + 1):  # the first asks for memory
        for name, step in settings.items():
            dist.barrier()
            if rank > 0 and step is not two_ranks:
                continue  # waits at the next barrier, without computing
            start = time.perf_counter()
            for _ in range(STEPS):
                step()
            synchronize(pair)
            if turn:
                rates[name].append(STEPS * batch_size / (time.perf_counter() - start))
    return Speeds('examples a second', rates)  # rank 0's are all, the others' only of two ranks
