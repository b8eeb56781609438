"""Downloads and the cache, with real files from real servers on 127.0.0.1."""

# ruff: noqa: F811 (a fixture that is imported, and asked for by its name)

import errno
import gzip
import hashlib
import os
import re
import socket
import time

import pytest
from serving import (  # noqa: F401
    IMAGES,
    LABELS,
    check_good,
    dead_mirror,
    finish,
    home,
    mirror,
    mnist_files,
    put,
    real_files,
    start,
)

from mgpu_helpers import data
from mgpu_helpers.data import catalogue, fetch

LOAD = 'from mgpu_helpers import data; print(data.dataset("mnist").source)'


@pytest.fixture
def served(mnist_files, monkeypatch):
    """A mirror with MNIST is up; gives the list of what it was asked for."""
    with mirror(mnist_files) as (address, asked):
        monkeypatch.setenv('MGPU_DATA_MIRRORS', address)
        yield asked


def test_download_and_keep(home, served, recwarn, capfd):
    found = data.dataset('mnist')
    assert found.source == 'files' and found.train_labels[:3].tolist() == [5, 0, 4]
    assert sorted(served) == sorted(f'/mnist/{name}' for name in catalogue.FILES['mnist'])
    check_good(home / 'datasets' / 'mnist', 'mnist')
    assert not recwarn.list
    bars = capfd.readouterr().err
    assert f'mnist/{IMAGES}: 100%' in bars and '9.91M/9.91M' in bars
    # The next process finds it there.
    served.clear()
    assert finish(start(LOAD, MXNET_HOME=str(home))) == ('files\n', '')
    assert not served


def test_fashion_mnist_is_downloaded_too(home, monkeypatch):
    with mirror(real_files('fashion-mnist')) as (address, asked):
        monkeypatch.setenv('MGPU_DATA_MIRRORS', address)
        assert data.dataset('fashion-mnist').label_names[9] == 'ankle boot'
    assert len(asked) == 4 and all(path.startswith('/fashion-mnist/') for path in asked)
    check_good(home / 'datasets' / 'fashion-mnist', 'fashion-mnist')


def test_only_what_is_missing_is_downloaded(home, served, mnist_files):
    folder = put(home, 'mnist', {f: c for f, c in mnist_files.items() if f != LABELS})
    assert data.dataset('mnist').source == 'files'
    assert served == [f'/mnist/{LABELS}']
    check_good(folder, 'mnist')


def test_repacked_copies_are_good_and_stay(home, mnist_files, monkeypatch, recwarn):
    """As MXNet's copies of Fashion-MNIST, which are no longer to be had: compressed once more."""
    repacked = gzip.compress(gzip.decompress(mnist_files[LABELS]), 1, mtime=1)
    known = catalogue.FILES['mnist'][LABELS]
    known = known._replace(repacked_sha1=hashlib.sha1(repacked).hexdigest())
    monkeypatch.setitem(catalogue.FILES['mnist'], LABELS, known)
    folder = put(home, 'mnist', {**mnist_files, LABELS: repacked})
    found = data.dataset('mnist')
    assert found.source == 'files' and found.test_labels[:3].tolist() == [7, 2, 1]
    assert (folder / LABELS).read_bytes() == repacked
    assert not recwarn.list


def damaged(content):
    """Three ways for a file to be bad, and the name of each."""
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 1
    return {'truncated': content[:1000], 'corrupt': bytes(flipped), 'wrong': b'<html>moved</html>'}


@pytest.mark.parametrize('kind', ['truncated', 'corrupt', 'wrong'])
def test_bad_file_is_replaced(kind, home, served, mnist_files):
    bad = damaged(mnist_files[LABELS])[kind]
    folder = put(home, 'mnist', {**mnist_files, LABELS: bad})
    with pytest.warns(data.CacheWarning) as caught:
        assert data.dataset('mnist').source == 'files'
    (message,) = [str(w.message) for w in caught]
    assert str(folder / LABELS) in message and 'replaced' in message
    assert 'expected 4,542 bytes with SHA-256 f7ae60f9' in message
    assert f'found {len(bad):,} bytes with SHA-256 {hashlib.sha256(bad).hexdigest()[:8]}' in message
    assert caught[0].filename == __file__
    assert served == [f'/mnist/{LABELS}']
    check_good(folder, 'mnist')


