"""``python -m mgpu_helpers doctor``: what is installed, and what one sees of it."""

import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from importlib import metadata

import pytest
from click.testing import CliRunner
from examining import ROOT, bare, check, distribution, environment, examine, needs_mxnet, rows
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook
from serving import CALLERS

from mgpu_helpers import runtime
from mgpu_helpers.data import published
from mgpu_helpers.doctor import advice, answers, command, machine, questions

ANEW = 'rm -rf .venv && make setup'


def test_all_of_it():
    rows = examine(JUPYTER_PREFER_ENV_PATH='1')
    assert {'Python', 'NumPy', 'MXNet', 'PyTorch', 'packages', 'NVIDIA driver'} <= set(rows)
    assert {'CPU cores', *(f'data {name}' for name in published.FILES)} <= set(rows)
    check(rows['Jupyter'], 'ok', 'jupyterlab', 'nbval')
    for kernel in {name for name in rows if 'kernel' in name}:
        check(rows[kernel], 'ok', 'starts')
    check(rows['settings'], 'ok', *(f'{name}={value}' for name, value in runtime.SETTINGS.items()))
    assert rows['two devices'].verdict in ('ok', 'warning')  # as fast as the machine lets it
    assert re.search(r'trains \d\.\d\d times as fast on \S+ and \S+', rows['two devices'].found)


def test_a_table_is_no_wider_than_100_columns_and_the_commands_below_it_can_be_pasted(monkeypatch):
    words, found = """ipykernel --display-name 'Python 3 (a course)' """ * 4, 'a long story. ' * 20
    monkeypatch.setenv('COLUMNS', '200')
    text = command.Report(
        [answers.Row('kernel', 'failed', found, f'true\n{words}')], {}, 0.1
    ).text()
    table, commands = text.split('\n\n')
    assert max(map(len, table.splitlines())) in range(90, 101)
    assert [line.strip() for line in commands.splitlines()[1:]] == ['kernel  true', words.strip()]


def test_an_environment_with_nothing_in_it(tmp_path):
    rows = examine(python=bare(tmp_path), MXNET_HOME=str(CALLERS['mnist'].parent.parent))
    check(rows['Python'], 'ok', 'bare')
    check(rows['NumPy'], 'failed', "No module named 'numpy'", fix=ANEW)
    check(rows['MXNet'], 'failed', 'chapters 1 to 4 need it', fix='make setup')
    check(rows['PyTorch'], 'not needed', 'chapters 5 to 7 need it', fix='make setup TORCH=1')
    check(rows['packages'], 'failed', 'matplotlib.pyplot does not load: ModuleNotFoundError')
    check(rows['Jupyter'], 'failed', 'jupyterlab does not load: ModuleNotFoundError')
    check(rows['Jupyter kernel'], 'failed', 'none is registered')
    check(rows['CPU cores'], 'failed', "No module named 'joblib'")
    check(rows['CUDA libraries'], 'not needed')
    check(rows['two devices'], 'not needed', 'neither MXNet nor PyTorch')
    assert 'd2l' not in rows


def test_another_python(monkeypatch):
    monkeypatch.setattr(sys, 'version_info', (3, 12, 0))
    row = rows(answers.python)['Python']
    check(row, 'warning', 'MXNet ends at Python 3.11', fix='make setup')


