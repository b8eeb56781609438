"""Download and verify what is missing of a data set (for `mgpu_helpers.data`).

A file counts only if its checksum is known (``catalogue``). What is missing or wrong
is downloaded from the mirror that answers first, checked, and renamed into place, so that the
folder never shows a half-written file: not to a second notebook that starts at the same time,
and not after a killed download.
"""

from __future__ import annotations

import logging
import os
import queue
import shutil
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .catalogue import FILES, folder_of, mirrors_of, stock

# How long we wait for any mirror to answer. All are asked at the same time, so this is also how
# long a machine whose network swallows packets waits for the digits. With no network at all the
# refusal is immediate: 0.2 s measured, and that is the import of pooch and requests.
PATIENCE = 5.0
# A mirror that stops sending for this long in the middle of a file has failed.
STALLED = 20.0
# Each download works in a folder of its own with this prefix. One that nobody has written to
# for an hour was left by a killed process.
WORKSHOP = '.download-'
ABANDONED = 3600.0


class CacheWarning(UserWarning):
    """A bad file was replaced, or the folder for the data sets cannot be written."""


class Unavailable(Exception):
    """The set is neither on this machine nor to be had from a mirror; `reasons` says why."""

    def __init__(self, reasons: list[str]) -> None:
        super().__init__('; '.join(reasons))
        self.reasons = reasons


def read(name: str) -> dict[str, bytes]:
    """The verified content of the four files of a set, downloaded where necessary.

    Parameters
    ----------
    name : {'fashion-mnist', 'mnist'}

    Returns
    -------
    dict of str to bytes
        File name to (compressed) content. The bytes returned are the bytes that were verified.

    Raises
    ------
    Unavailable
        If a file is missing or wrong and no mirror delivers it; a bad file is then left as it is.

    Warns
    -----
    CacheWarning
        If a bad file was replaced, or the folder cannot be written and the download serves
        this process only.
    """
    folder = folder_of(name)
    content, bad = stock(name)
    wanted = [filename for filename in FILES[name] if filename not in content]
    if not wanted:
        return content

    mirrors = mirrors_of(name)
    reasons: list[str] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _sweep(folder)
        content.update(_download(name, wanted, mirrors, folder, reasons))
        no_room = None
    except OSError as error:
        no_room = f'{folder} cannot take the files of {name} ({error})'
        reasons.append(f'{no_room}; set MXNET_HOME to a folder that you can write')
        try:
            with tempfile.TemporaryDirectory(prefix='mgpu-') as private:
                content.update(_download(name, wanted, mirrors, Path(private), reasons))
        except OSError as error:
            reasons.append(f'no temporary folder can take them either ({error})')

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
    """Warn at the line outside this package that led here: the one the reader can see."""
    package = os.path.join(os.path.dirname(__file__), '')
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_code.co_filename.startswith(package):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _sweep(folder: Path) -> None:
    """Remove what downloads that were killed more than an hour ago have left behind."""
    for left in folder.glob(WORKSHOP + '*'):
        try:
            newest = max(p.stat().st_mtime for p in [left, *left.iterdir()])
        except OSError:  # another process was faster
            continue
        if time.time() - newest > ABANDONED:
            shutil.rmtree(left, ignore_errors=True)


def _answering(mirrors: Sequence[str], filename: str, reasons: list[str]) -> Iterator[str]:
    """Yield the mirrors in the order in which they answer; note why the others did not.

    Asked one after the other, three mirrors with up to eight addresses each would take minutes
    to fail behind a firewall that swallows packets (a connect timeout holds per address).
    """
    import requests

    answers: queue.SimpleQueue[tuple[str, str | None]] = queue.SimpleQueue()

    def ask(mirror: str) -> None:
        try:
            requests.head(mirror + filename, timeout=PATIENCE, allow_redirects=True)
        except Exception as error:
            answers.put((mirror, _why(error)))
        else:
            answers.put((mirror, None))

    for mirror in mirrors:
        threading.Thread(target=ask, args=(mirror,), daemon=True).start()
    silent = list(mirrors)
    deadline = time.monotonic() + PATIENCE
    while silent:
        try:
            mirror, trouble = answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        silent.remove(mirror)
        if trouble:
            reasons.append(f'{mirror} {trouble}')
        else:
            yield mirror
    reasons.extend(f'{mirror} did not answer within {PATIENCE:.0f} s' for mirror in silent)


