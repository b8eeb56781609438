"""Downloads and the cache, with real files from real servers on 127.0.0.1."""

import errno
import gzip
import hashlib
import itertools
import os
import random
import re
import shutil
import socket
import threading
import time
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest
from serving import IMAGES, LABELS, check_good, dead_mirror, finish, good_files, mirror, put, start

from mgpu_helpers import data
from mgpu_helpers.data import download, published, sets

LOAD = '-c', 'from mgpu_helpers import data; print(data.dataset("mnist").source)'


@pytest.fixture
def served(home, mnist_files):
    """The address of a mirror with MNIST, and the list of what it was asked for."""
    with mirror(mnist_files) as server:
        yield server


def load(*mirrors):
    """Load MNIST as a new process would, from these mirrors if any; give its source."""
    sets._kept.clear()
    if mirrors:
        os.environ['MGPU_DATA_MIRRORS'] = ' '.join(mirrors)  # which `home` puts back
    return data.dataset('mnist').source


def warned(category, source, *mirrors):
    """The same where exactly one warning is expected; returns it."""
    with pytest.warns(category) as caught:
        assert load(*mirrors) == source
    (message,) = [str(w.message) for w in caught]
    assert caught[0].filename == __file__
    return message


def digits_instead(*mirrors):
    return warned(data.OfflineDataWarning, 'digits', *mirrors)


def test_download_and_keep(home, served, recwarn, capfd):
    good, asked = served
    assert load(good) == 'files'
    assert data.dataset('mnist').train_labels[:3].tolist() == [5, 0, 4]
    assert sorted(asked) == sorted(f'/mnist/{name}' for name in published.FILES['mnist'])
    check_good(home / 'datasets' / 'mnist', 'mnist')
    assert not recwarn.list
    bars = capfd.readouterr().err
    assert f'mnist/{IMAGES}: 100%' in bars and '9.91M/9.91M' in bars and 'tmp' not in bars
    # The next process finds it there.
    asked.clear()
    assert finish(start(*LOAD)) == ('files\n', '')
    assert not asked


def test_repacked_copies_are_good_and_stay(home, mnist_files, monkeypatch, recwarn):
    """Recompressed, like MXNet's copies of Fashion-MNIST, which can no longer be downloaded."""
    repacked = gzip.compress(gzip.decompress(mnist_files[LABELS]), 1, mtime=1)
    known = published.FILES['mnist'][LABELS]
    known = known._replace(repacked_sha1=hashlib.sha1(repacked).hexdigest())
    monkeypatch.setitem(published.FILES['mnist'], LABELS, known)
    folder = put(home, 'mnist', {**mnist_files, LABELS: repacked})
    dataset = data.dataset('mnist')
    assert dataset.source == 'files' and dataset.test_labels[:3].tolist() == [7, 2, 1]
    assert (folder / LABELS).read_bytes() == repacked and not recwarn.list


def test_a_bad_file_is_left_without_a_network_and_replaced_with_one(home, served, mnist_files):
    good, asked = served
    bad = mnist_files[LABELS][:-1] + b'?'
    folder = put(home, 'mnist', {**mnist_files, LABELS: bad})
    expected = f'{folder / LABELS} is not the published file: expected 4,542 bytes with SHA-256 f7'
    actual = f'found {len(bad):,} bytes with SHA-256 {hashlib.sha256(bad).hexdigest()[:8]}'
    message = digits_instead()
    assert expected in message and actual in message and 'cannot be reached' in message
    assert (folder / LABELS).read_bytes() == bad and len(list(folder.iterdir())) == 4

    message = warned(data.CacheWarning, 'files', good)
    assert expected in message and actual in message and 'replaced' in message
    assert asked == [f'/mnist/{LABELS}']
    check_good(folder, 'mnist')


def pipe(path):
    """Nobody writes into it; the mirror closes it in the end, so that no reader waits forever."""
    os.mkfifo(path)
    ends = threading.Timer(30, os.close, [os.open(path, os.O_RDWR)])
    ends.daemon = True
    ends.start()


def far_too_large(path):
    with open(path, 'wb') as file:
        file.truncate(10**12)


