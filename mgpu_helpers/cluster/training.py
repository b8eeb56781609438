"""A worker's side of training: shard, gradients, push and pull, checkpoints.

These are the functions marked ``#@save`` in ``notebooks/04-multiple-machines.ipynb``, except
``shard`` (in ``shards``); a test keeps them equal. They build on chapter 2.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import mxnet as mx
import numpy as np
from mxnet import gluon, nd
from mxnet.gluon.utils import split_and_load

from .. import arguments
from ..devices import choose_devices
from ..gluon import (
    evaluate_accuracy_gpus,
    forward_backward,
    lenet,
    parameters_of,
    prepare,
)
from ..scratch import load_data_fashion_mnist, loss
from .checkpoint import parameters, resume, save_checkpoint
from .shards import shard

# MXNet silently treats any other name as 'local'.
STORES = ('local', 'device', 'nccl', 'dist_sync', 'dist_device_sync', 'dist_async')

if TYPE_CHECKING:
    from mxnet import Context
    from mxnet.gluon import Block, Trainer
    from mxnet.kvstore import KVStore
    from mxnet.ndarray import NDArray


def compute_gradients(
    X: NDArray, y: NDArray, net: Block, devices: Sequence[Context], rank: int, num_workers: int
) -> list[NDArray]:
    """Compute this worker's term of a joint batch's gradient, for ``X`` (n, ...) and ``y`` (n,).

    Returns the losses divided by n, one array per device with examples. All workers' gradients thus
    add up to that of the joint batch's mean loss, whatever the shards' lengths. Devices without
    examples contribute a gradient of 0.
    """
    X_rank, y_rank = shard(X, rank, num_workers), shard(y, rank, num_workers)
    busy, idle = devices[: len(X_rank)], devices[len(X_rank) :]
    zero_gradients(net, idle)  # devices without examples
    if not busy:
        return []
    data = split_and_load(X_rank, busy, even_split=False)
    label = split_and_load(y_rank, busy, even_split=False)
    return forward_backward(net, data, label, lambda scores, labels: loss(scores, labels) / len(X))


def zero_gradients(net: Block, devices: Sequence[Context]) -> None:
    """Set the gradients on these devices to 0."""
    for param in parameters_of(net):
        if param.grad_req != 'null':
            for device in devices:
                param.grad(device)[:] = 0


def check_kind(kind: str) -> None:
    """Raise unless this process can open this kind of store."""
    arguments.one_of('kind', kind, STORES)
    if kind.startswith('dist_') and os.environ.get('DMLC_ROLE') != 'worker':
        raise RuntimeError(
            f'{kind!r} needs a cluster, but this process is not a worker: call the function '
            "on ranks, after serve(ranks[:]), or use the kind 'local'"
        )


def connect(
    kind: str, num_gpus: int, lr: float, seed: int
) -> tuple[KVStore, list[Context], Block, Trainer]:
    """Become a worker: open the store, and make the network and its trainer.

    Returns the store, this worker's devices, LeNet (with known shapes, and the same values in every
    worker) and a plain SGD trainer whose updates run on the store's servers. Always call
    ``step(1)``: ``compute_gradients`` has divided by the batch size, and the servers ignore later
    changes of ``step``'s argument. The kind ``'local'`` needs no cluster.
    """
    check_kind(kind)
    arguments.positive_number('lr', lr)
    arguments.whole_number('seed', seed)  # with None, each worker would shuffle differently
    devices, store, net = choose_devices(num_gpus), mx.kv.create(kind), lenet()
    prepare(net, devices, seed)
    for device in devices:
        net(nd.zeros((1, 1, 28, 28), ctx=device))
    params, settings = net.collect_params(), {'learning_rate': lr}
    trainer = gluon.Trainer(params, 'sgd', settings, kvstore=store, update_on_kvstore=True)
    return store, devices, net, trainer


def train_epoch(
    batches: Iterable[tuple[NDArray, NDArray]],
    net: Block,
    devices: Sequence[Context],
    trainer: Trainer,
    store: KVStore,
) -> None:
    """Train on this worker's shard of each global batch; all workers pass the same ``batches``."""
    for X, y in batches:
        compute_gradients(X, y, net, devices, store.rank, store.num_workers)
        trainer.step(1, ignore_stale_grad=True)  # allows the zeros of idle devices
        nd.waitall()


def train(
    kind: str = 'dist_sync',
    num_gpus: int = 1,
    batch_size: int = 256,
    lr: float = 0.3,
    num_epochs: int = 3,
    num_examples: int | None = None,
    seed: int = 0,
    checkpoints: str | Path | None = None,
) -> dict[str, np.ndarray]:
    """Train chapter 2's LeNet on Fashion-MNIST, in one worker; return the parameters.

    Every worker calls this with the same arguments. ``batch_size`` counts all devices of all
    workers, ``num_gpus`` the devices of each worker, and ``num_epochs`` includes those done before
    resuming. After each epoch rank 0 saves a checkpoint in the folder ``checkpoints``; a run that
    finds one there resumes from it.
    """
    arguments.positive_int('num_epochs', num_epochs)
    train_iter, test_iter = load_data_fashion_mnist(batch_size, num_examples, seed)
    store, devices, net, trainer = connect(kind, num_gpus, lr, seed)
    settings = dict(batch_size=batch_size, num_examples=num_examples, lr=lr, seed=seed)
    done = resume(net, train_iter, store, checkpoints, **settings)
    for epoch in range(done + 1, num_epochs + 1):
        train_epoch(train_iter, net, devices, trainer, store)
        if store.rank == 0:
            if checkpoints:
                save_checkpoint(checkpoints, epoch, net, **settings)
            print(f'epoch {epoch}, test acc: {evaluate_accuracy_gpus(net, test_iter):.4f}')
    return parameters(net)