@pytest.mark.parametrize('kind', ['truncated', 'corrupt', 'wrong'])
def test_bad_file_without_network_is_named_and_left(kind, home, mnist_files):
    bad = damaged(mnist_files[LABELS])[kind]
    folder = put(home, 'mnist', {**mnist_files, LABELS: bad})
    with pytest.warns(data.OfflineDataWarning) as caught:
        assert data.dataset('mnist').source == 'digits'
    (message,) = [str(w.message) for w in caught]
    assert f'{folder / LABELS} is not the published file: expected 4,542 bytes' in message
    assert f'found {len(bad):,} bytes' in message and 'cannot be reached' in message
    assert (folder / LABELS).read_bytes() == bad
    assert sorted(p.name for p in folder.iterdir()) == sorted(mnist_files)


def test_second_mirror_answers(home, mnist_files, monkeypatch, recwarn):
    with dead_mirror() as dead, mirror(mnist_files) as (address, asked):
        monkeypatch.setenv('MGPU_DATA_MIRRORS', f'{dead} {address}')
        assert data.dataset('mnist').source == 'files'
    assert len(asked) == 4 and not recwarn.list


def test_mirror_that_never_answers(home, mnist_files, monkeypatch):
    monkeypatch.setattr(fetch, 'PATIENCE', 0.3)  # as in the package, but sooner
    with socket.create_server(('127.0.0.1', 0)) as deaf, mirror(mnist_files) as (address, _):
        silent = f'http://127.0.0.1:{deaf.getsockname()[1]}/'
        monkeypatch.setenv('MGPU_DATA_MIRRORS', silent)
        with pytest.warns(data.OfflineDataWarning, match=f'{silent} did not answer'):
            assert data.dataset('mnist').source == 'digits'
        monkeypatch.setattr(data, '_kept', {})
        monkeypatch.setenv('MGPU_DATA_MIRRORS', f'{silent} {address}')
        assert data.dataset('mnist').source == 'files'


@pytest.mark.parametrize('kind', ['truncated', 'corrupt', 'wrong', 'missing'])
def test_mirror_with_wrong_files(kind, home, mnist_files, monkeypatch):
    wrong = {f: damaged(c).get(kind) for f, c in mnist_files.items()}
    folder = home / 'datasets' / 'mnist'
    with mirror(wrong) as (bad, asked_bad), mirror(mnist_files) as (good, asked_good):
        monkeypatch.setenv('MGPU_DATA_MIRRORS', bad)
        with pytest.warns(data.OfflineDataWarning, match=re.escape(bad.replace('{name}', ''))) as w:
            assert data.dataset('mnist').source == 'digits'
        said = 'HTTP status 404' if kind == 'missing' else 'something else than the published file'
        assert said in str(w[0].message)
        assert asked_bad and not list(folder.iterdir())
        # With a good one beside it, whichever answers first.
        monkeypatch.setattr(data, '_kept', {})
        monkeypatch.setenv('MGPU_DATA_MIRRORS', f'{bad} {good}')
        assert data.dataset('mnist').source == 'files'
        assert len(asked_good) == 4
    check_good(folder, 'mnist')


