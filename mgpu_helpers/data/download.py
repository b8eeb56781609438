"""Download and verify what is missing of a data set.

A file counts only if its checksum is known (``published``). It is received into memory, verified,
and only then written, so that the folder never shows a half-written or an unverified file: not to a
second notebook that starts at the same time, and not after a killed download.
"""

from __future__ import annotations

import hashlib
import os
import queue
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..files import whole_file
from .published import FILES, Known, folder_of, look, mirrors_of, public, stock

if TYPE_CHECKING:
    import requests

# How long a mirror may take to answer: behind a firewall that swallows packets, three mirrors cost
# 15 s before the digits stand in. (A connect timeout of requests would hold for each of up to
# eight addresses.) With no network at all the refusal is immediate: 0.2 s measured, and that is
# the import of requests.
PATIENCE = 5.0
# From its answer on, it fails when it is STALLED seconds behind one that sends SLOWEST bytes a
# second: whether it stops, drips, or never comes to the file. (A proxy may read it all first.)
STALLED, SLOWEST = 20.0, 20_000
LATE = 'did not answer, or did not send the whole file, in time'


class CacheWarning(UserWarning):
    """A bad file was replaced, or the folder for the data sets cannot be written."""


class Unavailable(Exception):
    """The set is neither on this machine nor to be had from a mirror; ``reasons`` says why."""

    def __init__(self, reasons: list[str]) -> None:
        super().__init__('; '.join(reasons))
        self.reasons = reasons


class _Refused(Exception):
    """Why a mirror's file is not taken, in words that name no address."""


def read(name: str, source: Path | None = None) -> dict[str, bytes]:
    """Give the verified content of a set's four files by name, downloaded where necessary.

    With a folder as ``source``, they are copied from there, and no network is used. A bad file is
    replaced with a ``CacheWarning``, and left as it is where there is no good one. A folder that
    cannot be written is no obstacle: what was found then serves this process only.
    """
    content, bad = stock(name)
    missing = [filename for filename in FILES[name] if filename not in content]
    if not missing:
        return content
    folder, reasons = folder_of(name), list[str]()
    no_room = unwritable(folder)
    bring = partial(_find, source) if source else _download
    for filename, data in bring(name, missing, reasons):
        content[filename] = data
        trouble = _keep(folder / filename, data)
        no_room = no_room or trouble
        if filename in bad and not trouble:
            warn(f'{bad[filename]}. It was replaced by a verified one.', CacheWarning)
    if no_room:
        reasons.append(f'{no_room}; set MXNET_HOME to a folder that you can write')
    if len(content) < len(FILES[name]):
        raise Unavailable([bad[f] for f in bad if f not in content] + reasons)
    if no_room:
        warn(
            f'{no_room}. The files of {name} serve this process only, and the next one has to '
            'download them again. To keep them, make room there, or set MXNET_HOME to '
            'a folder that you can write.',
            CacheWarning,
        )
    return content


