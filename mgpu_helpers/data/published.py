"""The published files of each data set: their folder, their mirrors, their checksums.

``published.toml`` lists them. ``$MXNET_HOME`` (default ``~/.mxnet``) ``/datasets/fashion-mnist``
and ``/mnist`` hold four files each, in MXNet's own layout. ``MGPU_DATA_MIRRORS`` (base addresses
separated by spaces, ``{name}`` for the set's folder) replaces these mirrors, for example by a
server in the classroom.
"""

from __future__ import annotations

import hashlib
import os
import re
import tomllib
from pathlib import Path
from typing import NamedTuple


class Known(NamedTuple):
    """A published file's size and checksum, and that of MXNet's repacked copy if it differs."""

    size: int
    sha256: str
    repacked_sha1: str = ''


SETS = tomllib.loads(Path(__file__).with_suffix('.toml').read_text(encoding='utf8'))
FILES = {
    name: {filename: Known(**known) for filename, known in entry['files'].items()}
    for name, entry in SETS.items()
}


def folder_of(name: str) -> Path:
    """Return the absolute path of the folder for a set's files."""
    home = os.environ.get('MXNET_HOME') or os.path.join('~', '.mxnet')
    return Path(os.path.abspath(os.path.expanduser(home)), 'datasets', name)


def mirrors_of(name: str) -> list[str]:
    """List the base addresses to download a set from, each ending in a slash."""
    mirrors = os.environ.get('MGPU_DATA_MIRRORS', '').split() or SETS[name]['mirrors']
    return [mirror.replace('{name}', name).rstrip('/') + '/' for mirror in mirrors]


def public(address: str) -> str:
    """Return a URL without its user name and password, for printing."""
    return re.sub('^(.*//)?.*@', r'\1', address)


def good(content: bytes | bytearray, known: Known) -> bool:
    """Return whether these bytes are the published file, or MXNet's copy of it."""
    sha256, sha1 = hashlib.sha256(content).hexdigest(), hashlib.sha1(content).hexdigest()
    return sha256 == known.sha256 or sha1 == known.repacked_sha1


def read_good(path: Path, known: Known) -> bytes | None:
    """Return a verified file's content; None if it is missing, unreadable or different."""
    try:
        # Reading a pipe might never end; MXNet's copies are about as long as the published files.
        if path.is_file() and path.stat().st_size <= 2 * known.size:
            return content if good(content := path.read_bytes(), known) else None
    except OSError:
        pass
    return None


def verified(name: str, folder: Path | None = None) -> dict[str, bytes]:
    """Return the content of a set's good files, by name; ``folder`` replaces the set's own."""
    folder = folder or folder_of(name)
    files = {filename: read_good(folder / filename, k) for filename, k in FILES[name].items()}
    return {filename: content for filename, content in files.items() if content is not None}
