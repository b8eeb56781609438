"""A file that is whole or not there at all, whoever is killed while it is written."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def whole_file(path: str | Path) -> Iterator[BinaryIO]:
    """Open a binary file to write, and let it take the place of ``path`` when the block ends well.

    Readers find the old file or the new one, never half of one, also after a power failure; an
    error, Ctrl-C included, leaves the old one. A killed process leaves ``path.….tmp`` behind.
    """
    path = Path(path)
    # The name is new each time: two processes that write the same file do not share one.
    aside = path.with_name(f'{path.name}.{secrets.token_hex(4)}.tmp')
    try:
        with open(aside, 'xb') as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # all bytes are on the disk before the name is
        os.replace(aside, path)
        if hasattr(os, 'O_DIRECTORY'):  # Windows opens no folders
            folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)  # and now the name is there, too
            finally:
                os.close(folder)
    finally:
        aside.unlink(missing_ok=True)