def test_connection_that_breaks(home, mnist_files, monkeypatch):
    class Short(bytes):
        """Announced in full, sent by half."""

        def __getitem__(self, part):
            return bytes(self)[part][: len(self) // 2]

    broken = {f: Short(c) for f, c in mnist_files.items()}
    with mirror(broken) as (address, _):
        monkeypatch.setenv('MGPU_DATA_MIRRORS', address)
        with pytest.warns(data.OfflineDataWarning):
            assert data.dataset('mnist').source == 'digits'
    assert not list((home / 'datasets' / 'mnist').iterdir())


def test_failed_set_is_not_tried_again(home, served, monkeypatch):
    good = os.environ['MGPU_DATA_MIRRORS']
    with dead_mirror() as dead:
        monkeypatch.setenv('MGPU_DATA_MIRRORS', dead)
        with pytest.warns(data.OfflineDataWarning) as caught:
            found = data.dataset('mnist')
            monkeypatch.setenv('MGPU_DATA_MIRRORS', good)
            assert data.dataset('mnist') is found
    assert len(caught) == 1 and not served


@pytest.mark.parametrize('value', ['ftp://127.0.0.1/', 'mirror.example.org', 'https//x'])
def test_bad_mirror_address(value, home, monkeypatch):
    monkeypatch.setenv('MGPU_DATA_MIRRORS', f'http://127.0.0.1:1/ {value}')
    with pytest.raises(ValueError, match=f'MGPU_DATA_MIRRORS .* {re.escape(repr(value))}'):
        data.dataset('mnist')
    assert not home.exists()


def test_two_processes_start_at_once(home, mnist_files):
    # Slow enough that both are in the middle of it at the same time.
    with mirror(mnist_files, piece=400_000) as (address, asked):
        both = [start(LOAD, MGPU_DATA_MIRRORS=address) for _ in range(2)]
        assert [finish(process)[0] for process in both] == ['files\n'] * 2
    assert asked.count(f'/mnist/{IMAGES}') == 2
    check_good(home / 'datasets' / 'mnist', 'mnist')


def test_killed_download(home, served, mnist_files):
    folder = home / 'datasets' / 'mnist'
    with mirror(mnist_files, piece=10_000) as (address, _):
        process = start(LOAD, MGPU_DATA_MIRRORS=address)
        deadline = time.monotonic() + 30
        while not any(p.stat().st_size for p in folder.glob('.download-*/*')):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        process.kill()
        process.communicate()
    left = list(folder.iterdir())
    assert [p.name.startswith('.download-') for p in left] == [True]  # no file in place
    assert data.dataset('mnist').source == 'files'
    # What the killed one left might belong to a living process; after an hour it goes.
    assert left[0].exists()
    (folder / LABELS).unlink()
    for path in [*left[0].iterdir(), left[0]]:
        os.utime(path, (time.time() - 7200,) * 2)
    assert finish(start(LOAD))[0] == 'files\n'
    check_good(folder, 'mnist')


def test_cache_that_cannot_be_written(home, served, tmp_path, monkeypatch):
    (tmp_path / 'file').write_text('not a folder')
    monkeypatch.setenv('MXNET_HOME', str(tmp_path / 'file' / 'x'))
    with pytest.warns(data.CacheWarning) as caught:
        assert data.dataset('mnist').source == 'files'
    (message,) = [str(w.message) for w in caught]
    assert str(tmp_path / 'file' / 'x' / 'datasets' / 'mnist') in message
    assert 'set MXNET_HOME to a folder that you can write' in message
    assert (tmp_path / 'file').read_text() == 'not a folder'


def test_cache_that_cannot_be_written_without_network(home, tmp_path, monkeypatch):
    (tmp_path / 'file').write_text('not a folder')
    monkeypatch.setenv('MXNET_HOME', str(tmp_path / 'file' / 'x'))
    with pytest.warns(data.OfflineDataWarning) as caught:
        assert data.dataset('mnist').source == 'digits'
    (message,) = [str(w.message) for w in caught]
    assert f'{tmp_path / "file" / "x"}' in message and 'set MXNET_HOME to a folder' in message
    assert 'cannot be reached' in message


def test_no_space(home, served):
    """A limit on the size of files stands for a full disk: the write itself fails."""
    limit = 'import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)); '
    out, err = finish(start(limit + LOAD))
    assert out == 'digits\n'
    assert err.count('OfflineDataWarning') == 1 and os.strerror(errno.EFBIG) in err
    assert f'{home / "datasets" / "mnist"} cannot take the files of mnist' in err
    assert 'set MXNET_HOME to a folder that you can write' in err
    assert not list((home / 'datasets' / 'mnist').iterdir())


def test_a_folder_in_place_of_a_file(home, served, mnist_files):
    folder = put(home, 'mnist', {f: c for f, c in mnist_files.items() if f != LABELS})
    (folder / LABELS).mkdir()
    with pytest.warns(data.CacheWarning, match='cannot take the files'):
        assert data.dataset('mnist').source == 'files'
    assert (folder / LABELS).is_dir()
