"""``python -m mgpu_helpers data``: real files, from real folders and real servers on 127.0.0.1."""

# ruff: noqa: F811 (a fixture that is imported, and asked for by its name)

import gzip
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from serving import (  # noqa: F401
    CALLERS,
    IMAGES,
    LABELS,
    check_good,
    home,
    mirror,
    mnist_files,
    put,
    real_files,
)

from mgpu_helpers.data import catalogue

ROOT = Path(__file__).parent.parent
PARTS = sorted(catalogue.FILES['mnist'])


def bring(*words, status=0, **environment):
    """Run the command in a process of its own; its table and its messages."""
    done = subprocess.run(
        [sys.executable, '-m', 'mgpu_helpers', 'data', *map(str, words)],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {'PYTHONPATH': str(ROOT)} | environment,
    )
    assert done.returncode == status, done.stderr
    assert 'Traceback' not in done.stderr
    return done.stdout, done.stderr


def rows(table):
    """The lines of the table: the set, how many files, the folder, the state."""
    return {cells[0]: cells[1:] for cells in (re.split(r'  +', x) for x in table.splitlines()[2:])}


@pytest.fixture
def stick(tmp_path, mnist_files):
    """A folder with the four files of MNIST, side by side."""
    folder = tmp_path / 'stick'
    folder.mkdir()
    for filename, content in mnist_files.items():
        (folder / filename).write_bytes(content)
    return folder


@pytest.mark.parametrize('layout', ['', 'mnist', 'datasets/mnist'])
def test_files_are_taken_from_a_folder(layout, home, stick, tmp_path):
    source = tmp_path / 'usb'
    shutil.copytree(stick, source / layout)
    table, messages = bring('mnist', '--from', source)
    folder = home / 'datasets' / 'mnist'
    assert rows(table) == {'mnist': ['4 of 4', str(folder), 'verified, 4 copied']}
    assert messages == ''
    check_good(folder, 'mnist')


def test_both_sets_are_taken_from_a_folder_like_ours(home):
    real_files('mnist'), real_files('fashion-mnist')
    source = CALLERS['mnist'].parent.parent
    table, _ = bring('--from', source)
    assert [cells[0] for cells in rows(table).values()] == ['4 of 4', '4 of 4']
    for name in catalogue.FILES:
        check_good(home / 'datasets' / name, name)


def test_good_files_stay_as_they_are(home, stick, mnist_files):
    folder = put(home, 'mnist', {IMAGES: mnist_files[IMAGES]})
    before = (folder / IMAGES).stat()
    (stick / IMAGES).write_bytes(b'damaged on the stick')
    table, _ = bring('mnist', '--from', stick)
    assert rows(table)['mnist'][2] == 'verified, 3 copied'
    after = (folder / IMAGES).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert rows(bring('mnist', '--from', stick)[0])['mnist'][2] == 'verified, was there'


@pytest.mark.parametrize('kind', ['truncated', 'flipped'])
def test_a_damaged_file_on_the_stick_is_named_and_not_taken(kind, home, stick):
    good = (stick / LABELS).read_bytes()
    bad = good[:1000] if kind == 'truncated' else good[:2000] + b'\0' + good[2001:]
    (stick / LABELS).write_bytes(bad)
    table, messages = bring('mnist', '--from', stick, status=1)
    assert rows(table)['mnist'][::2] == ['3 of 4', f'incomplete, without {LABELS}']
    assert f'{stick / LABELS} is not the published file: expected 4,542 bytes' in messages
    assert 'What to do: put the published files of mnist' in messages
    folder = home / 'datasets' / 'mnist'
    assert sorted(path.name for path in folder.iterdir()) == [
        file for file in PARTS if file != LABELS
    ]


def test_a_damaged_file_at_home_is_replaced(home, stick, mnist_files):
    folder = put(home, 'mnist', {**mnist_files, LABELS: mnist_files[LABELS][:1000]})
    table, _ = bring('mnist', '--from', stick)
    assert rows(table)['mnist'][2] == 'verified, 1 copied (1 for damaged ones)'
    check_good(folder, 'mnist')


