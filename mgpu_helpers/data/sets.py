"""A whole data set in memory, decoded once, and batches of it."""

from __future__ import annotations

import gzip
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .. import checks
from . import fetch
from .batches import Batches, check_dtype, check_last_batch, check_seed
from .catalogue import DIGIT_NAMES, FILES, LABEL_NAMES, folder_of
from .digits import digits

NUM_TRAIN = 60_000
STOOD_IN = 'MGPU_DIGITS_STAND_IN_FOR'  # folders; set for child processes only


class OfflineDataWarning(UserWarning):
    """The real data are not to be had; scikit-learn's digits stand in for them."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """A whole data set in memory; its arrays are read-only.

    Attributes
    ----------
    name : str
        The set that was asked for, 'fashion-mnist' or 'mnist'.
    train_images, test_images : numpy.ndarray
        uint8, shape (60000, 28, 28) and (10000, 28, 28); 0 is the background, 255 the ink.
    train_labels, test_labels : numpy.ndarray
        uint8, shape (60000,) and (10000,); the class of each image, 0 to 9.
    label_names : tuple of str
        The name of each class.
    source : {'files', 'digits'}
        'files' for the real set, 'digits' if the offline digits stand in for it.
    """

    name: str
    train_images: np.ndarray = field(repr=False)
    train_labels: np.ndarray = field(repr=False)
    test_images: np.ndarray = field(repr=False)
    test_labels: np.ndarray = field(repr=False)
    label_names: tuple[str, ...]
    source: str


_kept: dict[tuple[str, Path], Dataset] = {}
_lock = threading.RLock()


def dataset(name: str) -> Dataset:
    """A whole data set, decoded once per process and kept.

    Parameters
    ----------
    name : {'fashion-mnist', 'mnist'}

    Returns
    -------
    Dataset
        The same object on every call, as long as ``MXNET_HOME`` does not change.

    Raises
    ------
    ValueError
        If there is no such set.

    Warns
    -----
    OfflineDataWarning
        Once per process and set, if the digits stand in for it; no second try is made.
    CacheWarning
        If a bad file was replaced, or the folder cannot be written.

    Notes
    -----
    Same files and folders as `mxnet.gluon.data.vision.FashionMNIST` and ``MNIST``, whose own
    repacked copies of Fashion-MNIST count as good, too.

    Examples
    --------
    >>> from mgpu_helpers import data
    >>> fashion = data.dataset('fashion-mnist')
    >>> fashion.train_images.shape, fashion.train_images.dtype
    ((60000, 28, 28), dtype('uint8'))
    """
    _check_name(name)
    key = name, folder_of(name)
    with _lock:
        if key not in _kept:
            try:
                if str(folder_of(name)) in os.environ.get(STOOD_IN, '').split(os.pathsep):
                    _kept[key] = Dataset(name, *digits(), DIGIT_NAMES, 'digits')
                    return _kept[key]
                files = fetch.read(name)
            except fetch.Unavailable as trouble:
                # Before the set is kept: where warnings are errors, no later call is silent.
                fetch.warn(_offline_notice(name, trouble.reasons), OfflineDataWarning)
                _kept[key] = Dataset(name, *digits(), DIGIT_NAMES, 'digits')
            else:
                X, y, X_test, y_test = (_decode(files[filename]) for filename in FILES[name])
                _kept[key] = Dataset(name, X, y, X_test, y_test, LABEL_NAMES[name], 'files')
        return _kept[key]


def environment_for_children() -> dict[str, str]:
    """Environment variables by which a process that this one starts finds the same data.

    Where the digits stand in here and a warning has said so, a child takes them at once: it does
    not look for the files once more, and does not warn once more.

    Returns
    -------
    dict of str to str

    Examples
    --------
    >>> from mgpu_helpers import data
    >>> isinstance(data.environment_for_children(), dict)
    True
    """
    folders = [str(folder) for (_, folder), kept in _kept.items() if kept.source == 'digits']
    return {STOOD_IN: os.pathsep.join(folders)} if folders else {}


def _offline_notice(name: str, reasons: Sequence[str]) -> str:
    """What the reader must know when the digits stand in, and how to get the real data."""
    return '\n'.join(
        [
            f"{name} is not to be had: scikit-learn's handwritten digits stand in for it. "
            'The lessons run, but their pictures and accuracies are those of the digits.',
            'Why:',
            *(f'  - {reason}' for reason in reasons),
            'To get the real data, connect this machine to the internet, or put the four files '
            f'({", ".join(FILES[name])}) into {folder_of(name)}, or set MXNET_HOME '
            f'to a folder that has them in datasets/{name}, or set MGPU_DATA_MIRRORS to the '
            'address of a server that has them; then restart Python (the kernel).',
        ]
    )


def _decode(content: bytes) -> np.ndarray:
    """The array in a gzipped IDX file (read-only: it looks straight into the bytes)."""
    raw = gzip.decompress(content)
    # Two zero bytes, the code of the type (8: uint8), the number of axes; then their lengths.
    axes = raw[3]
    shape = np.frombuffer(raw, '>u4', count=axes, offset=4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * axes).reshape(shape.astype(int))


def load_arrays(
    name: str,
    batch_size: int,
    num_examples: int | None = None,
    seed: int | None = None,
    dtype: str = 'float32',
    last_batch: str = 'keep',
) -> tuple[Batches, Batches]:
    """Batches of the training set and of the test set.

    Parameters
    ----------
    name : {'fashion-mnist', 'mnist'}
    batch_size : int
        Examples per batch, at least 1.
    num_examples : int, optional
        Only the first so many training examples; the test set is always whole.
    seed, dtype, last_batch
        As in `Batches`; the test set is never shuffled and keeps its last batch.

    Returns
    -------
    train_batches, test_batches : Batches
        Each ``iter()`` is one epoch of ``X`` (batch, 1, 28, 28) in [0, 1] and ``y`` (batch,).

    Raises
    ------
    ValueError, TypeError
        If an argument is not as described; before the data are looked for.

    Examples
    --------
    >>> from mgpu_helpers import data
    >>> train, test = data.load_arrays('fashion-mnist', batch_size=100, num_examples=250)
    >>> [len(y) for X, y in train]
    [100, 100, 50]
    """
    _check_name(name)
    checks.positive_int('batch_size', batch_size)
    if num_examples is not None:
        checks.positive_int('num_examples', num_examples)
        if num_examples > NUM_TRAIN:
            raise ValueError(
                f'num_examples must be at most {NUM_TRAIN}, the size of the training set, '
                f'not {num_examples}'
            )
    check_seed(seed)
    check_dtype(dtype)
    check_last_batch(last_batch)
    data = dataset(name)
    train = Batches(
        data.train_images[:num_examples],
        data.train_labels[:num_examples],
        batch_size,
        seed,
        dtype,
        last_batch,
    )
    test = Batches(data.test_images, data.test_labels, batch_size, dtype=dtype, shuffle=False)
    return train, test


def _check_name(name: str) -> None:
    if not isinstance(name, str) or name not in LABEL_NAMES:
        raise ValueError(f"name must be 'fashion-mnist' or 'mnist', got {name!r}")
