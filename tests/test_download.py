"""Downloads, copies and the folder of the data, with real files from real servers on 127.0.0.1."""

import gzip
import hashlib
import os
import re
import shutil
import time

import pytest
from click.testing import CliRunner
from serving import IMAGES, LABELS, check_good, dead_mirror, finish, mirror, put, start

from mgpu_helpers import data
from mgpu_helpers.__main__ import main
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
    os.environ.pop(sets.STOOD_IN, None)
    if mirrors:
        os.environ['MGPU_DATA_MIRRORS'] = ' '.join(mirrors)  # which `home` puts back
    return data.dataset('mnist').source


def digits_instead(*mirrors):
    """The same where the digits are used; returns the one warning."""
    with pytest.warns(data.OfflineDataWarning) as caught:
        assert load(*mirrors) == 'digits'
    # Python may warn meanwhile of something else, such as another test's garbage.
    (message,) = [str(w.message) for w in caught if w.category is data.OfflineDataWarning]
    return message


def test_download_and_keep(home, served, recwarn, capfd):
    good, asked = served
    assert load(good) == 'files'
    assert data.dataset('mnist').train_labels[:3].tolist() == [5, 0, 4]
    assert sorted(asked) == sorted(f'/mnist/{name}' for name in published.FILES['mnist'])
    check_good(home / 'datasets' / 'mnist', 'mnist')
    assert not recwarn.list
    bars = capfd.readouterr().err
    assert f'mnist/{IMAGES}: 100%' in bars and '9.91M/9.91M' in bars
    asked.clear()  # the next process finds it there
    assert finish(start(*LOAD)) == ('files\n', '') and not asked


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


def test_a_bad_file_stays_without_a_network_and_is_set_aside_with_one(home, served, mnist_files):
    good, asked = served
    bad = mnist_files[LABELS][:-1] + b'?'
    folder = put(home, 'mnist', {**mnist_files, LABELS: bad})
    said = digits_instead().splitlines()
    assert said[0].startswith("mnist is unavailable; using scikit-learn's digits instead")
    assert said[1].startswith('What to do: connect to a network') and LABELS in said[1]
    assert re.fullmatch(rf'  tried http://127.0.0.1:\d+/{LABELS}: ConnectionError', said[2])
    assert len(said) == 3 and (folder / LABELS).read_bytes() == bad
    assert load(good) == 'files' and asked == [f'/mnist/{LABELS}']
    assert (folder / f'{LABELS}.bad').read_bytes() == bad  # nothing is overwritten
    (folder / f'{LABELS}.bad').unlink()
    check_good(folder, 'mnist')


def test_what_is_no_file_or_far_too_large_is_not_read(home, served, mnist_files):
    folder = put(home, 'mnist', {f: c for f, c in mnist_files.items() if f != LABELS})
    for make in (
        os.mkfifo,
        os.mkdir,
        lambda path: path.symlink_to('/dev/zero'),
        lambda path: path.symlink_to('nowhere'),
        lambda path: os.truncate(path, 10**12) if path.write_bytes(b'') == 0 else None,
    ):
        make(folder / LABELS)
        assert load(served[0]) == 'files'
        (folder / LABELS).unlink()
        bad = folder / f'{LABELS}.bad'
        bad.rmdir() if bad.is_dir() else bad.unlink()


@pytest.mark.parametrize(
    'kind,words',
    [
        ('wrong', 'differs from the published file'),
        ('cut', 'ProtocolError|IncompleteRead|another file'),
        ('endless', 'differs from the published file'),
        ('gone', 'HTTP status 404'),
        ('circle', 'TooManyRedirects'),
        ('silent', 'ReadTimeout'),
        ('drips', 'not complete after 1 s'),
    ],
)
def test_a_mirror_that_does_not_serve_is_named_and_the_next_one_asked(
    home, mnist_files, monkeypatch, kind, words
):
    monkeypatch.setattr(download, 'SILENT', 0.5)
    monkeypatch.setattr(download, 'WHOLE', 1)
    folder = home / 'datasets' / 'mnist'
    with mirror(mnist_files) as (address, _):
        bad = address.format(name=kind)
        monkeypatch.setenv('MGPU_DATA_MIRRORS', bad)
        with pytest.raises(download.Unavailable, match=f'tried {bad}/{IMAGES}: .*({words})'):
            download.read('mnist')
        assert not list(folder.iterdir())
        monkeypatch.setattr(download, 'WHOLE', 900)
        assert kind == 'drips' or load(bad, address) == 'files'


