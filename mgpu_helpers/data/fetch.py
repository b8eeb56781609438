"""Download and verify what is missing of a data set.

A file counts only if its checksum is known (``catalogue``). What is missing or wrong is downloaded
from the mirror that answers first into a temporary file, which is verified and renamed, so that the
folder never shows a half-written file: not to a second notebook that starts at the same time, and
not after a killed download.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import os
import queue
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .catalogue import FILES, folder_of, mirrors_of, public, stock

if TYPE_CHECKING:
    import requests

# How long we wait for any mirror to answer. All are asked at the same time, so this is also how
# long a machine whose network swallows packets waits for the digits. With no network at all the
# refusal is immediate: 0.2 s measured, and that is the import of requests.
PATIENCE = 5.0
# A mirror fails that is STALLED seconds behind one that begins at once and sends SLOWEST bytes a
# second: whether it says nothing, drips, or never comes to the file.
STALLED, SLOWEST = 20.0, 20_000
LATE = 'did not answer, or did not send the whole file, in time'
ABANDONED = 3600.0  # a temporary file to which nobody has written for so long: of a killed process


class CacheWarning(UserWarning):
    """A bad file was replaced, or the folder for the data sets cannot be written."""


class Unavailable(Exception):
    """The set is neither on this machine nor to be had from a mirror; ``reasons`` says why."""

    def __init__(self, reasons: list[str]) -> None:
        super().__init__('; '.join(reasons))
        self.reasons = reasons


class _Refused(Exception):
    """Why a mirror's file is not taken, in words that name no address."""


