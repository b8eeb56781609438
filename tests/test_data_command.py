"""``python -m mgpu_helpers data``: real files, from real folders and real servers on 127.0.0.1."""

import gzip
import re
import shutil

import pytest
from click.testing import CliRunner
from serving import IMAGES, LABELS, check_good, mirror, put

from mgpu_helpers.__main__ import main
from mgpu_helpers.data import published


def bring(*words, status=0, **environment):
    """Run the command; give its table and its messages."""
    done = CliRunner().invoke(main, ['data', *map(str, words)], env=environment)
    assert done.exit_code == status, done.output
    return done.stdout, done.stderr


def rows(table):
    """The lines of the table: the set, how many files, the folder, the state."""
    return {cells[0]: cells[1:] for cells in (re.split(r'  +', x) for x in table.splitlines()[2:])}


@pytest.fixture
def stick(tmp_path, mnist_files):
    """A folder with the four files of MNIST, side by side."""
    return put(tmp_path / 'stick', 'mnist', mnist_files)


def test_files_are_taken_from_a_folder(home, stick):
    """With the files in it, side by side, or one like ours."""
    folder = home / 'datasets' / 'mnist'
    for source in (stick, stick.parent, stick.parents[1]):
        table, messages = bring('mnist', '--from', source)
        assert not messages and rows(table)['mnist'][::2] == ['4 of 4', 'verified, 4 copied']
        check_good(folder, 'mnist')
        shutil.rmtree(home)


def test_good_files_stay_as_they_are_and_damaged_ones_are_replaced(home, stick, mnist_files):
    folder = put(home, 'mnist', {IMAGES: mnist_files[IMAGES], LABELS: b'damaged'})
    before = (folder / IMAGES).stat()
    (stick / IMAGES).write_bytes(b'damaged on the stick')
    table, _ = bring('mnist', '--from', stick)
    assert rows(table)['mnist'][2] == 'verified, 3 copied (1 for damaged ones)'
    after = (folder / IMAGES).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert rows(bring('mnist', '--from', stick)[0])['mnist'][2] == 'verified, was there'
    check_good(folder, 'mnist')


def test_what_is_damaged_missing_or_not_compressed_on_the_stick_is_named(home, stick):
    good, plain = (stick / LABELS).read_bytes(), stick / LABELS.removesuffix('.gz')
    (stick / LABELS).write_bytes(good[:2000] + b'\0' + good[2001:])
    table, messages = bring('mnist', '--from', stick, status=1)
    assert rows(table)['mnist'][::2] == ['3 of 4', f'incomplete, without {LABELS}']
    assert f'{stick / LABELS} is not the published file: expected 4,542 bytes' in messages
    assert 'or put the published files of mnist' in messages
    names = {path.name for path in (home / 'datasets' / 'mnist').iterdir()}
    assert names == set(published.FILES['mnist']) - {LABELS}
    (stick / LABELS).unlink()
    assert f'{LABELS} of mnist is not in {stick}' in bring('mnist', '--from', stick, status=1)[1]
    plain.write_bytes(gzip.decompress(good))
    _, messages = bring('mnist', '--from', stick, status=1)
    assert f'{plain} is not compressed' in messages and f'only {LABELS}' in messages
    # The files of another set, which are called the same, are missing, not damaged.
    table, messages = bring('fashion-mnist', '--from', stick, status=1)
    assert rows(table)['fashion-mnist'][0] == '0 of 4'
    assert f'{IMAGES} of fashion-mnist is not in {stick}' in messages
    assert 'not the published file' not in messages


def test_download(home, mnist_files):
    with mirror({**mnist_files, LABELS: b'damaged'}) as (address, _):
        table, messages = bring('mnist', MGPU_DATA_MIRRORS=address, status=1)
        assert rows(table)['mnist'][2] == f'incomplete, without {LABELS}'
        assert 'sent something else than the published file' in messages
    with mirror(mnist_files) as (address, asked):
        table, messages = bring('mnist', MGPU_DATA_MIRRORS=address)
    folder = home / 'datasets' / 'mnist'
    assert rows(table) == {'mnist': ['4 of 4', str(folder), 'verified, 1 downloaded']}
    assert f'mnist/{LABELS}: 100%' in messages and asked == [f'/mnist/{LABELS}']
    check_good(folder, 'mnist')


def test_without_a_network_both_ways_out_are_named(home):
    table, messages = bring(status=1)
    assert [cells[0] for cells in rows(table).values()] == ['0 of 4', '0 of 4']
    assert 'cannot be reached' in messages and 'digits' not in table + messages
    assert messages.count('--from DIR') == messages.count('MGPU_DATA_MIRRORS') == 2
    _, messages = bring('mnist', status=1, MGPU_DATA_MIRRORS='ftp://127.0.0.1/')
    assert 'MGPU_DATA_MIRRORS must hold addresses' in messages and 'ftp://127.0.0.1/' in messages


def test_a_folder_that_cannot_take_them(home, stick, tmp_path, full_disk):
    table, messages = bring('mnist', '--from', stick, status=1)
    assert rows(table)['mnist'][0] == '2 of 4' and f'cannot take {IMAGES}' in messages
    assert len(list((home / 'datasets' / 'mnist').iterdir())) == 2  # nothing half-written is left
    (tmp_path / 'file').write_text('not a folder')
    _, messages = bring('mnist', '--from', stick, status=1, MXNET_HOME=str(tmp_path / 'file'))
    assert f'{tmp_path / "file" / "datasets" / "mnist"} cannot be written' in messages
    assert 'set MXNET_HOME' in messages
