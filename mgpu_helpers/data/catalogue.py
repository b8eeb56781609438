"""What the files of the data sets are called, where they belong, and how a good one is told.

``$MXNET_HOME`` (default ``~/.mxnet``) ``/datasets/fashion-mnist`` and ``/mnist`` hold four files
each, as MXNet itself lays them out. ``MGPU_DATA_MIRRORS`` (base addresses with spaces between them,
``{name}`` standing for the set's folder name) replaces the mirrors below, for example by a server
in the classroom.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from pathlib import Path
from typing import NamedTuple

DIGIT_NAMES = tuple('0123456789')
LABEL_NAMES = {
    'fashion-mnist': (
        't-shirt', 'trouser', 'pullover', 'dress', 'coat',
        'sandal', 'shirt', 'sneaker', 'bag', 'ankle boot',
    ),
    'mnist': DIGIT_NAMES,
}  # fmt: skip


class Known(NamedTuple):
    """What a good file looks like: the published one, and MXNet's repacked copy if it differs."""

    size: int
    sha256: str
    repacked_sha1: str = ''


FILES = {
    # SHA-256 of the files whose MD5 Zalando Research publishes; SHA-1 of the copies that
    # mxnet.gluon.data.vision.FashionMNIST asks for (same images, compressed once more).
    'fashion-mnist': {
        'train-images-idx3-ubyte.gz': Known(
            26421880,
            '3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84',
            '0cf37b0d40ed5169c6b3aba31069a9770ac9043d',
        ),
        'train-labels-idx1-ubyte.gz': Known(
            29515,
            'a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845',
            '236021d52f1e40852b06a4c3008d8de8aef1e40b',
        ),
        't10k-images-idx3-ubyte.gz': Known(
            4422102,
            '346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073',
            '626ed6a7c06dd17c0eec72fa3be1740f146a2863',
        ),
        't10k-labels-idx1-ubyte.gz': Known(
            5148,
            '67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5',
            '17f9ab60e7257a1620f4ad76bbbaf857c3920701',
        ),
    },
    # MXNet asks for the published files here (the SHA-1s of these are the ones in its class).
    'mnist': {
        'train-images-idx3-ubyte.gz': Known(
            9912422, '440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609'
        ),
        'train-labels-idx1-ubyte.gz': Known(
            28881, '3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c'
        ),
        't10k-images-idx3-ubyte.gz': Known(
            1648877, '8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6'
        ),
        't10k-labels-idx1-ubyte.gz': Known(
            4542, 'f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6'
        ),
    },
}

MIRRORS = {
    'fashion-mnist': (
        'https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/',
        'https://storage.googleapis.com/tensorflow/tf-keras-datasets/',
        'https://fashion-mnist.s3.eu-central-1.amazonaws.com/',
    ),
    'mnist': (
        'https://ossci-datasets.s3.amazonaws.com/mnist/',
        'https://storage.googleapis.com/cvdf-datasets/mnist/',
    ),
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
    return [m.replace('{name}', name).rstrip('/') + '/' for m in own or MIRRORS[name]]


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
    found = hashlib.sha256(data).hexdigest()
    if found == known.sha256 or hashlib.sha1(data).hexdigest() == known.repacked_sha1:
        return data, None
    return None, (
        f'{expected} with SHA-256 {known.sha256[:16]}..., '
        f'found {len(data):,} bytes with SHA-256 {found[:16]}...'
    )


def stock(name: str, folder: Path | None = None) -> tuple[dict[str, bytes], dict[str, str]]:
    """Give what is there of a set in ``folder``, by default where it belongs.

    That is the content of the good files by name, and what is wrong with the others that are
    there. A file that is in neither is missing.
    """
    content, bad = {}, {}
    for filename, known in FILES[name].items():
        data, trouble = look((folder or folder_of(name)) / filename, known)
        if data is not None:
            content[filename] = data
        elif trouble:
            bad[filename] = trouble
    return content, bad