def read(name: str) -> dict[str, bytes]:
    """Give the verified content of a set's four files by name, downloaded where necessary.

    A bad file is replaced with a ``CacheWarning``, and left as it is if no mirror has a good one. A
    folder that cannot be written is no obstacle: the download then serves this process only.
    """
    folder = folder_of(name)
    content, bad = stock(name)
    wanted = [filename for filename in FILES[name] if filename not in content]
    if not wanted:
        return content

    mirrors, no_room = mirrors_of(name), ''
    reasons: list[str] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _download(name, wanted, mirrors, folder, reasons)
        content = stock(name)[0]
    except OSError as error:
        no_room = f'{folder} cannot take the files of {name} ({error.strerror})'
        reasons.append(f'{no_room}; set MXNET_HOME to a folder that you can write')
        try:
            with tempfile.TemporaryDirectory(prefix='mgpu-') as private:
                _download(name, wanted, mirrors, Path(private), reasons)
                content = stock(name)[0] | stock(name, Path(private))[0]
        except OSError as error:
            reasons.append(f'no temporary folder can take them either ({error.strerror})')

    if not no_room:
        for filename in bad.keys() & content.keys():
            warn(f'{bad[filename]}. It was replaced by a verified download.', CacheWarning)
    if len(content) < len(FILES[name]):
        raise Unavailable([bad[f] for f in bad if f not in content] + reasons)
    if no_room:
        warn(
            f'{no_room}. They were downloaded for this process only, and the next one has to '
            'download them again. To keep them, make room there, or set MXNET_HOME to a folder '
            'that you can write.',
            CacheWarning,
        )
    return content


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line outside ``mgpu_helpers`` that led here: the one the reader can see."""
    package = os.path.join(Path(__file__).parents[1], '')
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_code.co_filename.startswith(package):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _answering(mirrors: Sequence[str], filename: str, reasons: list[str]) -> Iterator[str]:
    """Yield the mirrors in the order in which they answer; note why the others did not.

    Asked one after the other, three mirrors with up to eight addresses each would take minutes
    to fail behind a firewall that swallows packets (a connect timeout holds per address).
    """
    import requests

    answers: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()

    def ask(mirror: str) -> None:
        try:
            requests.head(mirror + filename, timeout=PATIENCE, allow_redirects=True)
            answers.put((mirror, ''))
        except Exception as error:
            answers.put((mirror, _why(error)))

    for mirror in mirrors:
        threading.Thread(target=ask, args=(mirror,), daemon=True).start()
    silent = list(mirrors)
    deadline = time.monotonic() + PATIENCE
    with contextlib.suppress(queue.Empty):
        while silent:
            mirror, trouble = answers.get(timeout=max(0.0, deadline - time.monotonic()))
            silent.remove(mirror)
            if trouble:
                reasons.append(f'{public(mirror)} {trouble}')
            else:
                yield mirror
    reasons += [f'{public(mirror)} did not answer within {PATIENCE:.0f} s' for mirror in silent]


def _download(
    name: str, todo: list[str], mirrors: Sequence[str], folder: Path, reasons: list[str]
) -> None:
    """Bring files into ``folder``, as far as mirrors have them; note why a mirror did not serve.

    ``todo`` keeps those that are still missing. An ``OSError`` that leaves this function is about
    the folder, never about the network.
    """
    for mirror in _answering(mirrors, todo[0], reasons):
        try:
            while todo:
                known = FILES[name][todo[0]]
                pieces = _receive(mirror + todo[0], known.size)
                shown = _with_bar(pieces, f'{name}/{todo[0]}', known.size)
                place(folder / todo[0], known.sha256, shown)
                del todo[0]
            return
        except _Refused as why:
            reasons.append(f'{public(mirror)}{todo[0]} {why}')


def _receive(address: str, size: int) -> Iterator[bytes]:
    """Yield what an address sends, but little more than ``size`` bytes.

    A thread talks to the mirror: no timeout of a library ends a header that drips, or one that
    never ends. What goes wrong is put into words there, because errors of libraries hold addresses.
    """
    import requests

    received: queue.SimpleQueue[bytes | str] = queue.SimpleQueue()
    over = threading.Event()

    def talk() -> None:
        left = size
        try:
            with requests.get(
                address,
                stream=True,
                timeout=(PATIENCE, STALLED),
                headers={'Accept-Encoding': 'identity'},  # it is compressed already
                hooks={'response': _leave_unread},
            ) as response:
                response.raise_for_status()
                # read1 gives what has come; iter_content would wait for the rest of its piece.
                while left >= 0 and not over.is_set() and (piece := response.raw.read1(1 << 16)):
                    left -= len(piece)
                    received.put(piece)
            received.put(b'')
        except Exception as error:
            received.put(_why(error))

    threading.Thread(target=talk, daemon=True).start()
    deadline = time.monotonic() + STALLED
    try:
        while piece := received.get(timeout=max(0.0, deadline - time.monotonic())):
            if isinstance(piece, str):
                raise _Refused(piece)
            deadline += len(piece) / SLOWEST
            yield piece
    except queue.Empty:
        raise _Refused(LATE) from None
    finally:
        over.set()


def _leave_unread(response: requests.Response, **_: object) -> None:
    """Close a redirect: requests would read what it holds, which may have no end, to the end."""
    if response.is_redirect:
        response.close()


def _with_bar(pieces: Iterator[bytes], title: str, size: int) -> Iterator[bytes]:
    from tqdm import tqdm

    first = next(pieces, b'')  # what is refused at once gets no bar
    with tqdm(total=size, desc=title, unit='B', unit_scale=True) as bar:
        for piece in itertools.chain([first], pieces):
            bar.update(len(piece))
            yield piece


def place(path: Path, sha256: str, pieces: Iterable[bytes]) -> None:
    """Put a file where it belongs, whole and verified, or not at all.

    What is there already is not looked at, only replaced: it may be a pipe, or have no end.
    """
    handle, unfinished = tempfile.mkstemp(prefix='tmp', dir=path.parent)
    try:
        now, digest = os.fstat(handle).st_mtime, hashlib.sha256()  # by the clock of the other files
        with open(handle, 'wb') as file:
            for left in path.parent.glob('tmp????????'):
                with contextlib.suppress(OSError):  # another process was faster
                    if now - left.stat().st_mtime > ABANDONED:
                        left.unlink()
            for piece in pieces:
                file.write(piece)
                digest.update(piece)
        if digest.hexdigest() != sha256:
            raise _Refused('sent something else than the published file')
        os.chmod(unfinished, 0o644)  # it was made private; a shared folder is for everybody
        try:
            os.replace(unfinished, path)
        except IsADirectoryError:
            raise OSError(errno.EISDIR, f'{path.name} is a folder there') from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(unfinished)


def _why(error: Exception) -> str:
    """Give a network error in a few words that a reader can act on."""
    from requests import exceptions
    from urllib3.exceptions import HTTPError, TimeoutError

    if isinstance(error, exceptions.SSLError):
        return 'has a certificate that this machine does not trust'
    if isinstance(error, exceptions.ProxyError):
        return 'cannot be reached through the proxy'
    if isinstance(error, (exceptions.Timeout, TimeoutError)):
        return LATE
    if isinstance(error, exceptions.HTTPError):
        return f'answered with HTTP status {error.response.status_code}'
    if isinstance(error, (exceptions.ConnectionError, HTTPError)):
        return 'cannot be reached, or the connection broke'
    return f'failed ({type(error).__name__})'  # its text could hold a password
