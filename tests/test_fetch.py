"""Downloads and the cache, with real files from real servers on 127.0.0.1."""

import errno
import gzip
import hashlib
import os
import re
import socket
import time

import pytest
from serving import IMAGES, LABELS, check_good, dead_mirror, finish, mirror, put, start

from mgpu_helpers import data
from mgpu_helpers.data import catalogue, fetch, sets

LOAD = '-c', 'from mgpu_helpers import data; print(data.dataset("mnist").source)'


@pytest.fixture(scope='module')
def server(mnist_files):
    with mirror(mnist_files) as (address, asked):
        yield address, asked


@pytest.fixture
def served(server, monkeypatch):
    """A mirror with MNIST is up; gives the list of what it was asked for."""
    address, asked = server
    monkeypatch.setenv('MGPU_DATA_MIRRORS', address)
    asked.clear()
    return asked


def digits_instead():
    """Ask for MNIST, which is not to be had; give the one warning."""
    with pytest.warns(data.OfflineDataWarning) as caught:
        assert data.dataset('mnist').source == 'digits'
    (message,) = [str(w.message) for w in caught]
    return message


def test_download_and_keep(home, served, recwarn, capfd):
    found = data.dataset('mnist')
    assert found.source == 'files' and found.train_labels[:3].tolist() == [5, 0, 4]
    assert sorted(served) == sorted(f'/mnist/{name}' for name in catalogue.FILES['mnist'])
    check_good(home / 'datasets' / 'mnist', 'mnist')
    assert not recwarn.list
    bars = capfd.readouterr().err
    assert f'mnist/{IMAGES}: 100%' in bars and '9.91M/9.91M' in bars and 'tmp' not in bars
    # The next process finds it there.
    served.clear()
    assert finish(start(*LOAD)) == ('files\n', '')
    assert not served


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
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 1
    return {'truncated': content[:1000], 'corrupt': bytes(flipped), 'wrong': b'<html>moved</html>'}


@pytest.mark.parametrize('kind', ['truncated', 'corrupt', 'wrong'])
def test_a_bad_file_is_named_and_left_without_a_network_and_replaced_with_one(
    kind, home, server, mnist_files, monkeypatch
):
    bad = damaged(mnist_files[LABELS])[kind]
    folder = put(home, 'mnist', {**mnist_files, LABELS: bad})
    found = f'found {len(bad):,} bytes with SHA-256 {hashlib.sha256(bad).hexdigest()[:8]}'
    message = digits_instead()
    assert f'{folder / LABELS} is not the published file: expected 4,542 bytes' in message
    assert found in message and 'cannot be reached' in message
    assert (folder / LABELS).read_bytes() == bad and len(list(folder.iterdir())) == 4

    monkeypatch.setattr(sets, '_kept', {})
    monkeypatch.setenv('MGPU_DATA_MIRRORS', server[0])
    server[1].clear()
    with pytest.warns(data.CacheWarning) as caught:
        assert data.dataset('mnist').source == 'files'
    (message,) = [str(w.message) for w in caught]
    assert str(folder / LABELS) in message and 'replaced' in message
    assert 'expected 4,542 bytes with SHA-256 f7ae60f9' in message and found in message
    assert caught[0].filename == __file__
    assert server[1] == [f'/mnist/{LABELS}']
    check_good(folder, 'mnist')


def test_what_is_no_file_or_far_too_large_is_not_read(home, mnist_files):
    folder = put(home, 'mnist', {f: c for f, c in mnist_files.items() if f != LABELS})
    os.mkfifo(folder / LABELS)  # whoever reads it waits for ever
    with open(folder / IMAGES, 'wb') as file:
        file.truncate(10**12)
    _, bad = catalogue.stock('mnist')
    assert f'{folder / LABELS} is no regular file' in bad[LABELS]
    assert 'expected 9,912,422 bytes, found 1,000,000,000,000 bytes' in bad[IMAGES]


def test_mirrors_that_are_not_there_or_never_answer(home, served, monkeypatch, recwarn):
    monkeypatch.setattr(fetch, 'PATIENCE', 0.3)  # as in the package, but sooner
    good = os.environ['MGPU_DATA_MIRRORS']
    with dead_mirror() as dead, socket.create_server(('127.0.0.1', 0)) as deaf:
        silent = f'http://127.0.0.1:{deaf.getsockname()[1]}/'
        monkeypatch.setenv('MGPU_DATA_MIRRORS', f'{dead} {silent}')
        message = digits_instead()
        assert f'{silent} did not answer' in message and f'{dead} cannot be reached' in message
        # They are not tried again; in another process, a third one serves.
        monkeypatch.setattr(fetch, 'PATIENCE', 60)
        monkeypatch.setenv('MGPU_DATA_MIRRORS', f'{dead} {silent} {good}')
        assert data.dataset('mnist').source == 'digits' and not served
        monkeypatch.setattr(sets, '_kept', {})
        assert data.dataset('mnist').source == 'files'
    assert len(served) == 4 and not recwarn.list


