"""Checkpoints: what is saved comes back, and a killed process or a full disk spoils nothing."""

import contextlib
import errno
import json
import os
import random
import re
import signal
import subprocess
import sys
import textwrap
import time
import warnings

import numpy as np
import pytest
from checkouts import ROOT

from mgpu_helpers.cluster import (
    BrokenCheckpoint,
    files,
    latest_checkpoint,
    load_checkpoint,
    save_checkpoint,
)

ARRAYS = {'W': np.arange(6, dtype='float32').reshape(2, 3), 'b': np.zeros(3)}
INFO = {'seed': 0, 'lr': 0.2, 'history': {'test_acc': [0.5, 0.75]}, 'note': 'ä "quoted"\n'}


def same(ours, theirs):
    """Equal names in the same order, and equal arrays: type, shape and every bit."""
    assert list(ours) == list(theirs)
    for name, array in ours.items():
        assert type(array) is np.ndarray and array.flags.writeable
        assert (array.dtype, array.shape) == (theirs[name].dtype, theirs[name].shape)
        assert array.tobytes() == theirs[name].tobytes()


def child(code, *args, **options):
    """Start a process that has what a checkpoint needs."""
    code = 'import os, signal, sys\nimport numpy as np\n' + textwrap.dedent(code)
    return subprocess.Popen(
        [sys.executable, '-c', code, *map(str, args)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options,
    )  # fmt: skip


def finish(process):
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def checkpoints(folder):
    """Load every checkpoint in a folder; none may be broken."""
    return [load_checkpoint(path) for path in sorted(folder.glob('epoch-*.ckpt'))]


def latest(folder):
    """Give the latest checkpoint, which no broken one may precede."""
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        return latest_checkpoint(folder)


def test_what_is_saved_comes_back(tmp_path):
    path = save_checkpoint(tmp_path / 'new' / 'run', 3, ARRAYS, **INFO)
    assert path == tmp_path / 'new' / 'run' / 'epoch-0003.ckpt'
    found = load_checkpoint(str(path))
    assert (found.epoch, found.info, found.path) == (3, INFO, path)
    same(found.arrays, ARRAYS)
    assert repr(found) == f'Checkpoint(epoch=3, info={INFO!r}, path={path!r})'
    with pytest.raises(AttributeError):
        found.epoch = 4
    assert os.listdir(path.parent) == ['epoch-0003.ckpt']
    with open(path, 'rb') as file:
        head = json.loads(file.readline())  # for people
        with np.load(file) as arrays:
            assert [arrays[name].shape for name in arrays.files] == [(2, 3), (3,)]
    assert (head['epoch'], head['info'], head['names']) == (3, INFO, ['W', 'b'])


TYPES = ['float16', 'float32', 'float64', '>f4', 'int8', 'uint64', 'bool', 'complex64', 'U3']
TYPES += ['datetime64[s]', [('x', '<f4'), ('y', '<i2', (2,))]]


def test_types_shapes_layouts_and_names(tmp_path):
    arrays = {}
    for dtype in map(np.dtype, TYPES):
        # From random bits: infinities and NaNs with any payload come back, too.
        bits = random.Random(0).randbytes(dtype.itemsize * 15)
        flat = np.frombuffer(bytes(len(bits)) if dtype.kind in 'bUM' else bits, dtype)
        for shape in [(), (0,), (3, 0, 2), (1,), (5, 3)]:
            arrays[f'{dtype} {shape}'] = flat[: int(np.prod(shape))].reshape(shape)
    whole = np.arange(24.0).reshape(4, 6)
    whole.flags.writeable = False
    arrays |= {'turned': whole.T, 'every other': whole[::2, ::-3], 'read only': whole}
    arrays['broadcast'] = np.broadcast_to(np.float32(1), (3, 2))
    names = 'body.0.weight x.npy file arr_0 args allow_pickle ä epoch a a/ .. /etc/x ../x'.split()
    names += [
        '',
        'new\nline',
        '\0',
        'a\\b',
        'x' * 70_000,
        'half a pair \ud800',
        *map(str, range(12)),
    ]
    arrays |= {name: np.array(i) for i, name in enumerate(names)}
    found = load_checkpoint(save_checkpoint(tmp_path, np.int64(0), arrays))
    same(found.arrays, arrays)
    assert (found.epoch, found.info) == (0, {}) and type(found.epoch) is int
    assert load_checkpoint(save_checkpoint(tmp_path, 0, {})).arrays == {}


def test_the_newest_is_found_by_number(tmp_path):
    assert latest(tmp_path / 'missing') is None and latest(tmp_path) is None
    for epoch in (9999, 10_000, 10, 9):
        save_checkpoint(tmp_path, epoch, ARRAYS)
    for name in ('epoch-99999.ckpt.tmp', 'epoch-99999.txt', 'my-epoch-99999.ckpt', 'epoch-.ckpt'):
        (tmp_path / name).write_text('something else')
    (tmp_path / 'epoch-10001.ckpt.0f.tmp').write_bytes(b'left by a killed process')
    assert latest(tmp_path).epoch == 10_000


def test_saving_again_replaces_and_a_shared_folder_is_for_everybody(tmp_path):
    save_checkpoint(tmp_path, 3, ARRAYS, lr=0.2)
    old = os.umask(0o022)
    try:
        path = save_checkpoint(tmp_path, 3, {'W': np.ones(1)}, lr=0.1)
    finally:
        os.umask(old)
    assert path.stat().st_mode & 0o777 == 0o644
    assert latest(tmp_path).info == {'lr': 0.1} and os.listdir(tmp_path) == ['epoch-0003.ckpt']


def test_mxnet_is_not_imported(tmp_path):
    code = """
        from mgpu_helpers.cluster import latest_checkpoint, save_checkpoint
        save_checkpoint(sys.argv[1], 0, {'W': np.zeros(3)})
        print(latest_checkpoint(sys.argv[1]).epoch, 'mxnet' in sys.modules)
    """
    assert finish(child(code, tmp_path)) == (0, '0 False\n', '')


# --- broken files -------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path):
    path = save_checkpoint(tmp_path, 3, {'W': np.arange(3, dtype='float32')}, lr=0.2)
    return path, path.read_bytes()


def refused(path, content, words='is broken'):
    path.write_bytes(content)
    with pytest.raises(BrokenCheckpoint, match=words) as caught:
        load_checkpoint(path)
    return str(caught.value)


# Each byte of a file in the long run of the tests, each 23rd in the short one.
@pytest.mark.parametrize('every', [23, pytest.param(1, marks=pytest.mark.slow)])
def test_whatever_is_lost_changed_or_moved_the_file_is_refused(small, every):
    path, content = small
    for i in range(0, len(content), every):
        message = refused(path, content[:i])
        assert message.startswith(f'{path} is broken: ')
        assert 'Resume from an older checkpoint, as latest_checkpoint does' in message
        refused(path, content[:i] + content[i + 1 :])
        refused(path, content[:i] + b' ' + content[i:])
        for mask in (*(1 << bit for bit in range(8)), 0xFF):
            refused(path, content[:i] + bytes([content[i] ^ mask]) + content[i + 1 :])
    end = content.index(b'\n') + 1
    refused(path, content + b'\0', 'bytes should follow its first line')
    refused(path, content + content)
    refused(path, content[:end] + bytes(len(content) - end), 'SHA-256')  # zeros after a crash


def test_what_is_wrong_is_said(small):
    path, content = small
    line, _, body = content.partition(b'\n')
    assert f'{len(body)} bytes should follow its first line, 7 do' in refused(
        path, line + b'\n' + body[:7]
    )
    assert 'SHA-256' in refused(path, content.replace(b'"lr": 0.2', b'"lr": 0.3'))
    assert 'SHA-256' in refused(path, content.replace(b'"epoch": 3', b'"epoch": 4'))
    for nonsense in (b'', b'\n', body, b'[' * 10_000, b'[]', b'{}', b'7\n', b'\xff\n', b'null\n'):
        assert 'its first line is not that of a checkpoint' in refused(path, nonsense)
    newer = content.replace(b'"version": 1', b'"version": 2')
    assert 'version 2 of the format, and this program reads version 1' in refused(path, newer)
    more = content.replace(b'"size"', b'"length"')
    assert 'names, length, sha256 instead of' in refused(path, more)
    for value in (b'NaN', b'1e400', b'[[]]', b'"x"', b'1' * 5000, b'-1', b'null'):
        refused(path, content.replace(b'"epoch": 3', b'"epoch": ' + value))
        refused(path, re.sub(b'"size": [0-9]+', b'"size": ' + value, content))
        refused(path, content.replace(b'["W"]', value))


def test_no_pickle_is_ever_loaded(tmp_path):
    """Not even from a file whose SHA-256 is right."""
    body = files.npz({'x': np.array([print], dtype=object)})
    path = tmp_path / 'epoch-0000.ckpt'
    path.write_bytes(files.first_line(0, {}, ['x'], body) + b'\n' + body)
    with pytest.raises(ValueError, match='allow_pickle=False'):
        load_checkpoint(path)


def test_broken_ones_are_passed_over_with_a_warning_each(tmp_path):
    paths = [save_checkpoint(tmp_path, epoch, ARRAYS) for epoch in range(4)]
    paths[3].write_bytes(paths[3].read_bytes()[:-1])
    paths[2].write_bytes(b'')
    with pytest.warns(UserWarning, match='passed over') as caught:
        assert latest_checkpoint(tmp_path).epoch == 1
    assert [str(w.message).split(' is broken')[0] for w in caught] == [
        f'a checkpoint was passed over: {path}' for path in (paths[3], paths[2])
    ]
    assert {w.filename for w in caught} == {__file__}  # shown where it was called
    paths[0].write_bytes(b''), paths[1].write_bytes(b'')
    with pytest.warns(UserWarning) as caught:
        assert latest_checkpoint(tmp_path) is None
    assert len(caught) == 4


def test_what_cannot_be_read_is_no_broken_checkpoint(tmp_path):
    with pytest.raises(FileNotFoundError, match='epoch-0003'):
        load_checkpoint(tmp_path / 'epoch-0003.ckpt')
    (tmp_path / 'epoch-0003.ckpt').mkdir()
    with pytest.raises(IsADirectoryError, match='epoch-0003'):
        latest_checkpoint(tmp_path)
    (tmp_path / 'file').touch()
    with pytest.raises(NotADirectoryError, match='file'):
        latest_checkpoint(tmp_path / 'file')


# --- processes that are killed ------------------------------------------------------------------

# Epochs 0, 1, 2, 0, 1, 2, ... : new files at first, then old ones are replaced. All 32 arrays hold
# the number of the round, so a mixture of two rounds would be seen. 4 MB; a save takes 8 ms here.
LOOP = """
    import itertools
    from mgpu_helpers.cluster import save_checkpoint

    for round in itertools.count(int(sys.argv[2])):
        arrays = {f'W{i}': np.full((128, 256), round, 'float32') for i in range(32)}
        save_checkpoint(sys.argv[1], round % 3, arrays, round=round)
        print(round, flush=True)
"""


def check_rounds(folder):
    """Every file is whole and of one round; give the highest round."""
    found = checkpoints(folder)
    for one in found:
        assert one.epoch == one.info['round'] % 3 and len(one.arrays) == 32
        assert all((array == one.info['round']).all() for array in one.arrays.values())
    return max((one.info['round'] for one in found), default=-1)


@pytest.mark.parametrize('times', [4, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_at_random_moments(tmp_path, times):
    """Most often in the middle of a file: 14 of 20 here."""
    moments, said = random.Random(4), -1
    for _ in range(times):
        process = child(LOOP, tmp_path, said + 1)
        said = int(process.stdout.readline())
        time.sleep(moments.uniform(0, 0.05))
        process.kill()
        status, out, err = finish(process)
        assert status == -signal.SIGKILL and not err
        said = max([said, *map(int, re.findall('([0-9]+)\n', out))])
        assert said <= check_rounds(tmp_path) <= said + 1
        assert latest(tmp_path).epoch == min(2, check_rounds(tmp_path))
        said = check_rounds(tmp_path)
    for epoch in range(3):
        save_checkpoint(tmp_path, epoch, ARRAYS)
    assert sorted(os.listdir(tmp_path)) == [f'epoch-000{epoch}.ckpt' for epoch in range(3)]


@pytest.mark.parametrize('limit', [0, 1 << 20])
def test_killed_in_the_middle_of_a_file_for_sure(tmp_path, limit):
    """A process that writes beyond a limit on the size of files is killed by SIGXFSZ."""
    save_checkpoint(tmp_path, 0, ARRAYS)
    before = save_checkpoint(tmp_path, 1, ARRAYS, lr=0.2).read_bytes()
    code = f"""
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it, and gets an error
        sys.argv[2] = 1
    """
    assert finish(child(textwrap.dedent(code) + textwrap.dedent(LOOP), tmp_path, 1))[0] == (
        -signal.SIGXFSZ
    )
    (left,) = tmp_path.glob('*.tmp')
    assert left.stat().st_size == limit
    assert [one.epoch for one in checkpoints(tmp_path)] == [0, 1]
    assert latest(tmp_path).path.read_bytes() == before
    save_checkpoint(tmp_path, 0, ARRAYS)
    assert left.exists()  # it may belong to a process that saves epoch 1 just now
    save_checkpoint(tmp_path, 1, ARRAYS)
    assert not left.exists()


def test_a_stop_button_in_the_middle_leaves_nothing(tmp_path):
    """Ctrl-C raises KeyboardInterrupt anywhere: no temporary file may stay."""
    for delay in (0.001, 0.005):
        process = child(LOOP, tmp_path, 0)
        process.stdout.readline()
        time.sleep(delay)
        # Python drops an interrupt that comes while it clears away a ZipFile (1 in 40 here), and
        # goes on; a user would press once more.
        for _ in range(10):
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=3)
                break
        assert 'KeyboardInterrupt' in finish(process)[2]
        check_rounds(tmp_path)
        assert not list(tmp_path.glob('*.tmp'))


def test_two_processes_that_save_the_same_epochs(tmp_path):
    """A mistake, and it is said; but no file is ever a mixture."""
    processes = [child(LOOP, tmp_path, 0) for _ in range(2)]
    for process in processes:
        process.stdout.readline()  # none is left to a deadlock: one that failed closes its pipe
    for _ in range(5):
        check_rounds(tmp_path)
    for process in processes:
        process.kill()
    for status, _, err in map(finish, processes):
        if status != -signal.SIGKILL:
            assert 'FileNotFoundError' in err and 'let only one process save into a folder' in err


# --- what cannot be saved -----------------------------------------------------------------------


def test_full_disk(tmp_path):
    """A limit on the size of files stands for a full disk: the write itself fails."""
    before = save_checkpoint(tmp_path, 0, ARRAYS).read_bytes()
    code = """
        import resource
        from mgpu_helpers.cluster import save_checkpoint
        for epoch, limit in enumerate((10, 1 << 20)):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            try:
                save_checkpoint(sys.argv[1], epoch, {'W': np.zeros((1000, 1000))})
            except OSError as error:
                print(error.errno, error)
    """
    status, out, err = finish(child(code, tmp_path))
    assert (status, err) == (0, '')
    for line, epoch in zip(out.splitlines(), (0, 1), strict=True):
        assert line.startswith(f'{errno.EFBIG} [Errno {errno.EFBIG}] File too large, so it was not')
        assert 'make room, or choose a folder that you can write. Older checkpoints are' in line
        assert f'epoch-000{epoch}.ckpt' in line
    assert os.listdir(tmp_path) == ['epoch-0000.ckpt']
    assert latest(tmp_path).path.read_bytes() == before


def test_read_only_folder(tmp_path):
    save_checkpoint(tmp_path, 0, ARRAYS)
    code = """
        from mgpu_helpers.cluster import latest_checkpoint, save_checkpoint
        latest_checkpoint('.')
        if os.geteuid() == 0:  # no permission stops root, so be nobody
            os.setuid(65534)
        for folder in ('.', 'new'):
            try:
                save_checkpoint(folder, 1, {'W': np.zeros(3)})
            except PermissionError as error:
                print(error)
        print(latest_checkpoint('.').epoch)
    """
    tmp_path.chmod(0o555)
    try:
        status, out, err = finish(
            child(code, cwd=tmp_path, env=os.environ | {'PYTHONPATH': str(ROOT)})
        )
    finally:
        tmp_path.chmod(0o755)
    assert (status, err) == (0, '')
    assert out.count('Permission denied, so it was not saved; make room, or choose') == 2
    assert "'epoch-0001.ckpt'" in out and "'new/epoch-0001.ckpt'" in out
    assert out.endswith('\n0\n') and os.listdir(tmp_path) == ['epoch-0000.ckpt']


def test_a_file_in_place_of_the_folder_and_a_folder_in_place_of_the_file(tmp_path):
    (tmp_path / 'file').write_text('mine')
    for folder in ('file', 'file/below'):
        with pytest.raises(OSError, match='so it was not saved.*file'):
            save_checkpoint(tmp_path / folder, 0, ARRAYS)
    (tmp_path / 'epoch-0000.ckpt').mkdir()
    with pytest.raises(IsADirectoryError, match='so it was not saved'):
        save_checkpoint(tmp_path, 0, ARRAYS)
    assert sorted(os.listdir(tmp_path)) == ['epoch-0000.ckpt', 'file']


def test_a_file_system_that_cannot_sync_a_folder():
    with pytest.raises(OSError, match=re.escape(os.strerror(errno.EINVAL))):
        number = os.open('/proc', os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
    files.sync_folder('/proc')


class Later(np.ndarray):
    """A subclass, such as a masked array: what it adds would be lost."""


endless = []
endless.append(endless)


@pytest.mark.parametrize(
    ('change', 'error', 'words'),
    [
        ({'epoch': -1}, ValueError, 'epoch must be at least 0, not -1'),
        ({'epoch': None}, TypeError, 'epoch.*None'),
        ({'arrays': [np.zeros(3)]}, TypeError, 'arrays must be a dict.*enumerate'),
        ({'arrays': None}, TypeError, 'arrays must be a dict.*None'),
        ({'arrays': {0: np.zeros(3)}}, TypeError, 'names in arrays must be texts, not 0'),
        ({'arrays': {'W': [0.0]}}, TypeError, r"arrays\['W'\] must be a NumPy array.*numpy.asarr"),
        ({'arrays': {'W': 0.5}}, TypeError, r"'W'\].*not 0.5.*pass it in info"),
        ({'arrays': {'W': np.float32(1)}}, TypeError, r"'W'\].*numpy.asarray"),
        ({'arrays': {'W': np.ma.zeros(3)}}, TypeError, r"'W'\].*MaskedArray"),
        ({'arrays': {'W': np.zeros(3).view(Later)}}, TypeError, r"'W'\].*Later"),
        ({'arrays': {'W': np.array([None])}}, TypeError, r"'W'\].*not object.*pickle.*astype"),
        ({'arrays': {'W': np.zeros(2, [('x', 'O')])}}, TypeError, r"'W'\].*pickle"),
        ({'lr': np.float32(0.2)}, TypeError, 'lr=.*JSON.*float32.*float'),
        ({'lr': np.zeros(3)}, TypeError, 'lr=.*arrays belong into arrays'),
        ({'lr': float('nan')}, ValueError, 'lr=nan cannot be kept as JSON.*finite'),
        ({'lr': [1.0, float('inf')]}, ValueError, 'lr=.*inf'),
        ({'lr': (1, 2)}, TypeError, r'lr=\(1, 2\).*come back as something else.*lists'),
        ({'lr': {1: 2}}, TypeError, 'lr=.*come back as something else.*text as keys'),
        ({'lr': {1, 2}}, TypeError, 'lr=.*set is not JSON'),
        ({'lr': endless}, ValueError, 'lr=.*Circular'),
        ({'folder': 7}, TypeError, 'int'),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(tmp_path, change, error, words):
    before = save_checkpoint(tmp_path / 'old', 3, ARRAYS).read_bytes()
    for folder in ('old', 'new'):
        arguments = {'folder': tmp_path / folder, 'epoch': 3, 'arrays': ARRAYS, 'lr': 0.2} | change
        with pytest.raises(error, match=words):
            save_checkpoint(**arguments)
    assert os.listdir(tmp_path) == ['old']
    assert latest(tmp_path / 'old').path.read_bytes() == before


def test_types_from_outside_numpy_are_refused(tmp_path):
    """Such as bfloat16 of ml_dtypes: the file would not know what they are."""
    core = 'numpy.core' if np.__version__.startswith('1.') else 'numpy._core'
    tests = pytest.importorskip(f'{core}._rational_tests', reason='NumPy has none to try')
    array = np.zeros(2, dtype=tests.rational)
    with pytest.raises(TypeError, match=r"'W'\] must hold numbers of a type of NumPy.*rational"):
        save_checkpoint(tmp_path, 0, {'W': array})
    assert not os.listdir(tmp_path)
