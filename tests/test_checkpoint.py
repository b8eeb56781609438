"""Checkpoints: what is saved comes back, and a killed process or a full disk spoils nothing."""

import errno
import io
import json
import os
import random
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from mgpu_helpers.cluster import (
    BrokenCheckpoint,
    checkpoint,
    latest_checkpoint,
    load_checkpoint,
    save_checkpoint,
)
from mgpu_helpers.files import whole_file

ARRAYS = {'W': np.arange(6, dtype='float32').reshape(2, 3), 'b': np.zeros(3)}
INFO = {'seed': 0, 'lr': 0.2, 'history': {'test_acc': [0.5, 0.75]}, 'note': 'ä "quoted"\n'}

pytestmark = pytest.mark.filterwarnings('error:a checkpoint was passed over')


def child(code, *args):
    """Start a process that can load checkpoints."""
    code = 'import os, signal, sys\nimport numpy as np\n' + textwrap.dedent(code)
    return subprocess.Popen(
        [sys.executable, '-c', code, *map(str, args)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def finish(process):
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


TYPES = ['float16', '>f4', 'uint64', 'bool', 'complex64', 'U3', [('x', '<f4'), ('y', '<i2', (2,))]]
NAMES = '9 10 file arr_0 ä ../x a\\b'.split() + ['', 'new\nline', '\0', '\ud800', 'x' * 70_000]


def test_what_is_saved_comes_back(tmp_path):
    """Every dtype, shape, layout and name survives bit for bit, infinities and NaNs included."""
    arrays = {}
    for dtype in map(np.dtype, TYPES):
        bits = random.Random(0).randbytes(dtype.itemsize * 15)
        flat = np.frombuffer(bytes(len(bits)) if dtype.kind in 'bUM' else bits, dtype)
        for shape in [(), (0,), (3, 0, 2), (5, 3)]:
            arrays[f'{dtype} {shape}'] = flat[: int(np.prod(shape))].reshape(shape)
    whole = np.arange(24.0).reshape(4, 6)
    arrays |= {'turned': whole.T, 'every other': whole[::2, ::-3]}
    arrays |= {name: np.array(i) for i, name in enumerate(NAMES)}
    path = save_checkpoint(tmp_path / 'new' / 'run', np.int64(3), arrays, **INFO)
    assert path == tmp_path / 'new' / 'run' / 'epoch-0003.ckpt'
    loaded = load_checkpoint(str(path))
    assert repr(loaded) == f'Checkpoint(epoch=3, info={INFO!r}, path={path!r})'
    assert list(loaded.arrays) == list(arrays)
    for ours, theirs in zip(loaded.arrays.values(), arrays.values()):
        assert type(ours) is np.ndarray and ours.flags.writeable
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        assert ours.tobytes() == theirs.tobytes()
    head = json.loads(path.read_bytes().partition(b'\n')[0])  # for people
    assert (head['epoch'], head['info'], head['names']) == (3, INFO, list(arrays))


def test_the_newest_is_found_by_number_and_saving_again_replaces(tmp_path):
    assert latest_checkpoint(tmp_path / 'missing') is None and latest_checkpoint(tmp_path) is None
    for epoch in (9999, 10_000, 10, 9):
        save_checkpoint(tmp_path, epoch, ARRAYS)
    for name in ('epoch-99999.ckpt.tmp', 'epoch-99999.txt', 'my-epoch-99999.ckpt', 'epoch-.ckpt'):
        (tmp_path / name).write_text('something else')
    assert latest_checkpoint(tmp_path).epoch == 10_000
    path = save_checkpoint(tmp_path, 10_000, {}, lr=0.1)
    # A shared folder is for everybody.
    assert path.stat().st_mode == (tmp_path / 'epoch-.ckpt').stat().st_mode
    assert latest_checkpoint(tmp_path).info == {'lr': 0.1}


def test_whatever_is_lost_changed_or_moved_the_file_is_refused(tmp_path):
    path = save_checkpoint(tmp_path, 3, {'W': np.arange(3, dtype='float32')}, lr=0.2)
    content = path.read_bytes()
    line, _, body = content.partition(b'\n')

    def refused(content, words=''):
        path.write_bytes(content)
        with pytest.raises(BrokenCheckpoint, match=f'^{path} is broken .*{words}.* Resume from an'):
            load_checkpoint(path)

    for i in range(0, len(content), 23):
        refused(content[:i])
        refused(content[:i] + content[i + 1 :])
        refused(content[:i] + b' ' + content[i:])
        for mask in (*(1 << bit for bit in range(8)), 0xFF):
            refused(content[:i] + bytes([content[i] ^ mask]) + content[i + 1 :])
    refused(content + b'\0', 'length')
    refused(line + b'\n' + bytes(len(body)), 'SHA-256')  # zeros after a crash
    refused(content.replace(b'"lr": 0.2', b'"lr": 0.3'), 'SHA-256')
    for nonsense in (b'', b'\n', body, b'[' * 10_000, b'{}', b'7\n', b'\xff\n', b'null\n'):
        refused(nonsense)
    # Whoever forges a file can give it the right SHA-256. No pickle is ever loaded.
    np.savez(pickled := io.BytesIO(), np.array([print], dtype=object))
    for epoch, names, forged, words in (
        (-5, ['W'], body, 'epoch must be at least 0, not -5'),
        (3, ['W', 'b'], body, 'zip'),
        (3, ['W'], pickled.getvalue(), 'allow_pickle=False'),
        (3, ['W'], b'PK\x03\x04 no zip', ''),
    ):
        refused(checkpoint.first_line(epoch, {}, names, forged) + b'\n' + forged, words)


def test_broken_ones_are_passed_over_with_a_warning_each(tmp_path, a_minute):
    *_, empty, short, grown = (save_checkpoint(tmp_path, epoch, ARRAYS) for epoch in range(5))
    folder, pipe, link = (tmp_path / f'epoch-000{epoch}.ckpt' for epoch in (5, 6, 7))
    os.truncate(grown, 2**40)  # would be a MemoryError
    folder.mkdir()
    os.mkfifo(pipe)
    link.symlink_to('nowhere')
    short.write_bytes(short.read_bytes()[:-1])
    empty.write_bytes(b'')
    with pytest.warns(UserWarning, match='passed over') as said:
        assert latest_checkpoint(tmp_path).epoch == 1
    assert [str(w.message).split(' is broken')[0] for w in said] == [
        f'a checkpoint was passed over: {path}'
        for path in (link, pipe, folder, grown, short, empty)
    ]
    assert {w.filename for w in said} == {__file__}  # shown where it was called


# Epochs 0, 1, 2, 0, 1, 2, ... : new files at first, then old ones are replaced. All 32 arrays hold
# the number of the round, so a mixture of two rounds would be seen. 4 MB; a save takes 8 ms here.
LOOP = """
    import itertools
    from mgpu_helpers.cluster import save_checkpoint

    assert 'mxnet' not in sys.modules  # only NumPy is needed
    for round in itertools.count(int(sys.argv[2])):
        arrays = {f'W{i}': np.full((128, 256), round, 'float32') for i in range(32)}
        save_checkpoint(sys.argv[1], round % 3, arrays, round=round)
        print(round, flush=True)
"""


def check_rounds(folder):
    """Every file is complete and from a single round."""
    saved = [load_checkpoint(path) for path in folder.glob('epoch-*.ckpt')]
    for one in saved:
        assert one.epoch == one.info['round'] % 3 and len(one.arrays) == 32
        assert all((array == one.info['round']).all() for array in one.arrays.values())


# What is written beyond 1 MB of a file kills the process, or is an error, as on a full disk.
LIMIT = """
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
"""


def test_killed_in_the_middle_of_a_file_for_sure(tmp_path):
    save_checkpoint(tmp_path, 0, ARRAYS)
    before = save_checkpoint(tmp_path, 1, ARRAYS, lr=0.2).read_bytes()
    fatal = '    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n'
    assert finish(child(LIMIT + fatal + LOOP, tmp_path, 1))[0] == -signal.SIGXFSZ
    (left,) = tmp_path.glob('*.tmp')
    assert left.stat().st_size == 1 << 20
    assert latest_checkpoint(tmp_path).path.read_bytes() == before
    save_checkpoint(tmp_path, 1, ARRAYS)
    assert not left.exists()


def test_full_disk(tmp_path):
    before = save_checkpoint(tmp_path, 0, ARRAYS).read_bytes()
    words = 'File too large, so it was not saved; make room, choose a folder that you can write'
    for epoch in (0, 1):
        status, out, err = finish(child(LIMIT + LOOP, tmp_path, epoch))
        assert (status, out) == (1, '')
        assert f'OSError: [Errno {errno.EFBIG}] {words}' in err
        assert f'epoch-000{epoch}.ckpt' in err
    assert os.listdir(tmp_path) == ['epoch-0000.ckpt']
    assert latest_checkpoint(tmp_path).path.read_bytes() == before


def test_a_stop_button_in_the_middle_leaves_the_old_file_alone(tmp_path):
    path = save_checkpoint(tmp_path, 0, ARRAYS)
    before = path.read_bytes()
    with pytest.raises(KeyboardInterrupt), whole_file(path) as file:
        file.write(b'half')
        raise KeyboardInterrupt
    assert path.read_bytes() == before and os.listdir(tmp_path) == [path.name]


def test_when_a_save_returns_the_file_and_then_its_name_are_on_the_disk(tmp_path, monkeypatch):
    synced, fsync = [], os.fsync

    def note(number):
        synced.append((os.readlink(f'/proc/self/fd/{number}'), [*tmp_path.glob('*.ckpt')]))
        fsync(number)

    monkeypatch.setattr('os.fsync', note)
    path = save_checkpoint(tmp_path, 0, ARRAYS)
    (file, before), folder = synced
    assert file.startswith(f'{path}.') and not before and folder == (str(tmp_path), [path])


def test_two_processes_that_save_the_same_epochs(tmp_path):
    """No file mixes two saves, and a writer killed at a random moment leaves complete files."""
    processes = [child(LOOP, tmp_path, 0) for _ in range(2)]
    for process in processes:
        process.stdout.readline()
    check_rounds(tmp_path)
    for process in processes:
        process.kill()
    ended = [*map(finish, processes)]
    check_rounds(tmp_path)
    for status, _, err in ended:
        assert status == -signal.SIGKILL or 'let only one process save there' in err


@pytest.mark.parametrize('folder', ['file', 'file/below', '.'])
def test_a_file_in_place_of_the_folder_and_a_folder_in_place_of_the_file(tmp_path, folder):
    (tmp_path / 'file').touch()
    (tmp_path / 'epoch-0000.ckpt').mkdir()
    with pytest.raises(OSError, match='so it was not saved; make room, choose'):
        save_checkpoint(tmp_path / folder, 0, ARRAYS)
    with pytest.raises(NotADirectoryError):
        latest_checkpoint(tmp_path / 'file')
    assert sorted(os.listdir(tmp_path)) == ['epoch-0000.ckpt', 'file']


BAD = [
    ({'epoch': -1}, 'epoch must be at least 0, not -1'),
    ({'arrays': [np.zeros(3)]}, 'arrays must be a dict, name: NumPy array, not'),
    ({'arrays': {0: np.zeros(3)}}, r'arrays\[0\] is array.*: names must be texts'),
    ({'arrays': {'W': [0.0]}}, r"arrays\['W'\] is \[0.0\].*values NumPy arrays.*numpy.asarray"),
    ({'arrays': {'W': np.ma.zeros(3)}}, r"'W'\].*MaskedArray"),
    ({'arrays': {'W': np.array([None])}}, r"'W'\].*dtype=object.*pickle.*astype"),
    ({'lr': np.float32(0.2)}, "'lr': .*JSON.*float"),
    ({'lr': [1.0, float('nan')]}, r"'lr': \[1.0, nan\]} cannot be kept as JSON.*finite"),
    ({'lr': {1: 2}}, "'lr': .*come back the same.*text as keys"),
]


def test_bad_input_is_refused_before_anything_is_written(tmp_path):
    before = save_checkpoint(tmp_path / 'old', 3, ARRAYS).read_bytes()
    for folder in ('old', 'new'):
        for change, words in BAD:
            arguments = {'folder': tmp_path / folder, 'epoch': 3, 'arrays': ARRAYS} | change
            with pytest.raises((TypeError, ValueError), match=words):
                save_checkpoint(**arguments)
    assert os.listdir(tmp_path) == ['old']
    assert latest_checkpoint(tmp_path / 'old').path.read_bytes() == before
