"""``make doctor``: what a reader sees of it where something is missing, broken or hangs."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time

import pytest
from examining import A100, ROOT, bare, distribution, environment, needs_mxnet
from serving import LABELS, put

from mgpu_helpers.data import published

ANEW = 'rm -rf .venv && make setup'
HANG = 'import time; time.sleep(120)'


def doctor(*words, python=sys.executable, path=(), **more):
    """Run the command; return what it printed and its exit status."""
    command = [python, '-m', 'mgpu_helpers', 'doctor', *words]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env=environment(path, **more)
    )
    assert 'Traceback' not in done.stderr, done.stderr
    return done.stdout, done.returncode


def ask(*names, python=sys.executable, path=(), before=(), **more):
    """Ask some questions only; return the rows by name: verdict, what was found, the mend."""
    code = 'import json, sys; from mgpu_helpers import doctor; '
    code += 'print(json.dumps([row for name in sys.argv[1:] for row in doctor.ask(name, 120)]))'
    command, env = [*before, python, '-W', 'ignore', '-c', code, *names], environment(path, **more)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return {name: row for name, *row in json.loads(done.stdout)}


def check(row, verdict, *words, mend=''):
    assert row[0] == verdict and row[2] == mend, row
    assert all(word in row[1] for word in words), row


def test_every_question_has_a_row_of_a_table_that_fits_a_terminal():
    text, status = doctor('--seconds', '120', JUPYTER_PREFER_ENV_PATH='1')
    verdicts = dict(re.findall(r'(?m)^(\w.*?)  +(ok|warning|failed|not needed)  ', text))
    names = {'Python', 'packages', 'GPUs', 'cores', *(f'data {name}' for name in published.FILES)}
    assert names | {'kernel python3'} <= set(verdicts), text
    for framework in ('MXNet', 'PyTorch'):  # where it is installed
        assert verdicts.get(framework, 'ok') == 'ok', text
        assert framework not in verdicts or re.search(r'\d+ steps in a second', text)
    assert status == ('failed' in verdicts.values())
    assert all(len(line) <= 100 for line in text.splitlines() if '->' not in line)


def test_what_is_missing_is_named_with_its_mend_and_is_a_failure(tmp_path):
    python = bare(tmp_path)
    rows = ask('mxnet', 'torch', 'packages', 'cores', python=python)
    check(rows['mxnet'], 'failed', 'not installed; chapters 1 to 4', mend=f'{ANEW} TORCH=1')
    check(rows['torch'], 'failed', 'not installed; chapters 5 to 9', mend=f'{ANEW} TORCH=1')
    check(rows['packages'], 'failed', 'mgpu-helpers', mend=ANEW)
    assert rows['cores'][0] == 'failed' and rows['Python'][0] == 'ok'
    text, status = doctor('--seconds', '120', python=python)
    assert status == 1 and f'-> {ANEW}\n' in text


def test_what_does_not_load_or_crashes_is_named_and_the_others_are_looked_at(tmp_path):
    (tmp_path / 'torch.py').write_text('def broken(:')
    (tmp_path / 'tqdm.py').write_text('import os, signal; os.kill(os.getpid(), signal.SIGSEGV)')
    rows = ask('torch', 'packages', 'gpus', path=[tmp_path])
    check(rows['torch'], 'failed', 'import torch: SyntaxError: invalid syntax', mend=ANEW)
    check(rows['packages'], 'failed', 'import tqdm: killed by signal 11', mend=ANEW)
    assert rows['GPUs'][0] != 'failed'


def test_a_question_that_hangs_is_named_and_nothing_is_left_of_it(tmp_path, started):
    (tmp_path / 'torch.py').write_text(HANG)
    began = time.monotonic()
    text, status = doctor('--seconds', '6', path=[tmp_path])
    assert time.monotonic() - began < 60 and status == 1 and not started()
    assert 'import torch: no answer after 6 s' in text
    assert "-> make doctor DOCTOR_ARGS='--seconds 60'" in text


def test_data_that_are_missing_or_damaged(home, mnist_files):
    folder, place = put(home, 'mnist', mnist_files), {'MXNET_HOME': str(home)}
    rows = ask('data', **place)
    check(rows['data mnist'], 'ok', f'4 of 4 files in {folder}')
    mend = f'{shlex.quote(sys.executable)} -m mgpu_helpers data'
    check(rows['data fashion-mnist'], 'warning', '0 of 4', mend=f'{mend} fashion-mnist')
    (folder / LABELS).write_bytes(b'damaged')
    check(ask('data', **place)['data mnist'], 'failed', f'damaged: {LABELS}', mend=f'{mend} mnist')


@pytest.mark.skipif(not hasattr(os, 'sched_getaffinity'), reason='no affinity on this system')
def test_one_core_and_a_setting_that_gives_a_stand_in_several_threads():
    one = ['taskset', '-c', str(min(os.sched_getaffinity(0)))]
    rows = ask('cores', before=one, OMP_NUM_THREADS='4')
    check(rows['cores'], 'warning', '1 usable', 'without a speed-up')
    check(rows['settings'], 'warning', 'OMP_NUM_THREADS is 4', mend='unset OMP_NUM_THREADS')


@needs_mxnet
def test_a_gpu_that_this_build_does_not_use(stub_driver):
    here = {'LD_LIBRARY_PATH': str(stub_driver([A100]))}
    rows = ask('gpus', 'mxnet', **here)
    check(rows['GPUs'], 'ok', 'NVIDIA A100', '40 GiB', 'CUDA 13.0')
    check(rows['MXNet'], 'warning', 'could use GPU 0 (NVIDIA A100', mend='make setup GPU=1')
    hidden = ask('gpus', LD_LIBRARY_PATH=str(stub_driver([])), CUDA_VISIBLE_DEVICES='')['GPUs']
    check(hidden, 'warning', 'reports none (cuInit returned 100', mend='unset CUDA_VISIBLE_DEVICES')


def test_the_gpu_build_without_a_driver_and_two_builds(tmp_path):
    (distribution(tmp_path, 'mxnet-cu112') / 'mxnet.py').write_text('')
    python = bare(tmp_path, 'numpy')
    row = ask('mxnet', python=python, path=[tmp_path])['mxnet']
    check(row, 'failed', 'needs the NVIDIA driver', mend=f'{ANEW} GPU=0')
    row = ask('mxnet', python=python, path=[distribution(tmp_path, 'mxnet')])['mxnet']
    check(row, 'failed', 'mxnet and mxnet-cu112 are both installed', mend=ANEW)


def test_a_kernel_that_starts_another_python(tmp_path):
    folder, python = tmp_path / 'kernels' / 'python3', str(bare(tmp_path))
    folder.mkdir(parents=True)
    spec = {'argv': [python, '-m', 'ipykernel_launcher'], 'display_name': 'Mine'}
    (folder / 'kernel.json').write_text(json.dumps(spec))
    row = ask('kernels', JUPYTER_PATH=str(tmp_path))['kernel python3']
    check(row, 'failed', f"{tmp_path}/bare, not the course's Python", mend='unset JUPYTER_PATH')


def test_make_doctor_without_an_environment_names_make_setup(tmp_path):
    shutil.copy(ROOT / 'Makefile', tmp_path)
    shutil.copytree(ROOT / 'tools', tmp_path / 'tools')
    empty = [sys.executable, '-m', 'venv', '--without-pip', tmp_path / '.venv']
    for before, words in ((['true'], 'there is no environment'), (empty, ANEW)):
        subprocess.run(before, check=True)
        done = subprocess.run(['make', 'doctor'], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode != 0 and words in done.stderr and 'make setup' in done.stderr
