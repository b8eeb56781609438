"""Chapter 6's checkpoints: damaged ones, full disks, two jobs at once, NaN, other data."""

import gzip
import math
import os
import random
import shutil
import subprocess

import pytest
from copied import ended

torch = pytest.importorskip('torch', reason="PyTorch is not installed: 'make setup TORCH=1'")

pytestmark = pytest.mark.usefixtures('started')
SHORT = '--epochs 1 --limit 640 --batch-size 64'


def errors(lines):
    return [line for line in lines if line.startswith('error:')]


class Saved:
    """A small network after a step of AdamW, and its checkpoint."""

    def __init__(self, ranks, folder):
        self.ranks, self.folder = ranks, folder
        self.net = torch.nn.Linear(50, 20)
        self.optimizer = torch.optim.AdamW(self.net.parameters())
        self.net(torch.ones(50)).sum().backward()
        self.optimizer.step()
        self.save(done=1)
        (self.file,) = folder.glob('step-*')

    def save(self, done, **facts):
        facts = {'epoch': 0, 'done': done} | facts
        self.ranks.checkpoints.save(self.folder, self.net, self.optimizer, facts)

    def refused(self, why):
        with pytest.raises(SystemExit, match=why):
            self.ranks.checkpoints.find(self.folder, {})


@pytest.fixture
def saved(ranks, tmp_path, monkeypatch, capsys):
    def leave(code):  # not at once: pytest goes on
        raise SystemExit(capsys.readouterr().err.strip())

    monkeypatch.setattr(ranks.ranks, 'leave', leave)
    return Saved(ranks, tmp_path / 'run')


def test_a_checkpoint_needs_its_place_alone_and_is_loaded_as_it_was_saved(ranks, saved):
    assert ranks.checkpoints.find(None) == ({}, None, None)
    assert ranks.checkpoints.find(saved.folder / 'new') == ({}, None, None)
    facts, file, sha = ranks.checkpoints.find(saved.folder)
    assert (facts, file, len(sha)) == ({'epoch': 0, 'done': 1}, saved.file, 64)
    net = torch.nn.Linear(50, 20)
    optimizer = torch.optim.AdamW(net.parameters())
    ranks.checkpoints.load(file, net, optimizer)
    digest = ranks.ranks.digest
    assert digest(net.parameters()) == digest(saved.net.parameters())
    for p, q in zip(net.parameters(), saved.net.parameters()):
        assert torch.equal(optimizer.state[p]['exp_avg'], saved.optimizer.state[q]['exp_avg'])
    checked = subprocess.run(['sha256sum', '-c', 'SHA256SUMS'], cwd=file, capture_output=True)
    assert checked.returncode == 0


def test_other_options_are_refused(ranks, saved):
    saved.save(2, options={'lr': 0.1})
    assert ranks.checkpoints.find(saved.folder, {'lr': 0.1})[0]['done'] == 2
    with pytest.raises(SystemExit, match="was saved with other options: {'lr': 0.1}"):
        ranks.checkpoints.find(saved.folder, {'lr': 0.2})


def test_data_may_be_one_file(ranks, tmp_path):
    hashes = []
    for text in ('a line\n', 'one line\n', 'two line\n'):
        (tmp_path / 'text').write_text(text)
        hashes += ranks.ranks.fingerprint(tmp_path / 'text', None)
    assert len(set(hashes)) == 3


