"""All workers go on from the same checkpoint, or none: parameters as arrays, and back."""

from __future__ import annotations

import itertools
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..gluon import mx, nd
from .checkpoint import latest_checkpoint

if TYPE_CHECKING:
    from mxnet.gluon import Block
    from mxnet.kvstore import KVStore

    from ..scratch import NDArrayIter

WIDTH = 1024  # bytes that a worker tells the others: what it has found, and where
# Each exchange takes a key of its own, beyond those of a trainer, which numbers its parameters.
_keys = itertools.count(100_000)


def parameters(net: Block) -> dict[str, np.ndarray]:
    """Copy the parameters of an initialized network, of its first replica, into NumPy arrays."""
    return {name: p.list_data()[0].asnumpy() for name, p in net.collect_params().items()}


def load_parameters(net: Block, arrays: dict[str, np.ndarray]) -> None:
    """Give all replicas of an initialized network the values of ``parameters``.

    If names or shapes are another network's, ``ValueError``, and nothing is changed.
    """
    here = {name: tuple(p.shape) for name, p in net.collect_params().items()}
    there = {name: array.shape for name, array in arrays.items()}
    if here != there:
        name = next(n for n in here | there if here.get(n) != there.get(n))
        raise ValueError(
            f'these are the parameters of another network: {name} has the shape {there.get(name)} '
            f'there and {here.get(name)} here'
        )
    for name, param in net.collect_params().items():
        param.set_data(nd.array(arrays[name], dtype=arrays[name].dtype))


def resume(
    net: Block, train_iter: NDArrayIter, store: KVStore, folder: str | Path | None, **info: Any
) -> int:
    """Go on where the newest whole checkpoint of a folder ends; give how many epochs are done.

    That is 0 if there is no checkpoint, or ``folder`` is None. Every worker calls this, before its
    trainer's first step; unless all have the same checkpoint, all raise. ``net`` is initialized,
    its shapes settled, and gets the parameters; ``train_iter`` is fresh, with a seed, and goes on
    with the next epoch. ``info`` must be that of the run that saved it, such as ``seed=0, lr=0.3``.
    """
    state, failed = 'no checkpoint', None
    try:
        checkpoint = latest_checkpoint(folder) if folder else None
        if checkpoint:
            state = f'epoch {checkpoint.epoch} (SHA-256 {checkpoint.sha256[:16]}...)'
            if checkpoint.info != info:
                raise ValueError(
                    f'{checkpoint.path} is of a run with {checkpoint.info}, and this one has '
                    f'{info}: take the same settings, or another folder'
                )
            load_parameters(net, checkpoint.arrays)
    except Exception as error:  # raised below: the others would wait for what we have to say
        state, failed = f'an error ({" ".join(str(error).split())[:200]})', error
    where = f'{platform.node()}:{os.path.abspath(folder)}' if folder else 'no folder'
    states = [text.split('\n') for text in tell_all(store, f'{state}\n{where}')]
    if failed:
        raise failed
    if any(theirs != state for theirs, _ in states):
        each = '; '.join(f'rank {i}: {what} in {there}' for i, (what, there) in enumerate(states))
        raise ValueError(
            f'the workers would not resume from the same checkpoint ({each}): let all read one '
            'folder, or copy the newest checkpoint into each one, and run again'
        )
    if checkpoint is None:
        return 0
    train_iter.skip(checkpoint.epoch)
    return checkpoint.epoch


def tell_all(store: KVStore, text: str) -> list[str]:
    """Tell all workers a text, cut to ``WIDTH`` bytes; give those of all, in order of rank.

    Every worker calls this, as often as the others. Each fills its own row of a key; the servers'
    sum has all rows.
    """
    rows = np.zeros((store.num_workers, WIDTH), 'float32')
    ours = text.encode(errors='backslashreplace')[:WIDTH]  # a path may have bytes that are no text
    rows[store.rank, : len(ours)] = list(ours)
    key, sums = next(_keys), nd.array(rows)
    if 'async' in store.type:  # its servers sum nothing up unless they are told to
        store.set_optimizer(mx.optimizer.Test())
    store.init(key, nd.zeros_like(sums))
    store.push(key, sums)
    nd.waitall()
    store._barrier()  # with dist_async, a push ends when its own row is there
    store.pull(key, out=sums)
    texts = (bytes(row).rstrip(b'\0') for row in sums.asnumpy().astype('uint8'))
    return [text.decode(errors='replace') for text in texts]
