"""Load a whole data set into memory, decoded once, and make batches of it."""

from __future__ import annotations

import gzip
import os
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .. import arguments, runtime
from .batches import Batches
from .digits import NUM_TRAIN, digits
from .download import Unavailable, read
from .published import FILES, SETS, folder_of

ARRAYS = 'train_images', 'train_labels', 'test_images', 'test_labels'
# Lists folders whose sets the digits replace, so that child processes need not search again.
STOOD_IN = 'MGPU_DIGITS_STAND_IN_FOR'


class OfflineDataWarning(UserWarning):
    """Warns that the real data are unavailable and scikit-learn's digits are used instead."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """A whole data set in memory; its arrays are uint8, and read-only."""

    name: str  # of the requested set
    train_images: np.ndarray = field(repr=False)  # (60000, 28, 28); 0 the background, 255 the ink
    train_labels: np.ndarray = field(repr=False)  # (60000,); the class of each image, 0 to 9
    test_images: np.ndarray = field(repr=False)  # (10000, 28, 28)
    test_labels: np.ndarray = field(repr=False)  # (10000,)
    label_names: tuple[str, ...]  # the name of each class
    source: str  # 'files', or 'digits' if scikit-learn's replace the real set


_kept: dict[tuple[str, Path], Dataset] = {}


def dataset(name: str) -> Dataset:
    """Return ``'fashion-mnist'`` or ``'mnist'``, decoded once per process and cached.

    It uses the files and folders of ``mxnet.gluon.data.vision``, and accepts its repacked copies of
    Fashion-MNIST. If a set is unavailable, an ``OfflineDataWarning`` says so, scikit-learn's digits
    are used instead, and later calls do not try again.
    """
    arguments.one_of('name', name, tuple(FILES))
    folder = folder_of(name)
    if (name, folder) not in _kept:
        stood_in = os.environ.get(STOOD_IN, '').split(os.pathsep)
        real, arrays = str(folder) not in stood_in, list[np.ndarray]()
        if real:
            try:
                files = read(name)
                arrays = [_decode(files.pop(filename)) for filename in FILES[name]]
                runtime.give_back_memory()  # frees 97 of 151 MB
            except Unavailable as trouble:
                # Before caching the set: if warnings are errors, later calls must fail, too.
                warnings.warn(
                    f"{name} is unavailable; using scikit-learn's digits instead, so pictures "
                    f'and accuracies will differ.\n{trouble}',
                    OfflineDataWarning,
                    stacklevel=2,
                )
                os.environ[STOOD_IN] = os.pathsep.join([*stood_in, str(folder)])
                real = False
        names = SETS[name]['label_names'] if real else '0123456789'
        source = 'files' if real else 'digits'
        X, y, X_test, y_test = arrays or digits()
        _kept[name, folder] = Dataset(name, X, y, X_test, y_test, tuple(names), source)
    return _kept[name, folder]


def home_with_files(name: str, folder: Path) -> Path:
    """Return a folder with a set's files, to be used as ``MXNET_HOME`` by programs that read them.

    It is the usual folder if the files are there or can be fetched. Otherwise the digits are
    written into ``folder`` in the same format, 28 MB.
    """
    loaded, usual = dataset(name), folder_of(name)
    if loaded.source == 'files' and all((usual / filename).exists() for filename in FILES[name]):
        return usual.parent.parent
    (place := folder / 'datasets' / name).mkdir(parents=True)
    for filename, part in zip(FILES[name], ARRAYS, strict=True):
        array = getattr(loaded, part)
        head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, '>u4').tobytes()
        (place / filename).write_bytes(gzip.compress(head + array.tobytes(), 1))
    return folder


def _decode(content: bytes) -> np.ndarray:
    """Decode a gzipped IDX file into an array, a read-only view of its bytes."""
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
) -> tuple[Batches, Batches]:
    """Load a set; return batches of its training examples and of its test examples.

    ``num_examples`` limits the training set to its first examples; the test set is whole and never
    shuffled. All arguments are checked before any data are loaded.
    """
    arguments.one_of('name', name, tuple(FILES))
    arguments.positive_int('batch_size', batch_size)
    arguments.check(seed=seed, dtype=dtype)
    if num_examples is not None:
        arguments.positive_int('num_examples', num_examples, most=NUM_TRAIN)
    loaded = dataset(name)
    images, labels = loaded.train_images[:num_examples], loaded.train_labels[:num_examples]
    train = Batches(images, labels, batch_size, seed, dtype)
    test = Batches(loaded.test_images, loaded.test_labels, batch_size, dtype=dtype, shuffle=False)
    return train, test
