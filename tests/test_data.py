"""The sets as a reader gets them: the real ones, and the digits that stand in for them."""

import gzip
import hashlib
import re
import warnings
from importlib import metadata

import numpy as np
import pytest
from examining import needs_mxnet
from serving import finish, put, real_files, start

from mgpu_helpers import data
from mgpu_helpers.data import published
from mgpu_helpers.data.digits import digits
from mgpu_helpers.runtime import installed_builds

# What is known of the real sets: the first labels, and the mean pixel that many programs subtract.
FACTS = {
    'fashion-mnist': ([9, 0, 0, 3, 0, 2, 7, 2, 5, 5], 0.2860),
    'mnist': ([5, 0, 4, 1, 9, 2, 1, 3, 1, 4], 0.1307),
}
# Zalando Research's own list, in the order of our table.
PUBLISHED_MD5 = (
    '8d4fb7e6c68d591d4c3dfef9ec88bf0d 25c81989df183df01b3e8a0aad5dffbe '
    'bef4ecab320f06d8554ea6380940ec79 bb300cfdad3c16e7a12a480ee83cd310'
).split()
# Of all bytes of the digits; found with NumPy 1.23 and 2.4, scikit-learn 1.7 and 1.9.
DIGITS_SHA256 = '161f1b782f63486e354db1609c3bde674eda791b3b086920af6677446e063972'


def halves(mnist):
    return (mnist.train_images, mnist.train_labels), (mnist.test_images, mnist.test_labels)


def check_form(dataset):
    for (images, labels), count in zip(halves(dataset), (60_000, 10_000), strict=True):
        assert images.shape == (count, 28, 28) and labels.shape == (count,)
        assert images.dtype == labels.dtype == np.uint8
        assert images.max() == 255 and set(labels.tolist()) == set(range(10))
        assert not images.flags.writeable and not labels.flags.writeable
    assert len(dataset.label_names) == 10


@pytest.mark.parametrize('name', FACTS)
def test_real_set(name, recwarn):
    real_files(name)
    dataset, (first, mean) = data.dataset(name), FACTS[name]
    check_form(dataset)
    assert dataset.source == 'files' and dataset.name == name and data.dataset(name) is dataset
    assert dataset.train_labels[:10].tolist() == first
    assert dataset.train_images.mean() / 255 == pytest.approx(mean, abs=5e-5)
    assert dataset.label_names[first[0]] == ('ankle boot' if name == 'fashion-mnist' else '5')
    assert not recwarn.list


@needs_mxnet
def test_table_names_the_published_files_and_mxnets():
    """MXNet's are read from its source, so that this needs no import of MXNet."""
    content, files = real_files('fashion-mnist'), published.FILES['fashion-mnist']
    assert [hashlib.md5(content[filename]).hexdigest() for filename in files] == PUBLISHED_MD5
    assert [len(content[filename]) for filename in files] == [k.size for k in files.values()]
    mxnet = metadata.distribution(installed_builds()[0])
    source = mxnet.locate_file('mxnet/gluon/data/vision/datasets.py')
    pairs = re.findall(r"\('(\S+-ubyte\.gz)',\s*'([0-9a-f]{40})'\)", source.read_text())
    mnist, fashion = dict(pairs[:4]), dict(pairs[4:])
    assert fashion == {f: known.repacked_sha1 for f, known in files.items()}
    assert mnist == {f: hashlib.sha1(c).hexdigest() for f, c in real_files('mnist').items()}


def test_digits_for_testing_come_from_other_originals():
    """Moved back into the corner, the variants of one original are the same image again."""

    def originals(images):
        rows, columns = images.any(axis=2).argmax(axis=1), images.any(axis=1).argmax(axis=1)
        down, right = ((np.arange(28) + first[:, None]) % 28 for first in (rows, columns))
        images = np.take_along_axis(images, down[:, :, None], axis=1)
        images = np.take_along_axis(images, right[:, None, :], axis=2)
        return {image.tobytes() for image in images}

    train_images, _, test_images, _ = digits()
    train, test = originals(train_images), originals(test_images)
    assert not train & test
    assert len(train) + len(test) == 5 * 1797  # 1,797 digits in five sizes each


def sha256(dataset):
    arrays = (array.tobytes() for half in halves(dataset) for array in half)
    return hashlib.sha256(b''.join(arrays)).hexdigest()


def test_digits_are_announced_once_and_always_the_same(home, monkeypatch):
    code = (
        'from mgpu_helpers import data; from test_data import sha256\n'
        'for name in ["fashion-mnist", "fashion-mnist", "mnist", "fashion-mnist"]:\n'
        '    print(data.dataset(name).source, sha256(data.dataset(name)))\n'
        'import os; print(os.environ["MGPU_DIGITS_STAND_IN_FOR"])'
    )
    out, err = finish(start('-c', code))
    *sets, children = out.splitlines()
    assert sets == [f'digits {DIGITS_SHA256}'] * 4
    for name in ('fashion-mnist', 'mnist'):
        assert err.count(f'OfflineDataWarning: {name} is unavailable; using') == 1
    # What a process knows, those that it starts need not find out and say again.
    monkeypatch.setenv('MGPU_DIGITS_STAND_IN_FOR', children)
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        assert data.dataset('mnist').source == 'digits'


def test_programs_that_know_files_alone_get_the_set_or_what_stands_in(home, mnist_files, tmp_path):
    folder = put(home, 'mnist', mnist_files)
    assert data.home_with_files('mnist', tmp_path / 'none') == home
    (folder / 'train-labels-idx1-ubyte.gz').unlink()  # decoded, but not kept
    with pytest.warns(data.OfflineDataWarning):
        data.dataset('fashion-mnist')
    for name in ('mnist', 'fashion-mnist'):
        assert data.home_with_files(name, tmp_path / 'own') == tmp_path / 'own'
        arrays = [array for half in halves(data.dataset(name)) for array in half]
        for filename, array in zip(published.FILES[name], arrays, strict=True):
            content = gzip.open(tmp_path / 'own/datasets' / name / filename).read()
            assert content[-array.nbytes :] == array.tobytes()
            # Two zero bytes, the code of the type, the axes; then the length of each.
            assert content[:4] == bytes([0, 0, 8, array.ndim])
            assert np.frombuffer(content[4 : -array.nbytes], '>u4').tolist() == [*array.shape]


def test_where_the_warning_is_an_error_no_silence_follows(home):
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        for _ in range(2):
            with pytest.raises(data.OfflineDataWarning):
                data.dataset('mnist')


def test_home_is_found_as_mxnet_finds_it(monkeypatch, tmp_path):
    monkeypatch.setenv('HOME', str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv('MXNET_HOME', raising=False)
    default = tmp_path / '.mxnet' / 'datasets' / 'mnist'
    assert published.folder_of('mnist') == default
    for value in ('', '~/.mxnet', '.mxnet'):
        monkeypatch.setenv('MXNET_HOME', value)
        assert published.folder_of('mnist') == default
