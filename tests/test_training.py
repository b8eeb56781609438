"""Chapter 6's scripts, copied into an empty folder and run there, as their readers do."""

import ast
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time

import psutil
import pytest
from checkouts import ROOT
from copied import ended, workers

torch = pytest.importorskip('torch', reason="PyTorch is not installed: 'make setup TORCH=1'")

pytestmark = pytest.mark.usefixtures('started')  # nothing is left behind
SMALL = '--epochs 1 --limit 1001 --batch-size 64 --dtype float64'  # its last step has 41 examples


def losses(lines):
    return [float(line.split('train loss: ')[1].split(',')[0]) for line in lines if 'loss' in line]


def test_the_scripts_import_pytorch_and_numpy_alone():
    for script in (ROOT / 'training').rglob('*.py'):
        names = set()
        for node in ast.walk(ast.parse(script.read_text(encoding='utf8'))):
            if isinstance(node, ast.Import):
                names |= {name.name.split('.')[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom):
                names.add(node.module.split('.')[0])
        ours = {'exact', 'ranks', 'checkpoints', 'step1', 'step2', 'tasks', 'torch', 'numpy'}
        assert names - set(sys.stdlib_module_names) <= ours, script


@pytest.mark.slow  # the chapter compares one rank and two
def test_every_step_trains_and_the_exact_ones_agree(alone):
    one = [alone.run(SMALL, script=f'step{i}.py') for i in (1,)]
    one += [alone.run(SMALL, 1, script=f'step{i}.py') for i in (2, 3, 4)] + [alone.run(SMALL)]
    assert losses(one[0]) == losses(one[1]) and losses(one[2]) == losses(one[3]) == losses(one[4])
    for script in 'step3.py', 'step4.py', 'train_ddp.py':
        assert losses(alone.run(f'{SMALL} --accumulate 2', 3, script=script)) == losses(one[2])


@pytest.mark.slow
def test_each_rank_draws_numbers_of_its_own_also_where_build_seeds_all_alike(alone):
    alone.run('--epochs 1 --limit 64 --checkpoint seeded', 2)
    (folder,) = (alone.folder / 'seeded').glob('step-*')
    ((first,), (second,)) = torch.load(folder / 'facts.pt', weights_only=True)['random']
    assert not torch.equal(first, second)


def test_what_is_wrong_is_named_in_a_sentence(ranks, monkeypatch, capsys):
    import train_ddp

    for options, said in {
        '--epochs 0': '--epochs: must be a whole number above 0, not 0',
        '--batch-size x': '--batch-size: must be a whole number above 0, not x',
        '--lr nan': '--lr: must be a number above 0, not nan',
        '--clip inf': '--clip: must be a number above 0, not inf',
        '--seed -1': '--seed: must be a whole number from 0, not -1',
        '--num-workers -1': '--num-workers: must be a whole number from 0, not -1',
        '--dtype float16': "--dtype: invalid choice: 'float16'",
        '--learning-rate 1': '--learning-rate',
    }.items():
        monkeypatch.setattr(sys, 'argv', ['train_ddp.py', *options.split()])
        with pytest.raises(SystemExit) as ended:
            ranks.tasks.parse('', train_ddp.options)
        last = capsys.readouterr().err.splitlines()[-1]
        assert ended.value.code == 2 and last.startswith('train_ddp.py: error: ') and said in last


def test_too_few_gpus_and_too_few_tasks_of_slurm_are_named(ranks, monkeypatch):
    monkeypatch.setattr(torch.cuda, 'device_count', lambda: 1)
    monkeypatch.setenv('LOCAL_WORLD_SIZE', '2')
    with pytest.raises(SystemExit, match='2 processes but 1 GPUs: start fewer, or use --device'):
        ranks.ranks.device_of('auto')
    assert ranks.ranks.device_of('cpu') == 'cpu'
    monkeypatch.setenv('SLURM_NTASKS', '8')
    with pytest.raises(SystemExit, match='under Slurm, RANK is not set'):
        ranks.ranks.device_of('auto')


def test_files_that_cannot_be_read_or_written_are_named(alone):
    data, folder = os.path.join(os.environ['MXNET_HOME'], 'datasets', 'fashion-mnist'), alone.folder
    (folder / 'data').mkdir()
    for name in os.listdir(data):
        (folder / 'data' / name).symlink_to(os.path.join(data, name))
    labels = folder / 'data' / 'train-labels-idx1-ubyte.gz'
    whole = labels.read_bytes()
    labels.unlink()
    for content, said in (
        (whole[:1000], f'error: {labels.relative_to(folder)} cannot be read: '),
        (b'no gzip', f'error: {labels.relative_to(folder)} cannot be read: '),
        ((folder / 'data' / 't10k-labels-idx1-ubyte.gz').read_bytes(),
         'error: data: 47040000 bytes of images, 10000 labels'),
    ):  # fmt: skip
        labels.write_bytes(content)
        (line,) = alone.run('--data data', status=1)
        assert line.startswith(said)
    (folder / 'file').touch()
    for option in '--checkpoint file/run', '--log-file nowhere/log':
        (line,) = alone.run(f'{option} --limit 64', status=1)
        assert line.startswith('error: ') and 'Errno' in line
    (line,) = alone.run('--data nowhere', status=1)
    assert line.startswith('error: nowhere/train-images-idx3-ubyte.gz cannot be read')


@pytest.mark.slow
def test_it_ends_early_keeps_the_best_and_reports_each_step(alone):
    """With a rate at which no parameter changes, the second epoch is no better than the first."""
    options = '--limit 128 --batch-size 64 --lr 1e-30 --patience 1 --checkpoint run '
    alone.run(f'{options} --report 1 --log-file log --epochs 9')
    said = [json.loads(line) for line in (alone.folder / 'log').read_text().splitlines()]
    assert [line['epoch'] for line in said] == [1, 1, 1, 2, 2, 2]
    assert (alone.folder / 'run' / 'best').read_text() == 'step-00000-00000002'
    assert len(list((alone.folder / 'run').glob('step-*'))) == 2  # the last, and the best


@pytest.mark.slow
def test_compiled_it_computes_the_same(alone):
    alone.path = str(alone.folder)  # the compiler is not kept away
    options = '--limit 100 --batch-size 64 --dtype float64 --epochs 1 --digest'
    compiled = alone.run(f'{options} --compile eager', 2)[-1]  # traced; no C++ compiler is needed
    assert compiled == alone.run(options, 2)[-1]


KILLED = '--limit 1500 --batch-size 64 --adamw --lr 0.003 --every 1 --digest --timeout 300 '


def kill_and_compare(alone, options, ranks, kills, seed):
    """Kill random ranks at random moments, some times; every run ends with the same hash."""
    draw, done, runs, begin = random.Random(seed), 0, 0, time.monotonic()
    whole = alone.run(f'{options} --checkpoint whole{ranks}', ranks)[-1]  # not that of others
    pause = 0.6 * (time.monotonic() - begin)  # on a slow machine, too, beyond the imports
    while done < kills:
        runs += 1
        # A pipe would be full after 18 kills, and torchrun wait for somebody to read it.
        with (
            open(alone.folder / f'errors{runs}', 'w+') as errors,
            alone.start(
                f'{options} --checkpoint killed{ranks}-{runs}', ranks,
                '--standalone --max-restarts=1000', err=errors,
            ) as process,
        ):  # fmt: skip
            late = time.monotonic() + 10 * kills * pause
            while process.poll() is None and done < kills and time.monotonic() < late:
                time.sleep(draw.uniform(0, pause))
                with contextlib.suppress(IndexError, psutil.Error):
                    draw.choice(workers(process)).kill()
                    done += 1
            out, _ = ended(process, 900)
            errors.seek(0)
            print(f'{ranks} ranks, seed {seed}, run {runs}, {done} kills:', errors.read())
        assert process.returncode == 0
        assert out.splitlines()[-1] == whole


@pytest.mark.slow  # the chapter has one kill
@pytest.mark.parametrize('more', ['--epochs 3', '--epochs 2 --shard'])
def test_killed_at_many_random_moments_it_ends_as_if_nobody_had(alone, more):
    for ranks in (2, 3):
        kills = int(os.environ.get('MGPU_KILLS', 20))
        seed = int(os.environ.get('MGPU_SEED', random.randrange(10**6)))
        kill_and_compare(alone, KILLED + more, ranks, kills, seed)


def ask_to_end(alone, moment):
    """Send SIGTERM to all, workers of the loaders too, after so many seconds of training."""
    options = f'{KILLED}--epochs 100 --num-workers 1 --every 100000 --report 1 --checkpoint asked'
    with alone.start(options, 2) as process:
        # It may resume first; without an epoch, the output ends.
        assert any(line.startswith('epoch ') for line in iter(process.stdout.readline, ''))
        time.sleep(moment)
        for rank in workers(process):
            for one in [*rank.children(), rank]:
                one.send_signal(signal.SIGTERM)
        out, err = ended(process, 120)
    said = ([line for line in out.splitlines() if line.startswith('SIGTERM: ')] or [out + err])[-1]
    assert said.startswith('SIGTERM: saved epoch'), said
    epoch, step = (int(word) for word in said.replace(',', '').split()[3::2])
    newest = max((alone.folder / 'asked').glob('step-*')).name
    assert newest == f'step-{epoch - 1:05}-{step:08}', err
    assert not [line for line in err.splitlines() if 'DataLoader worker' in line]


@pytest.mark.parametrize('moments', [1, pytest.param(10, marks=pytest.mark.slow)])
def test_asked_to_end_all_save_the_same_step(alone, moments):
    for i in range(moments):
        ask_to_end(alone, random.uniform(0, 3) if i else 0)


HARD_OF_HEARING = """
import contextlib, os, signal, threading, time
import psutil, ranks
from torch.utils.data import DataLoader
def ask_new_children():
    told = set()
    while True:
        for child in psutil.Process().children():
            if child.pid not in told:
                told.add(child.pid)
                time.sleep(0.0005 * (len(told) % 10))
                with contextlib.suppress(psutil.NoSuchProcess):  # one that has ended
                    child.terminate()
threading.Thread(target=ask_new_children, daemon=True).start()
asked = ranks.on_sigterm()
for i in range(40):
    list(DataLoader(range(8), 2, num_workers=1))
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(0.5)
print(len(asked))
"""


def test_a_loaders_worker_asked_to_end_while_it_starts_goes_on(alone):
    """Slurm asks every process: of 60 workers told in their first 5 ms, 29 died."""
    (alone.folder / 'hearing.py').write_text(HARD_OF_HEARING)
    command = [sys.executable, 'hearing.py']
    run = subprocess.run(command, cwd=alone.folder, capture_output=True, text=True, timeout=300)
    assert run.stdout == '1\n', run.stderr  # the process itself has heard it


def test_an_interrupt_leaves_nothing(alone):
    for number, ranks in ((signal.SIGINT, 1), (signal.SIGKILL, 2)):  # the second leaves it to them
        with alone.start('--limit 640 --epochs 10000', ranks) as process:
            process.stdout.readline()
            process.send_signal(number)
            assert process.wait(60)  # `started` looks for the ranks


def test_ranks_end_with_a_starter_that_is_killed_before_they_have_met(alone):
    for moment in (0, 2):  # as Python starts, and while PyTorch loads or a rank waits for others
        with alone.start('--limit 640 --epochs 10000', 2) as process:
            while len(workers(process)) < 2 and process.poll() is None:
                time.sleep(0.01)
            time.sleep(moment)
            process.kill()  # `started` looks for the ranks