def test_missing_files_are_named(home, stick):
    (stick / LABELS).unlink()
    _, messages = bring('mnist', '--from', stick, status=1)
    assert f'{LABELS} of mnist is not in {stick}' in messages


def test_files_of_another_set_are_missing_not_damaged(home, stick):
    table, messages = bring('fashion-mnist', '--from', stick, status=1)
    assert rows(table)['fashion-mnist'][0] == '0 of 4'
    assert f'{IMAGES} of fashion-mnist is not in {stick}' in messages
    assert 'not the published file' not in messages


def test_uncompressed_files_cannot_be_verified(home, stick):
    (stick / LABELS.removesuffix('.gz')).write_bytes(gzip.decompress((stick / LABELS).read_bytes()))
    (stick / LABELS).unlink()
    _, messages = bring('mnist', '--from', stick, status=1)
    assert f'{stick / LABELS.removesuffix(".gz")} is not compressed' in messages
    assert LABELS in messages and 'can be verified' in messages


def test_download(home, mnist_files):
    with mirror(mnist_files) as (address, asked):
        table, messages = bring('mnist', MGPU_DATA_MIRRORS=address)
    folder = home / 'datasets' / 'mnist'
    assert rows(table) == {'mnist': ['4 of 4', str(folder), 'verified, 4 downloaded']}
    assert f'mnist/{IMAGES}: 100%' in messages and len(asked) == 4
    check_good(folder, 'mnist')


def test_without_a_network_both_ways_out_are_named(home):
    table, messages = bring(status=1)
    assert [cells[0] for cells in rows(table).values()] == ['0 of 4', '0 of 4']
    assert 'cannot be reached' in messages
    assert messages.count('--from DIR') == messages.count('MGPU_DATA_MIRRORS') == 2
    assert 'digits' not in table + messages


def test_a_server_with_damaged_files(home, mnist_files):
    with mirror({**mnist_files, LABELS: mnist_files[LABELS][:1000]}) as (address, _):
        table, messages = bring('mnist', status=1, MGPU_DATA_MIRRORS=address)
    assert rows(table)['mnist'][2] == f'incomplete, without {LABELS}'
    assert 'sent something else than the published file' in messages


def test_a_server_that_is_no_address(home):
    _, messages = bring('mnist', status=1, MGPU_DATA_MIRRORS='ftp://127.0.0.1/')
    assert 'MGPU_DATA_MIRRORS must hold addresses' in messages and 'ftp://127.0.0.1/' in messages


def test_a_folder_in_the_way(home, stick, tmp_path):
    (tmp_path / 'file').write_text('not a folder')
    _, messages = bring('mnist', '--from', stick, status=1, MXNET_HOME=str(tmp_path / 'file'))
    assert f'{tmp_path / "file" / "datasets" / "mnist"} cannot be written' in messages
    assert 'set MXNET_HOME' in messages


def test_a_folder_that_cannot_be_written(home, stick):
    if os.geteuid() == 0:
        pytest.skip('root may write everywhere')
    home.mkdir()
    home.chmod(0o555)
    _, messages = bring('mnist', '--from', stick, status=1)
    assert 'cannot be written (Permission denied)' in messages


def test_a_full_disk(home, stick):
    """A limit on the size of files stands for it: the write itself fails."""
    limit = 'ulimit -f 1000 && exec "$@"'
    done = subprocess.run(
        ['bash', '-c', limit, '-', sys.executable, '-m', 'mgpu_helpers', 'data', 'mnist',
         '--from', str(stick)],
        capture_output=True, text=True, timeout=60, env=os.environ | {'PYTHONPATH': str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert 'cannot take the files' in done.stderr and 'Traceback' not in done.stderr
    assert not list((home / 'datasets' / 'mnist').glob('.*'))  # nothing half-written is left


@pytest.mark.parametrize('words', [['cifar10'], ['--from', '/no/such/folder'], ['mnist', 'all']])
def test_wrong_words(words, home):
    _, messages = bring(*words, status=2)
    assert 'Usage:' in messages and words[-1] in messages
    assert not home.exists()