CACHED = {  # in the place of a file
    'is no regular file': [pipe, Path.mkdir, lambda path: path.symlink_to('/dev/zero')],
    'found 1,000,000,000,000 bytes': [far_too_large],
    '': [lambda path: path.symlink_to('nowhere'), lambda path: None],
}


def test_what_is_no_file_or_far_too_large_is_not_read_but_replaced(home, served, mnist_files):
    folder = put(home, 'mnist', {f: c for f, c in mnist_files.items() if f != LABELS})
    for trouble, make in [(t, make) for t, several in CACHED.items() for make in several]:
        (folder / LABELS).unlink(missing_ok=True)
        make(folder / LABELS)
        assert trouble in published.stock('mnist')[1].get(LABELS, '')
        if make is Path.mkdir:  # no file can take its place
            message = warned(data.CacheWarning, 'files', served[0])
            assert f'{folder} cannot take {LABELS} (Is a directory)' in message
            (folder / LABELS).rmdir()
        elif trouble:
            assert 'was replaced' in warned(data.CacheWarning, 'files', served[0])
            check_good(folder, 'mnist')
        else:
            assert load(served[0]) == 'files'
    assert set(served[1]) == {f'/mnist/{LABELS}'}


def test_mirrors_that_are_not_there_or_never_answer(home, served, monkeypatch, recwarn):
    good, asked = served
    with dead_mirror() as dead, socket.create_server(('127.0.0.1', 0)) as deaf:
        silent = f'http://127.0.0.1:{deaf.getsockname()[1]}/'
        with monkeypatch.context() as patch:
            patch.setattr(download, 'PATIENCE', 0.3)  # as in the package, but sooner
            message = digits_instead(dead, silent)
        assert f'{silent}{IMAGES} did not answer' in message
        assert f'{dead}{IMAGES} cannot be reached' in message
        # They are not tried again; in another process, a third one serves.
        monkeypatch.setenv('MGPU_DATA_MIRRORS', good)
        assert data.dataset('mnist').source == 'digits' and not asked
        assert load(dead, silent, good) == 'files'
    assert len(asked) == 4 and not recwarn.list


REFUSED = {
    'sent something else': ['endless', 'wrong', 'bomb'],
    'the connection broke': ['cut', 'no-http', 'to-a-password'],
    'TooManyRedirects': ['circle'],
    'HTTP status 404': ['gone'],
    'in time': ['drips', 'drips-a-header', 'continues', 'trailers'],
}


def test_hostile_mirrors_are_refused_in_time_and_by_name(home, mnist_files, monkeypatch):
    folder = home / 'datasets' / 'mnist'
    tracemalloc.start()
    with mirror(mnist_files) as (address, _):
        for moved in 'moved', 'moved-bomb':  # what a redirect holds is not read
            assert load(address.format(name=moved)) == 'files'
            shutil.rmtree(home)
        for words, kinds in REFUSED.items():
            for limit in ('PATIENCE', 'STALLED'):
                monkeypatch.setattr(download, limit, 1 if words == 'in time' else 60)
            for kind in kinds:
                monkeypatch.setenv('MGPU_DATA_MIRRORS', address.format(name=kind))
                with pytest.raises(download.Unavailable, match=f'/{kind}/{IMAGES} .*{words}'):
                    download.read('mnist')
                assert not list(folder.iterdir())
        # With a good one after it.
        assert load(address.format(name='cut'), address) == 'files'
        check_good(folder, 'mnist')
    assert tracemalloc.get_traced_memory()[1] < 200e6
    tracemalloc.stop()


