"""Chapter 6's scripts, copied into an empty folder and run there, as their readers do."""

import ast
import contextlib
import json
import math
import os
import random
import runpy
import signal
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
    for script in 'train.py', 'train_ddp.py', 'ranks.py':
        names = set()
        for node in ast.walk(ast.parse((ROOT / 'training' / script).read_text(encoding='utf8'))):
            if isinstance(node, ast.Import):
                names |= {name.name.split('.')[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom):
                names.add(node.module.split('.')[0])
        assert names - set(sys.stdlib_module_names) - {'ranks'} == {'torch', 'numpy'}


def compare(alone, ranks, more='', cut=''):
    one = alone.run(f'{SMALL} {more} --checkpoint one')
    several = alone.run(f'{SMALL} {more} {cut} --checkpoint several', ranks)
    assert losses(one) == losses(several)
    assert (alone.parameters('one') - alone.parameters('several')).abs().max() < 1e-10
    return losses(several)


@pytest.mark.slow  # chapter 6 compares one rank and two
def test_two_ranks_do_what_one_does_and_what_train_py_does(alone):
    """In float64, with a last batch that does not divide evenly among the ranks."""
    ours = compare(alone, 2)
    single = alone.run('--epochs 1 --limit 1001 --batch-size 64', script='train.py')
    assert losses(single) == pytest.approx(ours, abs=2e-6)


@pytest.mark.slow
def test_each_rank_draws_numbers_of_its_own_also_where_build_seeds_all_alike(alone):
    """As a reader's build does, and the chapter's for the folder of images."""
    script, begin = alone.folder / 'train_ddp.py', '    rng = np.random.default_rng(args.seed)'
    text = script.read_text(encoding='utf8')
    assert text.count(begin) == 1
    script.write_text(text.replace(begin, f'    torch.manual_seed(7)\n{begin}'), encoding='utf8')
    alone.run('--epochs 1 --limit 64 --checkpoint seeded', 2)
    state = torch.load(alone.folder / 'seeded' / 'checkpoint.pt', weights_only=True)
    first, second = state['random']
    assert not torch.equal(first, second)


def test_gpus_that_are_too_few_are_not_left_idle_in_silence(alone, monkeypatch):
    script = alone.folder / 'ranks.py'
    text = script.read_text(encoding='utf8').replace('torch.cuda.device_count()', '1')
    script.write_text(text, encoding='utf8')
    monkeypatch.setenv('LOCAL_WORLD_SIZE', '2')
    with alone.start('--epochs 1 --limit 64') as process:
        out, err = ended(process, 500)
    assert 'epoch 1' in out and 'warning: more ranks here than GPUs (1): all compute on CPUs' in err


@pytest.mark.slow  # the chapter asserts the last one, with two ranks
@pytest.mark.parametrize('more', ['', '--momentum 0.9 --warmup 5 --clip 0.05'])
def test_three_ranks_do_what_one_does_also_in_pieces_and_clipped(alone, more):
    compare(alone, 3, more, '--accumulate 3' if more else '')


def test_what_is_wrong_is_named_in_a_sentence(alone, monkeypatch, capsys):
    monkeypatch.syspath_prepend(ROOT / 'training')
    for options, name in {
        '--epochs 0': '--epochs: 0',
        '--batch-size x': "--batch-size: invalid int value: 'x'",
        '--lr nan': '--lr: nan',
        '--lr -0.1': '--lr: -0.1',
        '--clip inf': '--clip: inf',
        '--accumulate 0': '--accumulate: 0',
        '--seed -1': '--seed: -1',
        '--decay nan': '--decay: nan',
        '--num-workers -1': '--num-workers: -1',
        '--every 0': '--every: 0',
        '--dtype float16': "--dtype: invalid choice: 'float16'",
        '--learning-rate 1': '--learning-rate',
    }.items():
        monkeypatch.setattr(sys, 'argv', ['train_ddp.py', *options.split()])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(ROOT / 'training' / 'train_ddp.py'), run_name='__main__')
        last = capsys.readouterr().err.splitlines()[-1]
        assert ended.value.code == 2 and last.startswith('train_ddp.py: error: ') and name in last


