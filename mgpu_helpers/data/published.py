"""The published files of each data set, where they belong, and how a good one is told.

``published.toml`` lists them. ``$MXNET_HOME`` (default ``~/.mxnet``) ``/datasets/fashion-mnist``
and ``/mnist`` hold four files each, as MXNet itself lays them out. ``MGPU_DATA_MIRRORS`` (base
addresses with spaces between them, ``{name}`` for the set's folder) replaces the mirrors of the
list, for example by a server in the classroom.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import NamedTuple


class Known(NamedTuple):
    """What a good file looks like: the published one, and MXNet's repacked copy if it differs."""

    size: int
    sha256: str
    repacked_sha1: str = ''


SETS = tomllib.loads(Path(__file__).with_suffix('.toml').read_text(encoding='utf8'))
FILES = {
    name: {filename: Known(**known) for filename, known in entry['files'].items()}
    for name, entry in SETS.items()
}


def folder_of(name: str) -> Path:
    """Give the folder, an absolute path, where the files of a set belong."""
    home = os.environ.get('MXNET_HOME') or os.path.join('~', '.mxnet')
    return Path(os.path.abspath(os.path.expanduser(home)), 'datasets', name)


def mirrors_of(name: str) -> list[str]:
    """List the base addresses to download a set from, each ending in a slash."""
    own = os.environ.get('MGPU_DATA_MIRRORS', '').split()
    for mirror in own:
        if not mirror.startswith(('https://', 'http://')):
            raise ValueError(
                'MGPU_DATA_MIRRORS must hold addresses that start with https:// or http://, '
                f'with spaces between them; got {public(mirror)!r}'
            )
    return [m.replace('{name}', name).rstrip('/') + '/' for m in own or SETS[name]['mirrors']]


def public(address: str) -> str:
    """Give an address as it may be shown: without the user and the password that it may hold."""
    return re.sub(r'^(\w*:?//)?.*@', r'\1', address)


def look(path: Path, known: Known) -> tuple[bytes | None, str | None]:
    """Give ``(content, None)`` of a good file, ``(None, trouble)`` of a bad one, or two Nones."""
    expected = f'{path} is not the published file: expected {known.size:,} bytes'
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):  # a pipe could be read for ever
            return None, f'{path} is no regular file'
        if about.st_size > 2 * known.size:  # MXNet's copies are about as long as the published
            return None, f'{expected}, found {about.st_size:,} bytes'
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None, None
    except OSError as error:
        return None, f'{path} cannot be read ({error.strerror})'
    sha256 = hashlib.sha256(data).hexdigest()
    if sha256 == known.sha256 or hashlib.sha1(data).hexdigest() == known.repacked_sha1:
        return data, None
    return None, (
        f'{expected} with SHA-256 {known.sha256[:16]}..., '
        f'found {len(data):,} bytes with SHA-256 {sha256[:16]}...'
    )


def stock(name: str) -> tuple[dict[str, bytes], dict[str, str]]:
    """Give the content of the good files of a set, and what is wrong with the bad ones.

    Both are by file name; a file that is in neither is missing.
    """
    content, bad = {}, {}
    for filename, known in FILES[name].items():
        data, trouble = look(folder_of(name) / filename, known)
        if data is not None:
            content[filename] = data
        elif trouble:
            bad[filename] = trouble
    return content, bad
