"""Which libraries a library is linked with, read from its file, since loading it is what fails."""

from __future__ import annotations

import importlib.machinery
import mmap
import os
import struct
from pathlib import Path

PT_LOAD, PT_DYNAMIC = 1, 2
DT_NULL, DT_NEEDED, DT_STRTAB = 0, 1, 5


def find_libmxnet() -> Path:
    """Find MXNet's library without importing MXNet.

    Returns
    -------
    pathlib.Path

    Raises
    ------
    FileNotFoundError
        If it is not there.

    Examples
    --------
    >>> find_libmxnet().name
    'libmxnet.so'
    """
    spec = importlib.machinery.PathFinder.find_spec('mxnet')
    folders = (spec and spec.submodule_search_locations) or []
    places = [Path(folder) / 'libmxnet.so' for folder in folders]
    if 'MXNET_LIBRARY_PATH' in os.environ:  # which MXNet asks first
        places.insert(0, Path(os.environ['MXNET_LIBRARY_PATH']))
    for place in places:
        if place.is_file():
            return place
    raise FileNotFoundError(f'libmxnet.so is not in {", ".join(folders) or "any mxnet folder"}')


def needed(library: Path) -> list[str]:
    """List the libraries that a 64-bit ELF library is linked with.

    Parameters
    ----------
    library : pathlib.Path

    Returns
    -------
    list of str
        As its dynamic section names them.

    Raises
    ------
    ValueError
        If it is no such library.

    Examples
    --------
    >>> 'libc.so.6' in needed(find_libmxnet())
    True
    """
    with open(library, 'rb') as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        if text[:6] != b'\x7fELF\x02\x01':
            raise ValueError(f'{library} is no 64-bit ELF library')
        try:
            return _needed(text)
        except (struct.error, StopIteration) as error:
            raise ValueError(f'{library} is damaged: it has no dynamic section') from error


def _needed(text: mmap.mmap) -> list[str]:
    (start,) = struct.unpack_from('<Q', text, 32)
    size, count = struct.unpack_from('<HH', text, 54)
    # Of each segment: its type, and where it lies in the file and in memory.
    segments = [struct.unpack_from('<IIQQQQ', text, start + i * size) for i in range(count)]
    dynamic = next(offset for kind, _, offset, *_ in segments if kind == PT_DYNAMIC)
    entries: list[tuple[int, int]] = []
    while not entries or entries[-1][0] != DT_NULL:
        entries.append(struct.unpack_from('<qQ', text, dynamic + 16 * len(entries)))
    strings = next(value for tag, value in entries if tag == DT_STRTAB)
    strings = next(
        strings - address + offset
        for kind, _, offset, address, _, length in segments
        if kind == PT_LOAD and address <= strings < address + length
    )
    places = [strings + value for tag, value in entries if tag == DT_NEEDED]
    return [text[place : text.find(b'\0', place)].decode() for place in places]