def test_no_message_shows_the_password_of_a_mirror(home, monkeypatch):
    with dead_mirror() as dead, mirror({}) as (address, _):
        said = digits_instead(f'{dead} {address}'.replace('http://', 'http://me:s3cr@t@'))
        assert dead in said and 'HTTP status 404' in said
    said += digits_instead('ftp://me:s3cr@t@127.0.0.1/')
    assert 'tried ftp://127.0.0.1/' in said and 'InvalidSchema' in said and 's3cr' not in said


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


def test_a_folder_that_cannot_be_written(home, served, tmp_path, monkeypatch, full_disk):
    (tmp_path / 'file').write_text('not a folder')
    monkeypatch.setenv('MXNET_HOME', str(tmp_path / 'file'))
    place = tmp_path / 'file' / 'datasets' / 'mnist'
    said = digits_instead(served[0])
    assert f'{place} is not writable (' in said and 'set MXNET_HOME to a folder that is' in said
    monkeypatch.setenv('MXNET_HOME', str(home))  # where there is room for a small file
    assert 'is not writable (File too large)' in digits_instead(served[0])
    assert not [p for p in (home / 'datasets/mnist').iterdir() if p.name.endswith(('.tmp', IMAGES))]


def bring(*words, status=0, **environment):
    """Run the command; give the cells of its table by set, and its messages."""
    done = CliRunner().invoke(main, ['data', *map(str, words)], env=environment)
    assert done.exit_code == status, done.output
    lines = [re.split(r'  +', line) for line in done.stdout.splitlines()[2:]]
    return {cells[0]: cells[1:] for cells in lines}, done.stderr


def test_the_command_takes_files_from_a_folder_and_verifies_them(home, tmp_path, mnist_files):
    """With the files in it, side by side, or one like ours."""
    folder, stick = home / 'datasets' / 'mnist', put(tmp_path / 'stick', 'mnist', mnist_files)
    for source in (stick, stick.parent, stick.parents[1]):
        table, messages = bring('mnist', '--from', source)
        assert not messages and table['mnist'] == ['4 of 4', '4 copied', str(folder)]
        check_good(folder, 'mnist')
        assert bring('mnist', '--from', source)[0]['mnist'][1] == '0 copied'
        shutil.rmtree(home)
    (stick / LABELS).write_bytes(b'damaged on the stick')
    table, messages = bring('--from', stick, status=1)  # nor is one of Fashion-MNIST there
    assert [cells[0] for cells in table.values()] == ['0 of 4', '3 of 4']
    assert f'mnist is not complete. What to do: put the published files of mnist into {stick}' in (
        messages
    )
    assert f'Missing: {LABELS}' in messages and messages.count('Error: ') == 2


def test_the_command_downloads_and_says_what_to_do_without_a_network(home, served):
    table, messages = bring(status=1)
    assert [cells[0] for cells in table.values()] == ['0 of 4', '0 of 4']
    assert messages.count('--from DIR') == 2 and 'ConnectionError' in messages
    table, _ = bring('mnist', MGPU_DATA_MIRRORS=served[0])
    assert table['mnist'] == ['4 of 4', '4 downloaded', str(home / 'datasets' / 'mnist')]
    messages = bring('fashion-mnist', status=1, MGPU_DATA_MIRRORS='example.org')[1]
    assert 'tried example.org/' in messages and 'MissingSchema' in messages