def test_make_doctor_without_an_environment_names_make_setup(tmp_path):
    shutil.copy(ROOT / 'Makefile', tmp_path)
    shutil.copytree(ROOT / 'tools', tmp_path / 'tools')
    empty = [sys.executable, '-m', 'venv', '--without-pip', tmp_path / '.venv']
    no_environment = ['true'], 'there is no environment'
    for before, words in (no_environment, (empty, ANEW)):
        subprocess.run(before, check=True)
        done = subprocess.run(['make', 'doctor'], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode != 0 and words in done.stderr and 'make setup' in done.stderr
        assert not (tmp_path / '.uv').exists()


def test_both_builds_and_a_numpy_that_is_too_new(tmp_path):
    path = distribution(distribution(tmp_path, 'numpy', '2.3.1'), 'mxnet')
    row = examine('mxnet', path=[path])['MXNet']
    check(row, 'failed', 'NumPy 2.3.1 is too new', 'needs NumPy below 1.24', fix=ANEW)
    row = examine('mxnet', path=[distribution(path, 'mxnet-cu112')])['MXNet']
    words = 'mxnet and mxnet-cu112 are both installed', 'pip uninstall -y mxnet mxnet-cu112'
    check(row, 'failed', *words, fix=ANEW)


def test_packages_that_crash_or_are_broken_are_named(tmp_path):
    """And every other check still reports."""
    killed = f'import os; os.kill(os.getpid(), {signal.SIGSEGV.value})'
    (tmp_path / 'numpy.py').write_text(killed)
    (tmp_path / 'matplotlib.py').write_text('def broken(:')
    rows = examine('numpy', 'packages', 'driver', path=[tmp_path])
    words = 'its process was killed by signal 11 (SIGSEGV)'
    check(rows['NumPy'], 'failed', words, fix=ANEW)
    check(rows['packages'], 'failed', 'matplotlib.pyplot does not load: SyntaxError', words)
    assert 'cloudpickle' not in rows['packages'].found  # which came after numpy
    assert 'its process' not in rows['NVIDIA driver'].found


def test_what_hangs_or_leaves_is_named(tmp_path, monkeypatch, started, compile_c):
    """What takes longer than its limit is a row, not a wait; the others are asked anew."""
    (tmp_path / 'ipykernel.py').write_text('import time; time.sleep(60)')
    leaves = 'import os; print("out of memory", flush=True); os._exit(9)'
    (tmp_path / 'jupyterlab.py').write_text(leaves)
    (tmp_path / 'nbval.py').write_text('__version__ = "0.11"')
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(questions, 'LIMIT', 2)
    with questions.Questions() as ask:
        ask.start(questions.JUPYTER)
        row = next(answers.jupyter(ask))
    check(row, 'failed', 'ipykernel does not load: did not end within 2 s',
          'jupyterlab does not load: its process ended with status 9: out of memory')  # fmt: skip
    assert 'nbval' not in row.found
    # A driver that hangs, and a Python that does not come to its first step.
    hang = '#include <unistd.h>\n__attribute__((constructor)) void hang(void) { sleep(60); }'
    compile_c(hang, tmp_path / 'libcuda.so.1')
    (tmp_path / 'sitecustomize.py').write_text('import time; time.sleep(60)')
    for variable, look in ('LD_LIBRARY_PATH', machine.driver), ('PYTHONPATH', machine.cores):
        monkeypatch.setenv(variable, str(tmp_path))
        with questions.Questions() as ask:
            check(next(look(ask)), 'failed', 'did not end within 2 s')


@needs_mxnet
def test_a_library_of_the_system_that_does_not_load(tmp_path, monkeypatch):
    (tmp_path / 'libquadmath.so.0').write_bytes(b'')
    monkeypatch.setenv('LD_LIBRARY_PATH', str(tmp_path))
    row = rows(answers.mxnet)['MXNet']
    check(row, 'failed', 'the library libquadmath.so.0 is missing or damaged')
    assert re.fullmatch('sudo (apt-get|dnf) install libquadmath0?', row.fix)


def test_metadata_that_nobody_can_read_end_one_check_only(tmp_path, monkeypatch):
    info = distribution(tmp_path, 'zzz') / 'zzz-1.9.1.dist-info' / 'METADATA'
    info.write_bytes(b'Metadata-Version: 2.1\nName: \xff\xfe\n')
    monkeypatch.syspath_prepend(tmp_path)
    rows = {row.name: row for row in command.examine(['cuda', 'settings']).rows}
    check(rows['cuda'], 'failed', 'this check itself failed: UnicodeDecodeError')
    assert 'settings' in rows


@pytest.mark.slow
def test_pytorch_alone(tmp_path):
    if not metadata.packages_distributions().get('torch'):
        pytest.skip('PyTorch is not installed here: make setup TORCH=1')
    others = {d.name for d in metadata.distributions()} - {'mxnet', 'd2l', 'mgpu-helpers'}
    rows = examine('mxnet', 'torch', 'training', python=bare(tmp_path, *others))
    check(rows['MXNet'], 'warning', '5 to 7 do not', fix='make setup TORCH=1')
    check(rows['PyTorch'], 'ok', metadata.version('torch'))
    words = r'PyTorch trains \d\.\d\d times as fast on cpu:0 and cpu:1'
    assert re.search(words, rows['two devices'].found)


def test_a_kernel_that_starts_another_python(tmp_path, monkeypatch):
    folder = tmp_path / 'kernels' / 'python3'
    folder.mkdir(parents=True)
    monkeypatch.setenv('JUPYTER_PATH', str(tmp_path))
    other = str(bare(tmp_path))
    for program, wrong in (('/no/such/python', 'is not there'), (other, 'and not this one')):
        words = [program, '-m', 'ipykernel_launcher', '-f', '{connection_file}']
        spec = {'argv': words, 'display_name': 'Mine', 'language': 'python'}
        (folder / 'kernel.json').write_text(json.dumps(spec))
        row = rows(answers.kernel)['Jupyter kernel']
        check(row, 'failed', "'Mine' in", program, wrong, fix='unset JUPYTER_PATH')


def test_losses_that_differ():
    """As those of an allreduce that loses its sums, which the PyTorch text from scratch has."""
    facts = {'losses': {'1': [2.3, 2.2], '2': [2.3, 2.25]}, 'ms': {'1': 10.0, '2': 6.0}}
    row = rows(machine.training, mxnet={}, **{'train mxnet': facts})['two devices']
    check(row, 'failed', 'MXNet: the losses on one device and on two differ', fix=ANEW)


def test_on_a_terminal_there_are_a_line_and_colours():
    pieces = []

    def read(terminal):
        pieces.append(os.read(terminal, 4096))
        return pieces[-1]

    words = '-m mgpu_helpers doctor --only cores --only settings'.split()
    assert pty.spawn([sys.executable, *words], read) == 0
    text = b''.join(pieces).decode()
    assert 'looking at: settings (2 of 2)' in text.split('check')[0]
    assert '\x1b[32mok\x1b[0m' in text


def test_elsewhere_there_are_only_the_table_and_a_sum():
    done = CliRunner().invoke(command.doctor, ['--only', 'settings', '--only', 'gpus'])
    lines = done.stdout.splitlines()
    assert '\x1b' not in done.output and lines[0].split('  ')[0] == 'check'
    assert re.fullmatch(r'1 check in \d+\.\d s: .*\.', lines[-1])
    done = CliRunner(env={'CUDA_VISIBLE_DEVICES': ''}).invoke(command.doctor, ['--only', 'gpus'])
    assert done.exit_code == 0 and done.stdout.startswith('There is nothing to look at here.')
    done = CliRunner().invoke(command.doctor, ['--only', 'moon'])
    assert done.exit_code == 2 and "'moon' is not one of 'python'" in done.stderr


def test_ctrl_c_leaves_nothing_behind(started, tmp_path):
    (tmp_path / 'torch.py').write_text('import time; time.sleep(60)')
    process = subprocess.Popen(
        [sys.executable, '-m', 'mgpu_helpers', 'doctor', '--only', 'torch'],
        stderr=subprocess.PIPE, cwd=ROOT, env=environment([tmp_path]), start_new_session=True,
    )  # fmt: skip
    while len(started()) < 2:  # it, and what it asks
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    assert b'Traceback' not in process.stderr.read()


def test_in_a_notebook(tmp_path):
    """A table, which can be asked; and MXNet, loaded in an earlier cell, was too early."""
    (tmp_path / 'mxnet.py').write_text('')
    cells = [
        'import warnings, mxnet\nwarnings.simplefilter("ignore")\nimport mgpu_helpers as mgpu\n'
        'report = mgpu.doctor.examine(["settings", "data"])\nreport',
        'print(report.failed, [row.name for row in report.warnings])',
        'mgpu.doctor.examine(["moon"])',
    ]
    notebook = new_notebook(cells=[new_code_cell(cell) for cell in cells])
    client = NotebookClient(notebook, kernel_name='python3', allow_errors=True, timeout=120)
    client.execute(env=environment([tmp_path]), cwd=str(tmp_path))
    table, printed, error = (cell.outputs for cell in notebook.cells)
    html = next(o.data['text/html'] for o in table if o.output_type == 'execute_result')
    assert html.count('<tr') == 1 + 1 + len(published.FILES) and 'too late for' in html
    assert 'export OMP_NUM_THREADS=1 MXNET_CPU_TEMP_COPY=64 ' in html
    assert printed[0].text.startswith("[] ['settings'")
    assert error[0].evalue.startswith("there is no check 'moon'; there are python, numpy")


def test_the_packages_are_those_of_the_project():
    project = tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']
    extras = project['optional-dependencies'] | {'core': project['dependencies']}
    names = {x: {re.match(r'[\w-]+', y)[0] for y in lines} for x, lines in extras.items()}
    seen = {'scikit-learn' if n == 'sklearn' else n.split('.')[0] for n in questions.MODULES}
    assert seen == names['core'] - {'click', 'lazy-loader', 'tabulate', 'numpy'}
    assert set(questions.JUPYTER) <= names['notebooks'] | names['dev']


def test_in_conda_the_commands_never_leave_two_builds(tmp_path, monkeypatch):
    cases = [  # what is installed, the choice, what is removed, and what is installed then
        ('mxnet-cu112', '', None, 'cu112'),
        ('mxnet-cu112', 'GPU=0', 'mxnet-cu112', 'cpu'),
        ('mxnet', 'GPU=1', 'mxnet', 'cu112'),
        ('mxnet mxnet-cu112', '', 'mxnet mxnet-cu112', 'cu112'),
        ('mxnet', 'TORCH=1', None, 'torch'),
        ('', '', None, 'cpu'),
        ('mxnet-cu112', 'GPU=1 TORCH=1', None, None),  # an environment of its own
    ]
    monkeypatch.setenv('CONDA_PREFIX', sys.prefix)
    for i, (builds, choice, removed, extra) in enumerate(cases):
        for build in builds.split():
            distribution(tmp_path / str(i), build)
        with monkeypatch.context() as patch:
            patch.setattr(sys, 'path', [str(tmp_path / str(i))])
            fix = advice.setup(choice)
        uninstall = re.search(r'uninstall -y (.*?) && ', fix)
        assert (uninstall and uninstall[1]) == removed
        assert (f"'[{extra},notebooks]'" if extra else 'conda create -n mgpu-torch ') in fix


def test_what_was_removed_from_a_finished_environment_needs_a_new_one(tmp_path):
    """`make setup` takes one that it finished for good."""
    course = tmp_path / 'course'
    shutil.copytree(ROOT / 'mgpu_helpers', course / 'mgpu_helpers')
    shutil.copy(ROOT / 'Makefile', course)
    shutil.move(bare(tmp_path).parent.parent, course / '.venv')
    (course / '.venv/made-by-setup').touch()
    (course / '.uv').mkdir()
    for torch, fix in (('0', 'make setup TORCH=1'), ('1', f'{ANEW} TORCH=1')):
        (course / '.uv/torch').write_text(f'{torch}\n')
        rows = examine('mxnet', 'torch', python='.venv/bin/python', cwd=course, PYTHONPATH='')
        assert (rows['MXNet'].fix, rows['PyTorch'].fix) == (ANEW, fix)


def test_setup_and_doctor_name_the_same_commands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # outside the course, with its folder
    assert advice.setup() == f'make -C {shlex.quote(str(ROOT))} setup'
    script = (ROOT / 'tools/setup.sh').read_text()
    named = re.findall(r'^ +(lib\S+\.so\.\d)\) deb=(\S+) rpm=(\S+) ', script, re.M)
    assert len(named) >= 3
    assert all(advice.PACKAGES[library] == (deb, rpm) for library, deb, rpm in named)