def test_damaged_checkpoints_are_all_refused(saved):
    draw = random.Random(0)
    for i in range(1000):
        path = draw.choice(sorted(saved.file.iterdir()))
        whole = path.read_bytes()
        content = bytearray(whole)
        if i % 4:
            content[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
        else:
            del content[draw.randrange(len(whole)) :]
        path.write_bytes(content)
        saved.refused(f'^error: {saved.file} is damaged; without it, nothing is the newest')
        path.write_bytes(whole)


def test_what_is_no_checkpoint_is_damaged(saved, five_minutes):
    path = saved.file / 'facts.pt'
    whole = path.read_bytes()
    path.with_name('elsewhere').write_bytes(whole)
    saved.refused('is damaged')  # a file too many
    for make in (
        lambda: path.symlink_to('elsewhere'),
        lambda: path.symlink_to('nowhere'),
        lambda: os.mkfifo(path),  # whoever opens it waits
        lambda: path.mkdir(),
    ):
        path.unlink()
        make()
        saved.refused('is damaged')
    shutil.rmtree(saved.file)
    saved.file.mkdir()
    saved.refused('is damaged')


def test_what_cannot_be_written_is_named_and_leaves_the_old_checkpoint_alone(saved, full_disk):
    for layer in saved.net.parameters():
        layer.data = torch.ones(1 << 20)
    with pytest.raises(SystemExit, match='is the disk full'):
        saved.save(2)
    assert [path.name for path in saved.folder.glob('step-*')] == [saved.file.name]
    assert saved.ranks.checkpoints.find(saved.folder)[0]['done'] == 1


def test_a_parameter_that_is_no_number_is_not_saved(saved):
    saved.net.bias.data[3] = math.inf
    with pytest.raises(
        SystemExit, match='^error: step-00000-00000002 is not saved: bias is not fi'
    ):
        saved.save(2)
    assert [path.name for path in saved.folder.iterdir()] == [saved.file.name]


def test_a_second_job_in_a_folder_gets_one_sentence(alone):
    with alone.start('--epochs 10000 --limit 640 --checkpoint run') as first:
        assert first.stdout.readline().startswith('epoch 1,')
        (said,) = errors(alone.run(f'{SHORT} --checkpoint run', 2, status=1))
        assert said.startswith('error: run: another job trains there')
        assert first.poll() is None
        first.kill()
        ended(first, 60)
    shutil.rmtree(alone.folder / 'run')
    (alone.folder / 'run' / '.new-step').mkdir(parents=True)  # half a checkpoint
    alone.run('--epochs 1 --limit 640 --checkpoint run')
    names = {path.name for path in (alone.folder / 'run').iterdir()}
    assert names == {'best', 'lock', 'step-00000-00000003'}


def test_a_loss_that_is_no_number_stops_all_before_it_is_saved(alone):
    said = alone.run(f'{SHORT} --lr 1e30 --every 1 --checkpoint run', 2, status=1)
    (line,) = errors(said)
    assert line.startswith('error: epoch 1, step ') and 'nan' in line
    assert alone.parameters('run').isfinite().all()


def test_the_last_k_checkpoints_are_kept_and_the_newest_is_taken(alone):
    run = alone.folder / 'run'
    alone.run(f'{SHORT} --every 3 --keep 3 --checkpoint run')  # steps 3, 6, 9 and 10
    names = [f'step-00000-{step:08}' for step in (6, 9, 10)]
    assert sorted(path.name for path in run.glob('step-*')) == names
    shutil.rmtree(run / names[2])  # back to step 9, and on from there
    alone.run(f'{SHORT} --every 3 --keep 3 --checkpoint run')
    assert sorted(path.name for path in run.glob('step-*')) == names


@pytest.mark.slow
def test_other_data_after_a_restart_are_noticed(alone):
    alone.run(f'{SHORT} --checkpoint run')
    data = os.path.join(os.environ['MXNET_HOME'], 'datasets', 'fashion-mnist')
    (alone.folder / 'other').mkdir()
    for name in os.listdir(data):  # one label of the test, the last, is another one
        content = gzip.decompress(open(os.path.join(data, name), 'rb').read())
        end = b'\0' if name == 't10k-labels-idx1-ubyte.gz' else content[-1:]
        with gzip.GzipFile(alone.folder / 'other' / name, 'w', 1, mtime=0) as file:
            file.write(content[:-1] + end)
    (said,) = alone.run(f'{SHORT} --checkpoint run --data other', status=1)
    assert 'was saved with other options' in said and 'data' in said


@pytest.mark.slow
def test_a_step_with_fewer_examples_than_ranks_counts_them_once(alone):
    options = '--epochs 1 --limit 65 --batch-size 64 --dtype float64 --checkpoint'
    alone.run(f'{options} one')
    alone.run(f'{options} three', 3)
    assert (alone.parameters('one') - alone.parameters('three')).abs().max() < 1e-12


@pytest.mark.slow
def test_saving_may_take_longer_than_a_rank_waits(alone):
    (alone.folder / 'slow.py').write_text("""
import runpy, time, checkpoints
finish = checkpoints.finish
checkpoints.finish = lambda *what: (time.sleep(15), finish(*what))
runpy.run_path('train_ddp.py', run_name='__main__')
""")
    alone.run(f'{SHORT} --timeout 10 --checkpoint run', 2, script='slow.py')
    assert alone.parameters('run').isfinite().all()


@pytest.mark.slow
def test_sharded_and_whole_go_on_from_each_other_bit_for_bit(alone):
    options = '--limit 320 --batch-size 64 --adamw --lr 0.001 --digest'
    whole = alone.run(f'{options} --epochs 2', 2)
    for first, second in (('--shard', '--shard'), ('--shard', ''), ('', '--shard')):
        shutil.rmtree(alone.folder / 'run', ignore_errors=True)
        alone.run(f'{options} --epochs 1 --checkpoint run {first}', 2)
        again = alone.run(f'{options} --epochs 2 --checkpoint run {second}', 2)
        assert again[-1] == whole[-1]


def test_who_exits_with_0_in_a_group_ends_with_0(alone):
    (alone.folder / 'zero.py').write_text("""
import sys, ranks
with ranks.together('cpu', 60):
    sys.exit(0)
""")
    assert alone.run('', script='zero.py') == []
