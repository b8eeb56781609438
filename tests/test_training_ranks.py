"""Chapter 6's ranks.py: damaged checkpoints, full disks, two jobs at once, losses of NaN."""

import gzip
import hashlib
import math
import os
import random

import pytest
from copied import ended

torch = pytest.importorskip('torch', reason="PyTorch is not installed: 'make setup TORCH=1'")

pytestmark = pytest.mark.usefixtures('started')
SHORT = '--epochs 1 --limit 640 --batch-size 64'


def errors(lines):
    return [line for line in lines if line.startswith('error:')]


@pytest.fixture
def saved(ranks, tmp_path):
    """A checkpoint of two parameters, one of them in bfloat16, and its options."""
    net = {'w': torch.ones(1000), 'b': torch.ones(10, dtype=torch.bfloat16)}
    state = {'options': {'lr': 0.1}, 'net': net, 'optimizer': {}}
    ranks.save(tmp_path / 'run' / 'checkpoint.pt', state)
    return tmp_path / 'run' / 'checkpoint.pt'


def test_a_checkpoint_is_loaded_only_as_it_was_saved(ranks, saved):
    assert ranks.load(None, {}) == ranks.load(saved.with_name('new'), {}) == ({}, None)
    state, sha = ranks.load(saved, {'lr': 0.1})
    assert state['net']['b'].dtype == torch.bfloat16 and len(sha) == 64
    assert len(ranks.digest(state['net'].values())) == 64
    assert [path.name for path in saved.parent.iterdir()] == ['checkpoint.pt']
    with pytest.raises(SystemExit, match="was saved with other options: {'lr': 0.1}"):
        ranks.load(saved, {'lr': 0.2})


def test_damaged_checkpoints_are_all_refused(ranks, saved):
    whole, draw = saved.read_bytes(), random.Random(0)
    for i in range(200):
        content = bytearray(whole)
        if i % 4:
            content[draw.randrange(max(0, len(whole) - 6000), len(whole))] ^= 1 << draw.randrange(8)
        else:
            del content[draw.randrange(len(whole)) :]
        saved.write_bytes(content)
        with pytest.raises(SystemExit, match=f'^error: {saved} is damaged$'):
            ranks.load(saved, {'lr': 0.1})


def test_what_is_no_checkpoint_is_damaged(ranks, saved, a_minute):
    def check():
        with pytest.raises(SystemExit, match=f'^error: {saved} is damaged$'):
            ranks.load(saved, {'lr': 0.1})

    whole = saved.read_bytes()
    for state in [torch.ones(3)], {'options': {'lr': 0.1}}, {'net': {}}:
        torch.save(state, saved)
        saved.write_bytes(saved.read_bytes() + hashlib.sha256(saved.read_bytes()).digest())
        check()
    torch.save({'options': {'lr': 0.1}, 'net': {}, 'optimizer': {}}, saved)  # without its hash
    check()
    for content in b'', b'not even a zip file', 40 * b'\0':
        saved.write_bytes(content)
        check()
    saved.with_name('elsewhere').write_bytes(whole)
    for make in (
        lambda: saved.symlink_to('elsewhere'),
        lambda: saved.symlink_to('nowhere'),
        lambda: os.mkfifo(saved),  # whoever opens it waits
        lambda: saved.mkdir(),
    ):
        saved.unlink()
        make()
        check()


def test_a_full_disk_is_named_and_leaves_the_old_checkpoint_alone(ranks, saved, full_disk):
    whole = saved.read_bytes()
    with pytest.raises(SystemExit, match=rf'^error: {saved} is not saved: \[Errno \d+\] '):
        ranks.save(saved, {'net': {'w': torch.ones(1 << 20)}})
    assert saved.read_bytes() == whole
    assert [path.name for path in saved.parent.iterdir()] == ['checkpoint.pt']


def test_a_second_job_in_a_folder_gets_one_sentence(alone):
    with alone.start('--epochs 10000 --limit 640 --checkpoint run') as first:
        assert first.stdout.readline().startswith('epoch 1,')
        (said,) = errors(alone.run(f'{SHORT} --checkpoint run', 2, status=1))
        assert said.startswith('error: run: another job trains there')
        assert first.poll() is None
        first.kill()
        ended(first, 60)
    (alone.folder / 'run' / 'checkpoint.pt.0123').write_text('half a checkpoint')
    alone.run('--epochs 1 --limit 640 --checkpoint run')
    assert {path.name for path in (alone.folder / 'run').iterdir()} == {'checkpoint.pt', 'lock'}


