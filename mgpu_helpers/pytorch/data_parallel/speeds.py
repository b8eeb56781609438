"""Measure the gain from a second device: one device and two ranks take turns."""

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
from .ddp import ddp_step
from .lenet import build_lenet, init_params, loss

STEPS = 6  # per turn; half a second with 256 examples


def compare_ranks(batch_size: int = 256, rounds: int = 5) -> Speeds:
    """Measure LeNet's examples per second in training, on one device and on two ranks.

    Each of two ranks calls this. One device (on CPUs, with one core and with both) and two ranks
    with DDP take turns on the same batch, so that other load on the machine affects all of them.
    """
    arguments.positive_int('batch_size', batch_size)
    arguments.positive_int('rounds', rounds)
    check_group()
    rank, here = dist.get_rank(), this_device()
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(batch_size, 1, 28, 28, generator=generator).to(here)
    y = torch.randint(10, (batch_size,), generator=generator).to(here)
    nets = [build_lenet(init_params(seed=0)).to(here) for _ in range(2)]
    net = DistributedDataParallel(nets[1])
    optimizers = [torch.optim.SGD(net.parameters(), 0.1) for net in nets]

    def one(threads: int) -> None:
        torch.set_num_threads(threads)
        optimizers[0].zero_grad()
        loss(nets[0](X), y).mean().backward()
        optimizers[0].step()
        torch.set_num_threads(1)

    two = partial(ddp_step, X, y, net, optimizers[1])
    settings: dict[str, Callable[[], object]] = {ONE: partial(one, 1), BOTH: partial(one, 2)}
    if here.type == 'cuda':  # no stand-ins, no cores
        settings = {'one device': partial(one, 1)}
    settings[TWO if here.type == 'cpu' else 'two ranks'] = two
    rates: dict[str, list[float]] = {name: [] for name in settings}
    for turn in range(rounds + 1):  # the first one allocates memory
        for name, step in settings.items():
            dist.barrier()
            if rank > 0 and step is not two:
                continue  # waits at the next barrier, without computing
            start = time.perf_counter()
            for _ in range(STEPS):
                step()
            if here.type == 'cuda':
                torch.cuda.synchronize()
            if turn:
                rates[name].append(STEPS * batch_size / (time.perf_counter() - start))
    return Speeds('examples a second', rates)  # complete on rank 0; rank 1 has its own only
