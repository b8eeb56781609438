"""Download and verify what is missing of a data set.

A file counts only if its checksum is known (``catalogue``). What is missing or wrong is downloaded
from the mirror that answers first; pooch writes to a temporary file, verifies it and renames it, so
that the folder never shows a half-written file: not to a second notebook that starts at the same
time, and not after a killed download.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from .catalogue import FILES, folder_of, mirrors_of, public, stock

# How long we wait for any mirror to answer. All are asked at the same time, so this is also how
# long a machine whose network swallows packets waits for the digits. With no network at all the
# refusal is immediate: 0.2 s measured, and that is the import of pooch and requests.
PATIENCE = 5.0
# A mirror fails that sends nothing for STALLED seconds in the middle of a file, or needs LONGEST
# for the whole of it (26 MB at 44 kB/s).
STALLED, LONGEST = 20.0, 600.0
ABANDONED = 3600.0  # a temporary file to which nobody has written for so long: of a killed process


class CacheWarning(UserWarning):
    """A bad file was replaced, or the folder for the data sets cannot be written."""


class Unavailable(Exception):
    """The set is neither on this machine nor to be had from a mirror; ``reasons`` says why."""

    def __init__(self, reasons: list[str]) -> None:
        super().__init__('; '.join(reasons))
        self.reasons = reasons


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
        no_room = f'{folder} cannot take the files of {name} ({_matter(error)})'
        reasons.append(f'{no_room}; set MXNET_HOME to a folder that you can write')
        try:
            with tempfile.TemporaryDirectory(prefix='mgpu-') as private:
                _download(name, wanted, mirrors, Path(private), reasons)
                content |= stock(name, Path(private))[0]
        except OSError as error:
            reasons.append(f'no temporary folder can take them either ({_matter(error)})')

    if not no_room:
        for filename in bad.keys() & content.keys():
            warn(f'{bad[filename]}. It was replaced by a verified download.', CacheWarning)
    if len(content) < len(FILES[name]):
        raise Unavailable([bad[f] for f in wanted if f in bad and f not in content] + reasons)
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
    name: str, wanted: Sequence[str], mirrors: Sequence[str], folder: Path, reasons: list[str]
) -> None:
    """Bring files into ``folder``, as far as mirrors have them; note why a mirror did not serve.

    An ``OSError`` that leaves this function is about the folder, never about the network.
    """
    from requests.exceptions import RequestException
    from urllib3.exceptions import HTTPError

    todo = list(wanted)
    for mirror in _answering(mirrors, todo[0], reasons):
        try:
            while todo:
                _retrieve(mirror, name, todo[0], folder)
                del todo[0]
            return
        except (RequestException, HTTPError, ValueError) as error:
            reasons.append(f'{public(mirror)}{todo[0]} {_why(error)}')


def _retrieve(mirror: str, name: str, filename: str, folder: Path) -> None:
    import requests
    from tqdm import tqdm

    known = FILES[name][filename]

    def save(path: Path) -> None:
        deadline = time.monotonic() + LONGEST
        with (
            requests.get(
                mirror + filename,
                stream=True,
                timeout=(PATIENCE, STALLED),
                headers={'Accept-Encoding': 'identity'},  # it is compressed already
            ) as response,
            open(path, 'wb') as file,
        ):
            response.raise_for_status()
            with tqdm(
                total=known.size, desc=f'{name}/{filename}', unit='B', unit_scale=True
            ) as bar:
                # read1 gives what has come; iter_content would wait for the rest of its piece.
                while chunk := response.raw.read1(1 << 16):
                    bar.update(file.write(chunk))
                    if bar.n > known.size:
                        return  # it is not the file: pooch refuses it
                    if time.monotonic() > deadline:
                        raise requests.Timeout

    place(filename, folder, known.sha256, save)


def place(filename: str, folder: Path, sha256: str, save: Callable[[Path], object]) -> None:
    """Put a file into ``folder``, whole or not at all: ``save`` writes it, pooch verifies it."""
    import pooch

    for left in folder.glob('tmp????????'):  # pooch's name for a file that is not complete
        with contextlib.suppress(OSError):  # another process was faster
            if time.time() - left.stat().st_mtime > ABANDONED:
                left.unlink()
    logger = pooch.get_logger()  # it would print the names of temporary files
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        path = pooch.retrieve(
            filename,
            known_hash=f'sha256:{sha256}',
            fname=filename,
            path=folder,
            downloader=lambda url, output, pooch: save(Path(output)),
        )
        os.chmod(path, 0o644)  # it was made private; a shared folder is for everybody
    finally:
        logger.setLevel(level)


def _matter(error: OSError) -> str:
    return error.strerror or 'it cannot be written'  # pooch's PermissionError has a story instead


def _why(error: Exception) -> str:
    """Give a network error in a few words that a reader can act on."""
    from requests import exceptions
    from urllib3.exceptions import HTTPError, TimeoutError

    if isinstance(error, exceptions.SSLError):
        return 'has a certificate that this machine does not trust'
    if isinstance(error, exceptions.ProxyError):
        return 'cannot be reached through the proxy'
    if isinstance(error, (exceptions.Timeout, TimeoutError)):
        return 'did not answer, or did not send the whole file, in time'
    if isinstance(error, exceptions.HTTPError):
        return f'answered with HTTP status {error.response.status_code}'
    if isinstance(error, (exceptions.ConnectionError, HTTPError)):
        return 'cannot be reached, or the connection broke'
    if isinstance(error, exceptions.RequestException):
        return f'failed ({type(error).__name__})'  # its text could hold a password
    return 'sent something else than the published file'
