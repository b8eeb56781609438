"""The data sets: there and verified, damaged, or missing, and is there room for them?"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from ..data.catalogue import FILES, folder_of, stock
from . import fixes
from .asking import Questions
from .report import FAILED, OK, WARNING, Row


def data(ask: Questions) -> Iterator[Row]:
    """Look at each set."""
    for name in FILES:
        yield _row(name)


def _row(name: str) -> Row:
    folder = folder_of(name)
    content, bad = stock(name)
    missing = [filename for filename in FILES[name] if filename not in {**content, **bad}]
    title, fix = f'data {name}', fixes.command(f'data {name}')
    if not missing and not bad:
        return Row(title, OK, f'{len(content)} files in {folder}, verified')
    if bad:
        found = '; '.join(bad.values())
        if missing:
            found += f'; missing: {", ".join(missing)}'
    elif content:
        found = f'{folder} has only a part of it; missing: {", ".join(missing)}'
    else:
        found = f'not in {folder}'
    found += ". Without a network, scikit-learn's digits would stand in for it"
    wanted = sum(known.size for file, known in FILES[name].items() if file not in content)
    obstacle = _obstacle(folder, wanted)
    if obstacle:
        return Row(title, FAILED, f'{found}. {obstacle}', 'export MXNET_HOME="$HOME/mgpu-data"')
    return Row(title, FAILED if bad else WARNING, found, fix)


def _obstacle(folder: Path, wanted: int) -> str:
    """What keeps the files from being put there: no right to write, or no room."""
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        return f'{there} cannot be written'
    free = shutil.disk_usage(there).free
    if free < 2 * wanted:  # a download is complete before it takes the place of another
        return f'The disk has room for {free / 1e6:.0f} MB, and {2 * wanted / 1e6:.0f} are needed'
    return ''
