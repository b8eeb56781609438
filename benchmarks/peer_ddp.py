"""What a reader would write without us: LeNet and ``DistributedDataParallel``, nothing else.

PyTorch's own pieces, as its tutorials combine them: one process per device, gloo, an optimizer, a
mean loss. The data are one tensor in memory, so that no loader costs time. Nothing of
``mgpu_helpers`` may be imported here: PyTorch and glibc keep their own settings.
"""

import os
import time

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from .protocol import arrays, wait_for_the_others

LR = 0.2


def network():
    return nn.Sequential(
        nn.Conv2d(1, 20, 3), nn.ReLU(), nn.AvgPool2d(2),
        nn.Conv2d(20, 50, 5), nn.ReLU(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


def work(rank, world_size, batch_size, images, labels, epochs, port, queue):
    """Train in one process; rank 0 sends the time its first step ended, and seconds per epoch."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    os.environ |= {'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': str(port)}
    dist.init_process_group('gloo', rank=rank, world_size=world_size)
    model = DistributedDataParallel(network())
    optimizer = torch.optim.SGD(model.parameters(), LR)
    loss = nn.CrossEntropyLoss()
    seconds, per_rank, first = [], batch_size // world_size, None
    for epoch in range(epochs):
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))
        begin = time.monotonic()
        for start in range(0, len(images), batch_size):
            mine = order[start + rank * per_rank : start + (rank + 1) * per_rank]
            optimizer.zero_grad()
            loss(model(images[mine]), labels[mine]).backward()
            optimizer.step()
            first = first or time.monotonic()
        dist.barrier()
        seconds.append(time.monotonic() - begin)
    if rank == 0:
        queue.put((first, seconds))
    dist.barrier()
    os._exit(0)  # gloo's threads may abort at the interpreter's end


def start(num_processes, batch_size, num_examples, epochs):
    """Train in processes; return when the first step ended, and the seconds of each epoch."""
    import socket

    images, labels = arrays(num_examples)
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    images = torch.from_numpy(images).unsqueeze(1).float().div_(255)
    labels = torch.from_numpy(labels).long()
    queue = torch.multiprocessing.get_context('spawn').SimpleQueue()
    shared = num_processes, batch_size, images, labels, epochs, port, queue
    torch.multiprocessing.spawn(work, shared, nprocs=num_processes)
    return queue.get()


def train(num_processes, batch_size, num_examples):
    """Return the seconds of the second of two epochs; the first one warms up."""
    wait_for_the_others()
    return start(num_processes, batch_size, num_examples, epochs=2)[1][1]


def first_step(num_processes, batch_size, num_examples):
    """Time the processes from their start to the end of their first step."""
    wait_for_the_others()
    begin = time.monotonic()
    return {'waited': start(num_processes, batch_size, batch_size, epochs=1)[0] - begin}