def _download(
    name: str, wanted: Sequence[str], mirrors: Sequence[str], folder: Path, reasons: list[str]
) -> dict[str, bytes]:
    """Bring the `wanted` files into `folder`, as far as the mirrors have them.

    Returns their content by name and appends to `reasons` why a mirror did not serve.
    An `OSError` that leaves this function is about the folder, never about the network.
    """
    import pooch
    from requests.exceptions import RequestException

    todo, done = list(wanted), {}
    logger = pooch.get_logger()  # it would print the names of temporary files
    level = logger.level
    with tempfile.TemporaryDirectory(prefix=WORKSHOP, dir=folder) as workshop:
        logger.setLevel(logging.WARNING)
        try:
            for mirror in _answering(mirrors, todo[0], reasons):
                try:
                    while todo:
                        done[todo[0]] = _retrieve(mirror, name, todo[0], workshop, folder)
                        del todo[0]
                    break
                except (RequestException, ValueError) as error:
                    reasons.append(f'{mirror}{todo[0]} {_why(error)}')
        finally:
            logger.setLevel(level)
    return done


def _retrieve(mirror: str, name: str, filename: str, workshop: str, folder: Path) -> bytes:
    """One file: downloaded and verified in `workshop`, then renamed into `folder`."""
    import pooch

    with _Progress(f'{name}/{filename}') as progress:
        path = pooch.retrieve(
            mirror + filename,
            known_hash='sha256:' + FILES[name][filename].sha256,
            fname=filename,
            path=workshop,
            downloader=pooch.HTTPDownloader(
                progressbar=progress,
                chunk_size=1 << 16,
                timeout=(PATIENCE, STALLED),
                # The file is compressed already: ask for it as it is.
                headers={'Accept-Encoding': 'identity'},
            ),
        )
    data = Path(path).read_bytes()
    _put(path, folder / filename)
    return data


def keep(content: dict[str, bytes], folder: Path) -> None:
    """Write verified files into `folder`, each of them whole or not at all.

    Parameters
    ----------
    content : dict of str to bytes
        By file name.
    folder : pathlib.Path
        Made where it is missing; a file of the same name is replaced.

    Raises
    ------
    OSError
        If the folder cannot be written or is full.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _sweep(folder)
    with tempfile.TemporaryDirectory(prefix=WORKSHOP, dir=folder) as workshop:
        for filename, data in content.items():
            path = Path(workshop, filename)
            path.write_bytes(data)
            _put(path, folder / filename)


def _put(path: str | Path, target: Path) -> None:
    os.chmod(path, 0o644)  # it was made private; a shared folder is for everybody
    os.replace(path, target)


def _why(error: Exception) -> str:
    """A network error in a few words that a reader can act on."""
    from requests import exceptions

    if isinstance(error, exceptions.SSLError):
        return 'has a certificate that this machine does not trust'
    if isinstance(error, exceptions.ProxyError):
        return 'cannot be reached through the proxy'
    if isinstance(error, exceptions.Timeout):
        return 'did not answer in time'
    if isinstance(error, exceptions.HTTPError):
        return f'answered with HTTP status {error.response.status_code}'
    if isinstance(error, (exceptions.ConnectionError, exceptions.ChunkedEncodingError)):
        return 'cannot be reached, or the connection broke'
    if isinstance(error, exceptions.RequestException):
        return f'failed ({error})'
    return 'sent something else than the published file'


class _Progress:
    """The progress bar that pooch moves; drawn with the first bytes, so a dead mirror has none."""

    def __init__(self, title: str) -> None:
        self.title, self.total = title, 0
        self.bar: Any = None

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def update(self, count: int) -> None:
        if self.bar is None:
            from tqdm import tqdm

            self.bar = tqdm(
                total=self.total or None, desc=self.title, unit='B', unit_scale=True, leave=True
            )
        # pooch counts its last, shorter piece as a whole one.
        room = self.total - self.bar.n if self.total else count
        self.bar.update(min(count, room))

    def reset(self) -> None:
        """Pooch starts the bar again when the file is complete; ours is already full."""

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