HOSTILE = """
import logging, re, resource, sys, traceback
from mgpu_helpers.data import download
logging.basicConfig(level=logging.DEBUG)
download.STALLED = 2
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)  # a disk with so much room
try:
    print('files', *sorted(download.read('mnist')))
except download.Unavailable as why:
    print('refused', why.reasons)
    traceback.print_exc()  # with the errors from which it arose
print(re.search(r'VmHWM:\\s*(\\d+)', open('/proc/self/status').read())[1])
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path('/proc/self/status').exists(), reason='no /proc on this system')
def test_fifty_hostile_downloads(home, mnist_files, monkeypatch):
    """Two processes at a time, some of them killed, with a random cache and a random disk."""
    draw, outcomes, longest = random.Random(50), Counter(), 0.0
    kinds = ['good', 'moved', 'moved-bomb', *itertools.chain(*REFUSED.values())]
    monkeypatch.setenv('HTTP_PROXY', 'http://me:s3cr@t@127.0.0.1:1')
    with mirror(mnist_files, limit=600) as (address, _):  # beyond the patience below
        for turn in range(50):
            shutil.rmtree(home, ignore_errors=True)
            folder = put(home, 'mnist', {LABELS: mnist_files[LABELS]} if turn % 3 else {})
            draw.choice(list(itertools.chain(*CACHED.values())))(folder / IMAGES)
            bad = [path.name for path in folder.iterdir() if path.name != LABELS]
            own = address.format(name=kinds[turn % len(kinds)])
            env = {'MGPU_DATA_MIRRORS': own.replace('//', '//me:s3cr@t@')}
            env |= {'NO_PROXY': ''} if turn % 10 == 9 else {}
            room, began = draw.choice([20, 25, 25]), time.monotonic()
            both = [start('-c', HOSTILE, str(2**room), **env) for _ in range(2)]
            if turn % 4 == 0:
                time.sleep(draw.uniform(0.2, 1.5))
                both[0].kill()
            for process in both:
                out, err = process.communicate(timeout=120)
                assert 's3cr' not in out + err and 'me:' not in out + err, err
                outcomes['killed' if process.returncode else out.split()[0]] += 1
                if process.returncode:
                    assert process is both[0] and turn % 4 == 0, err
                    continue
                reasons = [own, 'through the proxy', *[os.strerror(errno.EFBIG)] * (room == 20)]
                assert ' '.join(sorted(mnist_files)) in out or any(why in out for why in reasons)
                assert int(out.split()[-1]) < 200_000, 'kB of memory'
            longest = max(longest, time.monotonic() - began)
            names = {path.name for path in folder.iterdir() if not path.name.endswith('.tmp')}
            assert names <= {*good_files(folder, 'mnist'), *bad}
    print(dict(outcomes), f'longest {longest:.1f} s')
    assert len(outcomes) == 3


def test_no_message_shows_the_password_of_a_mirror(home, monkeypatch, capfd):
    with dead_mirror() as dead, mirror({}) as (address, _):
        said = digits_instead(f'{dead} {address}'.replace('http://', 'http://me:s3cr@t@'))
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
    with mirror(mnist_files, piece=400_000) as (address, _):  # slow, so that both are at it
        both = [start(*LOAD, MGPU_DATA_MIRRORS=address) for _ in range(2)]
        assert [finish(process)[0] for process in both] == ['files\n'] * 2
    check_good(home / 'datasets' / 'mnist', 'mnist')


def test_killed_download(home, served, mnist_files):
    with mirror(mnist_files, piece=10_000) as (address, asked):
        process = start(*LOAD, MGPU_DATA_MIRRORS=address)
        while not asked:
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(0.2)  # into the file
        process.kill()
        process.communicate()
    assert not list((home / 'datasets' / 'mnist').iterdir())
    assert load(served[0]) == 'files'


def test_a_folder_that_cannot_be_written(home, served, tmp_path, monkeypatch):
    (tmp_path / 'file').write_text('not a folder')
    homes = [tmp_path / 'file' / 'x']
    if os.geteuid() != 0:  # root may write everywhere
        put(home, 'mnist', {}).chmod(0o555)
        homes.append(home)
    for place in homes:
        monkeypatch.setenv('MXNET_HOME', str(place))
        message = warned(data.CacheWarning, 'files', served[0])
        assert str(place / 'datasets' / 'mnist') in message
        assert 'set MXNET_HOME to a folder that you can write' in message
        # Without a network, both reasons are named.
        message = digits_instead('http://127.0.0.1:9/')
        assert str(place) in message and 'cannot be reached' in message
    assert 'set MXNET_HOME to a folder that you can write' in message
    assert (tmp_path / 'file').read_text() == 'not a folder'
