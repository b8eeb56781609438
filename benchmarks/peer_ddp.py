"""Time what a reader would write without us: LeNet, trained on ranks with PyTorch's own tools.

``DistributedDataParallel`` or ``fully_shard``, as in PyTorch's tutorials: one process per device,
gloo, an optimizer, a mean loss. The data set is one tensor in memory, so no time goes into loading.
Nothing from ``mgpu_helpers`` may be imported here: PyTorch and glibc keep their default settings.
"""

import os
import socket
import time

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from .protocol import arrays, wait_for_the_others

LR = 0.2


def network():
    return nn.Sequential(
        nn.Conv2d(1, 20, 3), nn.ReLU(), nn.AvgPool2d(2),
        nn.Conv2d(20, 50, 5), nn.ReLU(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


def work(rank, world_size, batch_size, images, labels, shard, port, queue):
    """Train for two epochs in one process; rank 0 sends the seconds of the second one."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    os.environ |= {'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': str(port)}
    dist.init_process_group('gloo', rank=rank, world_size=world_size)
    model = network()
    if shard:
        for layer in model:
            if [*layer.parameters()]:
                fully_shard(layer)
        fully_shard(model)
    else:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), LR)
    loss = nn.CrossEntropyLoss()
    per_rank = batch_size // world_size
    for epoch in range(2):
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))
        begin = time.monotonic()
        for start in range(0, len(images), batch_size):
            mine = order[start + rank * per_rank : start + (rank + 1) * per_rank]
            optimizer.zero_grad()
            loss(model(images[mine]), labels[mine]).backward()
            optimizer.step()
        dist.barrier()
    if rank == 0:
        queue.put(time.monotonic() - begin)
    dist.barrier()
    os._exit(0)  # gloo's threads may abort when the interpreter exits


def train(num_processes, batch_size, num_examples, shard=False):
    """Train for two epochs on several processes; return the seconds of the second (no warm-up)."""
    images, labels = arrays(num_examples)
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    images = torch.from_numpy(images).unsqueeze(1).float().div_(255)
    labels = torch.from_numpy(labels).long()
    queue = torch.multiprocessing.get_context('spawn').SimpleQueue()
    wait_for_the_others()
    shared = num_processes, batch_size, images, labels, shard, port, queue
    torch.multiprocessing.spawn(work, shared, nprocs=num_processes)
    return queue.get()