def test_a_loss_that_is_no_number_stops_all_before_it_is_saved(alone):
    said = alone.run(f'{SHORT} --lr 1e30 --every 1 --checkpoint run', 2, status=1)
    (line,) = errors(said)
    assert line.startswith('error: epoch 1, step ') and 'nan' in line
    parameters = alone.parameters('run')
    assert parameters.isfinite().all() and parameters.abs().max() > 1e6


def test_a_parameter_that_is_no_number_is_not_saved(ranks, saved):
    whole = saved.read_bytes()
    net = {'n': torch.tensor(3), 'w': torch.tensor([0.0, math.inf])}
    with pytest.raises(SystemExit, match='^error: epoch 2, step 5: .* a parameter is not finite$'):
        ranks.save(saved, {'net': net, 'epoch': 1, 'done': 5})
    assert saved.read_bytes() == whole


def test_the_last_k_checkpoints_are_kept(alone, ranks):
    run = alone.folder / 'run'
    alone.run(f'{SHORT} --every 3 --keep 3 --checkpoint run')  # steps 3, 6, 9 and 10
    names = [f'step-00000-{step:08}.pt' for step in (6, 9, 10)]
    assert sorted(path.name for path in run.iterdir()) == ['checkpoint.pt', 'lock', *names]
    assert (run / 'checkpoint.pt').read_bytes() == (run / names[-1]).read_bytes()
    (run / names[1]).replace(run / 'checkpoint.pt')  # back to step 9, and on from there
    alone.run(f'{SHORT} --every 3 --keep 3 --checkpoint run')
    assert sorted(path.name for path in run.glob('step*')) == [names[0], names[2]]


@pytest.mark.slow
def test_other_data_after_a_restart_are_noticed(alone):
    alone.run(f'{SHORT} --checkpoint run')
    data = os.path.join(os.environ['MXNET_HOME'], 'datasets', 'fashion-mnist')
    (alone.folder / 'other').mkdir()
    for name in os.listdir(data):
        theirs = name.replace('train', 't10k')  # the test images stand in for the others
        (alone.folder / 'other' / name).symlink_to(os.path.join(data, theirs))
    (said,) = alone.run(f'{SHORT} --checkpoint run --data other', status=1)
    assert 'was saved with other options' in said and 'data' in said
    for name in os.listdir(data):  # one label of the test, the last
        content = gzip.decompress(open(os.path.join(data, name), 'rb').read())
        (alone.folder / 'other' / name).unlink()
        end = b'\0' if name == 't10k-labels-idx1-ubyte.gz' else content[-1:]
        with gzip.GzipFile(alone.folder / 'other' / name, 'w', 1, mtime=0) as file:
            file.write(content[:-1] + end)
    (said,) = alone.run(f'{SHORT} --checkpoint run --data other', status=1)
    assert 'was saved with other options' in said


def test_where_it_cannot_train_it_says_so_at_once(alone, monkeypatch):
    if not torch.cuda.is_available():
        (said,) = alone.run(f'{SHORT} --device cuda', status=1)
        assert said == 'error: --device cuda: 1 processes here, and 0 GPUs'
    monkeypatch.setenv('SLURM_NTASKS', '8')
    (said,) = alone.run(SHORT, status=1)
    assert said.startswith('error: Slurm tells no process its rank')


@pytest.mark.slow
def test_a_step_with_fewer_examples_than_ranks_counts_them_once(alone):
    options = '--epochs 1 --limit 65 --batch-size 64 --dtype float64 --checkpoint'
    alone.run(f'{options} one')
    alone.run(f'{options} three', 3)
    assert (alone.parameters('one') - alone.parameters('three')).abs().max() < 1e-10


@pytest.mark.slow
def test_saving_may_take_longer_than_a_rank_waits(alone):
    (alone.folder / 'slow.py').write_text("""
import runpy, time, ranks
save = ranks.save
ranks.save = lambda *what: (time.sleep(15), save(*what))
runpy.run_path('train_ddp.py', run_name='__main__')
""")
    alone.run(f'{SHORT} --timeout 10 --checkpoint run', 2, script='slow.py')
    assert alone.parameters('run').isfinite().all()


@pytest.mark.slow  # the chapter kills one
@pytest.mark.parametrize('more', ['--momentum 0.9', '--adamw --lr 0.001 --decay 0.1 --shard'])
def test_it_goes_on_with_each_optimizer_bit_for_bit(alone, more):
    options = f'--limit 320 --batch-size 64 --warmup 8 --cosine 20 --digest {more}'
    whole = alone.run(f'{options} --epochs 2', 2)
    alone.run(f'{options} --epochs 1 --checkpoint run', 2)
    assert alone.run(f'{options} --epochs 2 --checkpoint run', 2)[-1] == whole[-1]
