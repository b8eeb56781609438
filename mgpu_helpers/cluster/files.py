"""What a checkpoint's file looks like, and how a file is replaced in one step.

The first line is JSON: ``format``, ``version``, ``epoch``, ``info``, ``names`` (of the arrays, in
order), ``size`` (of the rest, in bytes) and ``sha256``. The rest is what ``numpy.savez`` writes;
the names stand in the line because not every text can be a name in a zip file. The SHA-256 is that
of the line without it and of the rest: a damaged learning rate is as bad as a damaged weight.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .. import checks

FORMAT, VERSION = 'mgpu-checkpoint', 1
KEYS = ['format', 'version', 'epoch', 'info', 'names', 'size', 'sha256']


class BrokenCheckpoint(ValueError):
    """A file is not, or not entirely, what ``save_checkpoint`` once wrote."""


def check(epoch: int, arrays: dict[str, np.ndarray], info: dict[str, Any]) -> None:
    """Raise unless these can be saved and come back the same; see ``save_checkpoint``."""
    checks.whole_number('epoch', epoch)
    if not isinstance(arrays, dict):
        raise TypeError(
            f'arrays must be a dict, name: NumPy array, not {checks.shown(arrays)}; for a list, '
            '{str(i): a for i, a in enumerate(arrays)}'
        )
    for name, array in arrays.items():
        _check_array(name, array)
    for name, value in info.items():
        _check_info(name, value)


def _check_array(name: object, array: object) -> None:
    if not isinstance(name, str):
        raise TypeError(f'the names in arrays must be texts, not {checks.shown(name)}')
    # Exactly: a masked array, for one, would lose its mask.
    if type(array) is not np.ndarray:
        convert = 'its asnumpy()' if hasattr(array, 'asnumpy') else 'numpy.asarray of it'
        raise TypeError(
            f'arrays[{name!r}] must be a NumPy array, not {checks.shown(array)}: pass {convert}, '
            'or, if it is a plain number or text, pass it in info, as name=value'
        )
    if array.dtype.hasobject or array.dtype.isbuiltin == 2:  # 2: a type from outside NumPy
        raise TypeError(
            f'arrays[{name!r}] must hold numbers of a type of NumPy, not {array.dtype}: others '
            'would need pickle, which can run any code when it is loaded; convert with astype'
        )


def _check_info(name: str, value: object) -> None:
    wrong, kind = 'it would come back as something else', TypeError
    try:
        if json.loads(json.dumps(value, allow_nan=False)) == value:
            return
    except (TypeError, ValueError, RecursionError) as error:
        wrong, kind = str(error), ValueError if isinstance(error, ValueError) else TypeError
    raise kind(
        f'{name}={checks.shown(value)} cannot be kept as JSON ({wrong}): use finite numbers such '
        'as int(x) and float(x), text, True, False, None, lists, and dicts with text as keys; '
        'arrays belong into arrays'
    )


def npz(arrays: dict[str, np.ndarray]) -> memoryview:
    """Give the bytes of a ``.npz`` file that holds arrays: their order counts, not their names."""
    file = io.BytesIO()
    np.savez(file, *arrays.values())
    return file.getbuffer()


def from_npz(path: str | Path, names: list[str], body: bytes) -> dict[str, np.ndarray]:
    """Read what ``npz`` gave, and give the arrays their names back; never loads a pickle."""
    try:
        found = list(np.load(io.BytesIO(body), allow_pickle=False).values())
    except Exception as error:  # NumPy has a kind of its own for each way not to be an .npz file
        raise broken(path, f'its arrays cannot be read ({error})') from error
    if len(found) != len(names):
        raise broken(path, f'it has {len(names)} names for {len(found)} arrays')
    return dict(zip(names, found))


def first_line(
    epoch: int, info: dict[str, Any], names: list[str], body: bytes | memoryview
) -> bytes:
    """Write a checkpoint's first line: what is in it, and the SHA-256 of that and of ``body``.

    ``names`` are those of the arrays, ``info`` has JSON values; the line's end is not included.
    """
    head = dict(zip(KEYS, [FORMAT, VERSION, epoch, info, names, len(body)]))
    digest = hashlib.sha256(json.dumps(head).encode())
    digest.update(body)
    return json.dumps(head | {'sha256': digest.hexdigest()}).encode()


def read(path: str | Path) -> bytes:
    """Read a file that must be a regular one: a pipe, for one, would keep us waiting for ever."""
    path = Path(path)
    if os.path.lexists(path) and not path.is_file():
        raise broken(path, 'it is no regular file')
    return path.read_bytes()


def read_head(path: str | Path, line: bytes) -> dict[str, Any]:
    """Read the first line of a checkpoint, without its end, as a dict with ``KEYS``.

    They have the right types: a SHA-256 says that nothing has changed, not who wrote it. That
    ``first_line`` gives the same line again is still to be checked.
    """
    try:
        head = json.loads(line)
    except (ValueError, RecursionError):
        head = None
    if not isinstance(head, dict) or head.get('format') != FORMAT:
        raise broken(path, 'its first line is not that of a checkpoint')
    if head.get('version') != VERSION:
        what = f'it has version {checks.shown(head.get("version"))} of the format'
        raise broken(path, f'{what}, and this program reads version {VERSION}')
    if list(head) != KEYS:
        raise broken(path, f'its first line has {", ".join(head)} instead of {", ".join(KEYS)}')
    _, _, epoch, info, names, size, _ = head.values()
    texts = isinstance(names, list) and all(isinstance(name, str) for name in names)
    right = {
        'epoch': type(epoch) is int and epoch >= 0,  # True is none, nor is 3.0
        'info': isinstance(info, dict),
        'names': texts and len(set(names)) == len(names),
        'size': type(size) is int,
    }
    for key, is_right in right.items():
        if not is_right:
            raise broken(path, f'its {key} cannot be {checks.shown(head[key])}')
    return head


def broken(path: str | Path, what: str) -> BrokenCheckpoint:
    """Make the error for a file that cannot be loaded."""
    return BrokenCheckpoint(
        f'{path} is broken: {what}. Resume from an older checkpoint, as latest_checkpoint does, or '
        'fetch this file anew from where it was copied.'
    )


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary name beside a file's; the ``with`` block writes there, and renames.

    The folder is made where it is missing, and what killed processes left of the same file is
    removed. Whatever happens in the block, no temporary file is left. An ``OSError`` in it comes
    out with the path and the way out.
    """
    # The name is new each time: two processes that save the same epoch never write into one file.
    temporary = path.with_name(f'{path.name}.{secrets.token_hex(4)}.tmp')
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for left in path.parent.glob(f'{path.name}.*.tmp'):
            left.unlink(missing_ok=True)
        yield temporary
    except OSError as error:
        advice = 'make room, or choose a folder that you can write'
        if isinstance(error, FileNotFoundError) and path.parent.is_dir():
            advice = 'let only one process save into a folder, such as the worker of rank 0'
        if isinstance(error, IsADirectoryError):
            advice = 'move the folder of that name away'
        words = f'{error.strerror or error}, so it was not saved; {advice}. Older checkpoints are '
        raise OSError(error.errno, words + 'untouched', str(path)) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def sync_folder(folder: str | Path) -> None:
    """Wait until the names in a folder are on the disk, not only the bytes of its files."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system, such as some networks', that cannot
            raise
    finally:
        os.close(number)


def saved(folder: str | Path) -> list[Path]:
    """List the checkpoints in a folder by their names, whole or broken, newest epoch first.

    Empty where there is no such folder; temporary files are left out.
    """
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    found = [match for match in map(re.compile(r'epoch-([0-9]+)\.ckpt').fullmatch, names) if match]
    return [Path(folder, m[0]) for m in sorted(found, key=lambda m: (-int(m[1]), m[0]))]
