"""Save and load checkpoints, each in a folder that is either complete or absent."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mxnet as mx
import numpy as np
from mxnet import nd

from .. import arguments

if TYPE_CHECKING:
    from mxnet.gluon import Block, Trainer
    from mxnet.kvstore import KVStore

    from ..scratch import NDArrayIter

NAME = re.compile(r'epoch-(\d+)$')
_keys = itertools.count(100_000)  # above a trainer's keys, which are its parameters' numbers


def parameters(net: Block) -> dict[str, np.ndarray]:
    """Copy the parameters of a network's first replica into NumPy arrays."""
    return {name: p.list_data()[0].asnumpy() for name, p in net.collect_params().items()}


def save_checkpoint(
    folder: str | Path, epoch: int, net: Block, trainer: Trainer | None = None, **info: Any
) -> Path:
    """Save a network and a trainer's state after an epoch; return the folder, ``epoch-0003``.

    ``info`` holds JSON values, such as ``lr=0.2``. Everything is written to a temporary folder,
    which is then renamed, so a killed process leaves a complete checkpoint or none. If updates run
    on the servers, the state is there, too, and cannot be saved: pass no trainer.
    """
    arguments.whole_number('epoch', epoch)
    path = Path(folder) / f'epoch-{epoch:04d}'
    aside = path.with_suffix('.tmp')
    text = json.dumps(info)  # before anything is written: it may raise
    shutil.rmtree(aside, ignore_errors=True)  # left by a killed run
    aside.mkdir(parents=True)
    try:
        net.save_parameters(str(aside / 'net.params'))
        if trainer:
            trainer.save_states(str(aside / 'trainer.states'))
        (aside / 'info.json').write_text(text)
    except (OSError, mx.MXNetError) as error:
        raise OSError(
            f'{aside} could not be written: {last_line(error)}; is the disk full?'
        ) from error
    shutil.rmtree(path, ignore_errors=True)
    os.replace(aside, path)
    return path


def last_line(error: Exception) -> str:
    """Return an error's message; MXNet's begins with a trace of its own code."""
    return str(error).strip().splitlines()[-1]


def latest_checkpoint(folder: str | Path) -> tuple[int, Path] | None:
    """Return the newest checkpoint's epoch and path, or None."""
    found = [(int(m[1]), m[0]) for path in Path(folder).glob('*') if (m := NAME.match(path.name))]
    epoch, name = max(found, default=(0, ''))
    return (epoch, Path(folder) / name) if name else None


def load_checkpoint(
    path: str | Path, net: Block, trainer: Trainer | None = None, **info: Any
) -> None:
    """Load a checkpoint into a network and a trainer; raise if its ``info`` differs."""
    there = json.loads((Path(path) / 'info.json').read_text())
    if there != info:
        raise ValueError(
            f'{path} was saved by a run with {there}, but this one has {info}: use the same '
            'settings, or another folder'
        )
    try:
        net.load_parameters(str(Path(path) / 'net.params'))
        if trainer:
            trainer.load_states(str(Path(path) / 'trainer.states'))
    except (AssertionError, OSError, mx.MXNetError) as error:
        raise ValueError(
            f'{path} is damaged or from another network ({last_line(error)}): '
            'remove this folder to resume from the previous checkpoint'
        ) from error


def resume(
    net: Block, train_iter: NDArrayIter, store: KVStore, folder: str | Path | None, **info: Any
) -> int:
    """Resume from the newest checkpoint in a folder; return the number of completed epochs, or 0.

    Every worker calls this before its trainer's first step. All raise if they find different
    epochs: with different numbers of steps, some would wait forever. ``net`` must be initialized,
    with known shapes. ``train_iter`` must be new and seeded; it is advanced to the next epoch.
    ``info``, such as ``seed=0, lr=0.3``, must match the saved run's.
    """
    epoch, path = (folder and latest_checkpoint(folder)) or (0, None)
    # Each worker fills in its own entry; the sum on the servers has all of them.
    key, found = next(_keys), nd.zeros(store.num_workers)
    found[store.rank] = epoch
    if 'async' in store.type:  # its servers sum only if told to
        store.set_optimizer(mx.optimizer.Test())
    store.init(key, nd.zeros_like(found))
    store.push(key, found)
    nd.waitall()
    store._barrier()  # with dist_async, a push waits only for its own row
    store.pull(key, out=found)
    epochs = found.asnumpy().astype(int).tolist()
    if len(set(epochs)) > 1:
        raise ValueError(
            f'the workers found checkpoints of different epochs, {epochs} by rank: pass the '
            'same folder to all of them, and run again'
        )
    if path:
        load_checkpoint(path, net, **info)
        train_iter.skip(epoch)
    return epoch