def unwritable(folder: Path) -> str:
    """Make a folder, and say why no file can be written into it; or give an empty text."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return ''
    except OSError as error:
        return f'{folder} cannot be written ({error.strerror})'


def _keep(path: Path, content: bytes) -> str:
    """Put a file where it belongs, whole or not at all, and say why that is not possible, if so.

    What is there already is not looked at, only replaced: it may be a pipe, or have no end.
    """
    try:
        with whole_file(path) as file:
            file.write(content)
    except OSError as error:
        return f'{path.parent} cannot take {path.name} ({error.strerror})'
    return ''


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line outside ``mgpu_helpers`` that led here: the one the reader can see."""
    package = os.path.join(Path(__file__).parents[1], '')
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_code.co_filename.startswith(package):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _download(name: str, missing: list[str], reasons: list[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the missing files from the mirrors, in their order; note why one did not serve."""
    for mirror in mirrors_of(name):
        try:
            while missing:
                yield missing[0], _fetch(mirror + missing[0], name, FILES[name][missing[0]])
                del missing[0]
        except _Refused as why:
            reasons.append(f'{public(mirror)}{missing[0]} {why}')


def places(name: str, source: Path) -> list[Path]:
    """List where in a folder the files of a set may lie, the most certain place first."""
    return [source / 'datasets' / name, source / name, source]


def _find(
    source: Path, name: str, missing: list[str], reasons: list[str]
) -> Iterator[tuple[str, bytes]]:
    """Yield the missing files from a folder; note what is the matter with those that are not."""
    for filename in missing:
        troubles = []
        for path in [folder / filename for folder in places(name, source)]:
            content, trouble = look(path, FILES[name][filename])
            if content is not None:
                yield filename, content
                break
            # The sets call their files the same: a good one of another set is not damaged.
            others = (FILES[other][filename] for other in FILES if other != name)
            if trouble and not any(look(path, other)[0] for other in others):
                troubles.append(trouble)
            if (plain := path.with_suffix('')).is_file():
                troubles.append(f'{plain} is not compressed: only {filename} can be verified')
        else:
            reasons += troubles or [f'{filename} of {name} is not in {source}']


def _fetch(address: str, name: str, known: Known) -> bytes:
    """Give a verified file, and show how it comes."""
    from tqdm import tqdm

    pieces = _receive(address, known.size)
    content = bytearray(next(pieces, b''))  # what is refused at once gets no bar
    title = f'{name}/{address.rpartition("/")[2]}'
    sizes = {'initial': len(content), 'total': known.size, 'unit': 'B', 'unit_scale': True}
    with tqdm(desc=title, **sizes) as bar:
        for piece in pieces:
            content += piece
            bar.update(len(piece))
    if hashlib.sha256(content).hexdigest() != known.sha256:
        raise _Refused('sent something else than the published file')
    return bytes(content)


def _receive(address: str, size: int) -> Iterator[bytes]:
    """Yield what an address sends, but little more than ``size`` bytes.

    A thread talks to the mirror, and says None when it has answered: no timeout of a library ends a
    header that drips, or one that never ends. What goes wrong is put into words there, because
    errors of libraries hold addresses.
    """
    import requests

    received: queue.SimpleQueue[bytes | str | None] = queue.SimpleQueue()
    over = threading.Event()

    def talk() -> None:
        left = size
        try:
            with requests.get(
                address,
                stream=True,
                timeout=(PATIENCE, STALLED),
                headers={'Accept-Encoding': 'identity'},  # it is compressed already
                hooks={'response': _close_redirect},
            ) as response:
                response.raise_for_status()
                received.put(None)
                # read1 gives what has come; iter_content would wait for the rest of its piece.
                while left >= 0 and not over.is_set() and (piece := response.raw.read1(1 << 16)):
                    left -= len(piece)
                    received.put(piece)
            received.put(b'')
        except Exception as error:
            received.put(_why(error))

    threading.Thread(target=talk, daemon=True).start()
    deadline = time.monotonic() + PATIENCE
    try:
        while (piece := received.get(timeout=max(0.0, deadline - time.monotonic()))) != b'':
            if isinstance(piece, str):
                raise _Refused(piece)
            deadline += STALLED if piece is None else len(piece) / SLOWEST
            if piece:
                yield piece
    except queue.Empty:
        raise _Refused(LATE) from None
    finally:
        over.set()


def _close_redirect(response: requests.Response, **_: object) -> None:
    """Close a redirect unread: requests would read its whole body first, which may never end."""
    if response.is_redirect:
        response.close()


def _why(error: Exception) -> str:
    """Give a network error in a few words that a reader can act on."""
    from requests import exceptions
    from urllib3.exceptions import HTTPError, TimeoutError

    if isinstance(error, exceptions.HTTPError):
        return f'answered with HTTP status {error.response.status_code}'
    words = {  # the first that fits
        exceptions.SSLError: 'has a certificate that this machine does not trust',
        exceptions.ProxyError: 'cannot be reached through the proxy',
        (exceptions.Timeout, TimeoutError): LATE,
        (exceptions.ConnectionError, HTTPError): 'cannot be reached, or the connection broke',
    }
    # The text of any other could hold a password.
    unknown = f'failed ({type(error).__name__})'
    return next((words[kind] for kind in words if isinstance(error, kind)), unknown)