class Short(bytes):
    """Announced in full, sent by half."""

    def __getitem__(self, part):
        return bytes(self)[part][: len(self) // 2]


@pytest.mark.parametrize('kind', ['truncated', 'corrupt', 'wrong', 'missing', 'broken'])
def test_mirror_with_wrong_files(kind, home, served, mnist_files, monkeypatch):
    wrong = {f: {**damaged(c), 'broken': Short(c)}.get(kind) for f, c in mnist_files.items()}
    folder, good = home / 'datasets' / 'mnist', os.environ['MGPU_DATA_MIRRORS']
    with mirror(wrong) as (bad, asked):
        monkeypatch.setenv('MGPU_DATA_MIRRORS', bad)
        message = digits_instead()
        said = {'missing': 'HTTP status 404', 'broken': 'the connection broke'}
        said = said.get(kind, 'sent something else than the published file')
        assert f'{bad.replace("{name}", "mnist")}/{IMAGES}' in message and said in message
        assert asked and not list(folder.iterdir())
        # With a good one beside it, whichever answers first.
        monkeypatch.setattr(sets, '_kept', {})
        monkeypatch.setenv('MGPU_DATA_MIRRORS', f'{bad} {good}')
        assert data.dataset('mnist').source == 'files'
        assert len(served) == 4
    check_good(folder, 'mnist')


def test_a_download_ends_at_the_known_size_and_at_the_deadline(home, mnist_files, monkeypatch):
    longer = {**mnist_files, IMAGES: mnist_files[IMAGES] * 4}
    with mirror(longer) as (address, asked):
        monkeypatch.setenv('MGPU_DATA_MIRRORS', address)
        assert 'sent something else than the published file' in digits_instead()
        deadline = time.monotonic() + 60
        while 'cut' not in asked:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    monkeypatch.setattr(fetch, 'LONGEST', 0.1)
    monkeypatch.setattr(sets, '_kept', {})
    with mirror(mnist_files, piece=100) as (address, asked):  # half an hour
        monkeypatch.setenv('MGPU_DATA_MIRRORS', address)
        assert 'did not send the whole file, in time' in digits_instead()
    assert not list((home / 'datasets' / 'mnist').iterdir())


def test_no_message_shows_the_password_of_a_mirror(home, mnist_files, monkeypatch, capfd):
    with dead_mirror() as dead, mirror({**mnist_files, IMAGES: None}) as (address, _):
        own = f'{dead} {address}'.replace('http://', 'http://me:s3cr@t@')
        monkeypatch.setenv('MGPU_DATA_MIRRORS', own)
        said = digits_instead()
        assert dead in said and 'HTTP status 404' in said
    for bad in ('ftp://127.0.0.1/', 'mirror.example.org', 'https//x'):
        own = re.sub('^(.*//)?', r'\1me:s3cr@t@', bad)
        monkeypatch.setenv('MGPU_DATA_MIRRORS', f'http://127.0.0.1:1/ {own}')
        with pytest.raises(ValueError, match=f"MGPU_DATA_MIRRORS must .* got '{bad}'") as caught:
            data.dataset('fashion-mnist')
        said += str(caught.value)
    said += ''.join(capfd.readouterr())
    assert 's3cr' not in said and 'me:' not in said


def test_two_processes_start_at_once(home, mnist_files):
    # Slow enough that both are in the middle of it at the same time.
    with mirror(mnist_files, piece=400_000) as (address, asked):
        both = [start(*LOAD, MGPU_DATA_MIRRORS=address) for _ in range(2)]
        assert [finish(process)[0] for process in both] == ['files\n'] * 2
    check_good(home / 'datasets' / 'mnist', 'mnist')


def test_killed_download(home, served, mnist_files):
    folder = home / 'datasets' / 'mnist'
    with mirror(mnist_files, piece=10_000) as (address, _):
        process = start(*LOAD, MGPU_DATA_MIRRORS=address)
        deadline = time.monotonic() + 120
        while not any(p.stat().st_size for p in folder.glob('tmp*')):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        process.kill()
        process.communicate()
    (left,) = folder.iterdir()  # no file in place
    assert left.name.startswith('tmp')
    assert data.dataset('mnist').source == 'files'
    # What the killed one left might belong to a living process; after an hour it goes.
    assert left.exists()
    os.utime(left, (time.time() - 7200,) * 2)
    (folder / LABELS).unlink()
    assert fetch.read('mnist') and len(served) == 5
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
    # Without a network, both reasons are named.
    monkeypatch.setattr(sets, '_kept', {})
    monkeypatch.setenv('MGPU_DATA_MIRRORS', 'http://127.0.0.1:9/')
    message = digits_instead()
    assert f'{tmp_path / "file" / "x"}' in message and 'set MXNET_HOME to a folder' in message
    assert 'cannot be reached' in message


def test_a_read_only_folder(home, served):
    if os.geteuid() == 0:
        pytest.skip('root may write everywhere')
    folder = put(home, 'mnist', {})
    folder.chmod(0o555)
    with pytest.warns(data.CacheWarning, match='set MXNET_HOME to a folder that you can write'):
        assert data.dataset('mnist').source == 'files'
    assert not list(folder.iterdir())


def test_no_space(home, served, full_disk):
    message = digits_instead()
    assert os.strerror(errno.EFBIG) in message
    assert f'{home / "datasets" / "mnist"} cannot take the files of mnist' in message
    assert 'set MXNET_HOME to a folder that you can write' in message
    assert not list((home / 'datasets' / 'mnist').iterdir())


def test_a_folder_in_place_of_a_file(home, served, mnist_files):
    folder = put(home, 'mnist', {f: c for f, c in mnist_files.items() if f != LABELS})
    (folder / LABELS).mkdir()
    with pytest.warns(data.CacheWarning, match='cannot take the files'):
        assert data.dataset('mnist').source == 'files'
    assert (folder / LABELS).is_dir()
