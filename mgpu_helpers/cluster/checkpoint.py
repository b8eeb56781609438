"""Checkpoints: what a run needs in order to resume, in files that are whole or not there at all.

Knows NumPy only; never imports MXNet.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from . import files
from .files import BrokenCheckpoint


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """What ``save_checkpoint`` saved: the epoch, the arrays by name, the info, and the file."""

    epoch: int
    arrays: dict[str, np.ndarray] = field(repr=False)  # far too long to be shown
    info: dict[str, Any]
    path: Path
    sha256: str = field(repr=False)  # two files with the same one are the same checkpoint


def save_checkpoint(
    folder: str | Path, epoch: int, arrays: dict[str, np.ndarray], **info: Any
) -> Path:
    """Save what a run needs in order to resume after an epoch; give the path of the file.

    ``arrays`` are NumPy's, of any shape and name; ``info`` has values that JSON has: ``lr=0.2``.
    Whenever a process is killed or the power fails, the folder has the old file or the new one,
    never half of one. 11 MB, as ResNet-18 has, were saved in 21 ms and loaded in 17 (one core of a
    virtual machine whose disk answers at once: without both ``fsync`` the time is the same).
    """
    files.check(epoch, arrays, info)
    path = Path(folder) / f'epoch-{epoch:04d}.ckpt'
    body = files.npz(arrays)
    with files.replacing(path) as temporary:
        with open(temporary, 'xb') as file:
            file.write(files.first_line(int(epoch), info, list(arrays), body) + b'\n')
            file.write(body)
            file.flush()
            os.fsync(file.fileno())  # all bytes are on the disk before the name is
        os.replace(temporary, path)  # one step: a reader finds the old file or the new one
        files.sync_folder(path.parent)  # and now the name is on the disk, too
    return path


def load_checkpoint(path: str | Path) -> Checkpoint:
    """Load a checkpoint, after proof that every byte is as it was saved, else ``BrokenCheckpoint``.

    Its arrays can be written to; its epoch is the one in the file, whatever the file's name is.
    """
    line, _, body = files.read(path).partition(b'\n')
    head = files.read_head(path, line)
    _, _, epoch, info, names, size, sha256 = head.values()
    if len(body) != size:
        raise files.broken(path, f'{size} bytes should follow its first line, {len(body)} do')
    if files.first_line(epoch, info, names, body) != line:
        raise files.broken(path, 'its content does not have the SHA-256 in its first line')
    return Checkpoint(epoch, files.from_npz(path, names, body), info, Path(path), sha256)


def latest_checkpoint(folder: str | Path) -> Checkpoint | None:
    """Load the newest checkpoint of a folder that is whole; None where there is none, or no folder.

    For each newer one that is broken and was passed over there is a ``UserWarning``.
    """
    for path in files.saved(folder):
        try:
            return load_checkpoint(path)
        except BrokenCheckpoint as error:
            warnings.warn(f'a checkpoint was passed over: {error}', stacklevel=2)
    return None