@pytest.mark.slow
def test_it_ends_early_reports_its_mfu_and_lets_the_rate_fall_to_the_end(alone):
    """With a rate at which no parameter changes, the second epoch is no better than the first."""
    options = '--limit 128 --batch-size 64 --lr 1e-30 --patience 1 --cosine --checkpoint run'
    options += ' --report 1 --peak 1e9 --log-file log --fused --epochs'
    alone.run(f'{options} 9')
    said = [json.loads(line) for line in (alone.folder / 'log').read_text().splitlines()]
    assert [line['epoch'] for line in said] == [1, 1, 1, 2, 2, 2]
    rates = [line['lr'] for line in said if 'lr' in line]  # 18 steps would bring it to 0
    assert rates == pytest.approx([1e-30 * (1 + math.cos(math.pi * i / 18)) / 2 for i in range(4)])
    # Forward: two convolutions, two products. Backward: each twice, but no gradient of the images.
    first, *rest = (9 * 20 * 26**2, 20 * 25 * 50 * 9**2, 800 * 128, 128 * 10)
    work = 2 * (2 * first + 3 * sum(rest))
    assert said[0]['mfu'] * 1e9 / said[0]['rate'] == pytest.approx(work)
    (again,) = alone.run(f'{options} 9')  # its last epoch's line, and no third epoch
    assert again.startswith('epoch 2,')
    (said,) = alone.run(f'{options} 8', status=1)
    assert said == "error: run/checkpoint.pt was saved with other options: {'epochs': 9}"


@pytest.mark.slow
def test_compiled_it_computes_the_same(alone):
    alone.path = str(alone.folder)  # the compiler is not kept away
    options = '--limit 100 --batch-size 64 --dtype float64 --epochs 1 --digest'
    compiled = alone.run(f'{options} --compile eager', 2)[-1]  # traced; no C++ compiler is needed
    assert compiled == alone.run(options, 2)[-1]


def test_missing_data_and_a_damaged_checkpoint_are_named_and_help_names_all_options(alone):
    said = alone.run('--data nowhere', status=2)[-1]
    assert said == 'train_ddp.py: error: argument --data: there is no folder nowhere'
    (alone.folder / 'run').mkdir()
    (said,) = alone.run('--data run', status=1)
    assert said.startswith('error: there is no file run/train-images-idx3-ubyte.gz, and no run/')
    (alone.folder / 'run' / 'checkpoint.pt').write_bytes(b'not even a zip file')
    # By one: several say it together, perhaps in one line.
    assert alone.run('--checkpoint run', status=1) == ['error: run/checkpoint.pt is damaged']
    text = '\n'.join(alone.run('--help'))
    for option in (
        'epochs batch-size lr adamw cosine decay seed dtype accumulate clip limit data num-workers '
        'shard device report log-file checkpoint every save-timeout digest peak patience compile'
    ).split():
        assert f'--{option}' in text
    assert 'datasets/fashion-mnist' in text.replace('\n', '').replace(' ', '')


def kill_and_compare(alone, options, ranks, kills, seed):
    """Kill random ranks at random moments, some times; every run ends with the same hash."""
    draw, done, runs, begin = random.Random(seed), 0, 0, time.monotonic()
    whole = alone.run(f'{options} --checkpoint whole', ranks)[-1]
    pause = 0.6 * (time.monotonic() - begin)  # on a slow machine, too, beyond the imports
    while done < kills:
        runs += 1
        # A pipe would be full after 18 kills, and torchrun wait for somebody to read it.
        with (
            open(alone.folder / f'errors{runs}', 'w+') as errors,
            alone.start(
                f'{options} --checkpoint killed{runs}', ranks,
                '--standalone --max-restarts=1000', err=errors,
            ) as process,
        ):  # fmt: skip
            late = time.monotonic() + 10 * kills * pause
            while process.poll() is None and done < kills and time.monotonic() < late:
                time.sleep(draw.uniform(0, pause))
                with contextlib.suppress(IndexError, psutil.Error):
                    draw.choice(workers(process)).kill()
                    done += 1
            last = time.monotonic()
            out, _ = ended(process, 900)
            errors.seek(0)
            print(f'{ranks} ranks, seed {seed}, run {runs}, {done} kills, ended with status')
            print(f'{process.returncode} after {time.monotonic() - last:.0f} s:', errors.read())
        assert process.returncode == 0
        assert out.splitlines()[-1] == whole


KILLED = (
    '--epochs 3 --limit 3000 --batch-size 64 --lr 0.05 --momentum 0.9 --warmup 20 --augment '
    '--every 1 --digest --timeout 300'
)


@pytest.mark.slow  # the chapter has one kill
def test_killed_at_many_random_moments_it_ends_as_if_nobody_had(alone):
    for ranks in (2, 3):
        kills = int(os.environ.get('MGPU_KILLS', 20))
        seed = int(os.environ.get('MGPU_SEED', random.randrange(10**6)))
        kill_and_compare(alone, KILLED, ranks, kills, seed)


def test_an_interrupt_leaves_nothing(alone):
    for number, ranks in ((signal.SIGINT, 1), (signal.SIGKILL, 2)):  # the second leaves it to them
        with alone.start('--limit 640 --epochs 10000', ranks) as process:
            process.stdout.readline()
            process.send_signal(number)
            assert process.wait(60)  # `started` looks for the ranks
