"""Fetch the missing files of a data set, from mirrors or from a folder.

A file is downloaded into memory, verified, and only then saved under its name, atomically: even a
killed download leaves no partial or unverified file.
"""

from __future__ import annotations

import os
import secrets
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from .published import FILES, Known, folder_of, good, mirrors_of, public, read_good, verified

# Limits in seconds: until a mirror answers, between two pieces, and for a whole file (26 MB at 30
# kB/s). Without a network the error comes after 0.2 s, mostly spent importing requests.
CONNECT, SILENT, WHOLE = 3.0, 10.0, 900.0


class Unavailable(Exception):
    """Raised if a data set is incomplete; the message says what to do and what was tried."""


class _Refused(Exception):
    """Raised if a mirror's file is rejected; the message is the reason, without the address."""


def read(name: str, source: Path | None = None) -> dict[str, bytes]:
    """Return the contents of a dataset's four files by name, verified; download missing ones.

    Mirrors are tried in order; with a folder as ``source``, files are copied from there without a
    network. Good files are kept, and a bad one is renamed to ``….bad``.
    """
    content, folder, tried = verified(name), folder_of(name), list[str]()
    missing = [filename for filename in FILES[name] if filename not in content]
    if not missing:
        return content
    brought: Iterable[tuple[str, bytes]] = _download(name, [*missing], tried)
    what_to_do = (
        "connect to a network, or copy the files from a stick (make data DATA_ARGS='--from DIR'), "
        'then restart Python (the kernel)'
    )
    if source:  # holds one set's files, or a folder per set, or is like $MXNET_HOME
        places = source, source / name, source / 'datasets' / name
        found = {
            filename: data for place in places for filename, data in verified(name, place).items()
        }
        brought = [(filename, found[filename]) for filename in missing if filename in found]
        what_to_do = f'put the published files of {name} into {source / name}'
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()  # fail before downloading
        for filename, data in brought:
            _keep(folder / filename, data, FILES[name][filename])
            content[filename] = data
    except OSError as error:
        what_to_do = (
            f'{folder} is not writable ({error.strerror}): set MXNET_HOME to a folder that is'
        )
    missing = [filename for filename in FILES[name] if filename not in content]
    if missing:
        what_to_do += f'. Missing: {", ".join(missing)}'
        raise Unavailable('\n'.join([f'What to do: {what_to_do}', *tried]))
    return content


def _keep(path: Path, content: bytes, known: Known) -> None:
    """Save a file under its name, unless another process has already done so."""
    if read_good(path, known) is None:
        if os.path.lexists(path):
            os.replace(path, path.with_name(f'{path.name}.bad'))
        # A unique temporary name, so that two processes never write to the same file.
        aside = path.with_name(f'{path.name}.{secrets.token_hex(4)}.tmp')
        try:
            aside.write_bytes(content)
            os.replace(aside, path)
        finally:
            aside.unlink(missing_ok=True)


def _download(name: str, missing: list[str], tried: list[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the missing files, trying the mirrors in order; note failures in ``tried``."""
    from requests import RequestException
    from urllib3.exceptions import HTTPError

    for mirror in mirrors_of(name):
        try:
            while missing:
                yield missing[0], _fetch(mirror, name, missing[0])
                del missing[0]
        except (_Refused, RequestException, HTTPError, OSError) as error:
            why = str(error) if isinstance(error, _Refused) else type(error).__name__
            tried.append(f'  tried {public(mirror)}{missing[0]}: {why}')


def _fetch(mirror: str, name: str, filename: str) -> bytes:
    """Download and verify a file, with a progress bar."""
    import requests
    from tqdm import tqdm

    known, content, end = FILES[name][filename], bytearray(), time.monotonic() + WHOLE
    as_it_is = {'Accept-Encoding': 'identity'}  # already compressed
    times = CONNECT, SILENT
    with requests.get(mirror + filename, stream=True, timeout=times, headers=as_it_is) as response:
        if not response.ok:
            raise _Refused(f'HTTP status {response.status_code}')
        title = f'{name}/{filename}'
        with tqdm(desc=title, total=known.size, unit='B', unit_scale=True) as bar:
            # read1 returns available data; iter_content would wait for a full chunk.
            while len(content) <= known.size and (piece := response.raw.read1(1 << 16)):
                content += piece
                bar.update(len(piece))
                if time.monotonic() > end:
                    raise _Refused(f'not complete after {WHOLE:.0f} s')
    if not good(content, known):
        raise _Refused('differs from the published file')
    return bytes(content)
