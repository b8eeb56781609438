"""``python -m mgpu_helpers doctor``: what is installed, and what one sees of it."""

# ruff: noqa: F811 (a fixture that is imported, and asked for by its name)

import fcntl
import json
import os
import pty
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from importlib import metadata

import nbformat
import pytest
from examining import ROOT, bare, check, distribution, environment, examine, needs_mxnet  # noqa: F401
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook
from serving import CALLERS

from mgpu_helpers import runtime
from mgpu_helpers.data import catalogue
from mgpu_helpers.doctor import CHECKS, Report, Row, fixes


# --- Nothing is there ---------------------------------------------------------------------------
def test_an_environment_with_nothing_in_it(bare):
    rows = examine(python=bare(), MXNET_HOME=str(CALLERS['mnist'].parent.parent))
    check(rows['Python'], 'ok', 'bare')
    check(rows['NumPy'], 'failed', "No module named 'numpy'", fix='rm -rf .venv && make setup')
    check(rows['MXNet'], 'failed', 'chapters 1 to 4 need it', fix='make setup')
    check(rows['PyTorch'], 'not needed', 'chapter 5 needs it', fix='make setup TORCH=1')
    check(rows['packages'], 'failed', 'matplotlib.pyplot does not load: ModuleNotFoundError')
    check(rows['Jupyter'], 'failed', 'jupyterlab does not load: ModuleNotFoundError')
    check(rows['Jupyter kernel'], 'failed', 'none is registered')
    check(rows['CPU cores'], 'failed', "No module named 'joblib'")
    check(rows['CUDA libraries'], 'not needed')
    check(rows['two devices'], 'not needed', 'neither MXNet nor PyTorch')
    assert 'd2l' not in rows


def test_outside_the_course_the_command_names_its_folder(bare, tmp_path):
    done = subprocess.run(
        [bare(), '-m', 'mgpu_helpers', 'doctor', '--only', 'mxnet'],
        capture_output=True, text=True, cwd=tmp_path, env=environment(COLUMNS='300'),
    )  # fmt: skip
    assert done.returncode == 1
    assert re.search(rf'fix: make -C {re.escape(str(ROOT))} setup$', done.stdout, re.M)


def test_another_python(bare):
    other = next(filter(None, map(shutil.which, ('python3.12', 'python3.13'))), None)
    if other is None or subprocess.run([other, '-c', ''], capture_output=True).returncode:
        pytest.skip('there is no Python 3.12 or 3.13 here')
    rows = examine('python', 'mxnet', python=bare(python=other))
    check(rows['Python'], 'warning', '3.1', 'MXNet ends at Python 3.11', fix='make setup')


def test_make_doctor_without_an_environment_names_make_setup(tmp_path):
    shutil.copy(ROOT / 'Makefile', tmp_path)
    shutil.copytree(ROOT / 'tools', tmp_path / 'tools')
    done = subprocess.run(['make', 'doctor'], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0
    assert 'there is no environment' in done.stderr and 'make setup' in done.stderr
    assert not (tmp_path / '.uv').exists()
    subprocess.run([sys.executable, '-m', 'venv', '--without-pip', tmp_path / '.venv'], check=True)
    done = subprocess.run(['make', 'doctor'], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0
    assert 'rm -rf .venv && make setup' in done.stderr


# --- What is installed --------------------------------------------------------------------------
@needs_mxnet
def test_both_builds(tmp_path):
    rows = examine('mxnet', path=[distribution(distribution(tmp_path, 'mxnet'), 'mxnet-cu112')])
    check(rows['MXNet'], 'failed', 'mxnet and mxnet-cu112 are both installed',
          fix='rm -rf .venv && make setup')  # fmt: skip


def test_a_numpy_that_is_too_new(tmp_path):
    path = distribution(distribution(tmp_path, 'numpy', '2.3.1'), 'mxnet')
    rows = examine('numpy', 'mxnet', path=[path])
    check(rows['NumPy'], 'failed', '2.3.1 is too new for MXNet 1.9.1', 'below 1.24')
    check(rows['MXNet'], 'failed', 'NumPy 2.3.1 is too new')


def test_a_package_that_crashes_is_a_row(tmp_path):
    """And nothing else of the examination is lost."""
    (tmp_path / 'numpy').mkdir()
    killed = f'import os; os.kill(os.getpid(), {signal.SIGSEGV.value})'
    (tmp_path / 'numpy' / '__init__.py').write_text(killed)
    rows = examine('numpy', 'mxnet', 'driver', 'cores', path=[tmp_path])
    check(rows['NumPy'], 'failed', 'its process was killed by signal 11 (SIGSEGV)')
    assert {'MXNet', 'NVIDIA driver', 'CPU cores'} < set(rows)


def test_a_package_that_leaves_is_a_row(tmp_path):
    (tmp_path / 'torch.py').write_text('import os; print("out of memory", flush=True); os._exit(9)')
    rows = examine('torch', path=[tmp_path])
    check(rows['PyTorch'], 'failed', 'its process ended with status 9: out of memory')


@pytest.mark.slow
def test_a_package_that_hangs_is_a_row(tmp_path, started):
    (tmp_path / 'torch.py').write_text('import time; time.sleep(300)')
    rows = examine('torch', path=[tmp_path])
    check(rows['PyTorch'], 'failed', 'did not end within 60 s')


def test_a_package_that_is_broken_is_named(tmp_path):
    (tmp_path / 'matplotlib').mkdir()
    (tmp_path / 'matplotlib' / '__init__.py').write_text('def broken(:')
    rows = examine('packages', path=[tmp_path])
    check(rows['packages'], 'failed', 'matplotlib.pyplot does not load: SyntaxError')


@needs_mxnet
def test_a_library_of_the_system_that_does_not_load(tmp_path):
    (tmp_path / 'libquadmath.so.0').write_bytes(b'')
    rows = examine('mxnet', LD_LIBRARY_PATH=str(tmp_path))
    check(rows['MXNet'], 'failed', 'the library libquadmath.so.0 is missing or damaged')
    assert re.fullmatch('sudo (apt-get|dnf) install libquadmath0?', rows['MXNet']['fix'])


def test_metadata_that_nobody_can_read_end_one_check_only(tmp_path):
    info = distribution(tmp_path, 'zzz') / 'zzz-1.9.1.dist-info' / 'METADATA'
    info.write_bytes(b'Metadata-Version: 2.1\nName: \xff\xfe\n')
    rows = examine('mxnet', 'cores', 'data', path=[tmp_path])
    check(rows['mxnet'], 'failed', 'this check itself failed: UnicodeDecodeError')
    assert rows['CPU cores'] and rows['data mnist']


@pytest.mark.slow
def test_pytorch_alone(bare):
    if not metadata.packages_distributions().get('torch'):
        pytest.skip('PyTorch is not installed here: make setup TORCH=1')
    needs = 'filelock fsspec jinja2 markupsafe mpmath networkx sympy typing_extensions numpy'
    python = bare('torch', 'setuptools', 'tqdm', 'joblib', 'cloudpickle', 'matplotlib',
                  'scikit-learn', 'threadpoolctl', 'scipy', *needs.split())  # fmt: skip
    rows = examine('mxnet', 'torch', 'training', python=python)
    check(rows['MXNet'], 'warning', 'chapter 5 does not', fix='make setup TORCH=1')
    check(rows['PyTorch'], 'ok', metadata.version('torch'))
    assert rows['two devices']['verdict'] in ('ok', 'warning')  # as fast as the machine lets it
    assert re.search(r'PyTorch trains \d\.\d\d times as fast on cpu:0 and cpu:1',
                     rows['two devices']['found'])  # fmt: skip


# --- Jupyter ------------------------------------------------------------------------------------
@pytest.mark.parametrize('program', ['/no/such/python', 'other'])
def test_a_kernel_that_starts_another_python(program, tmp_path, bare):
    program = str(bare()) if program == 'other' else program
    folder = tmp_path / 'kernels' / 'python3'
    folder.mkdir(parents=True)
    words = [program, '-m', 'ipykernel_launcher', '-f', '{connection_file}']
    spec = {'argv': words, 'display_name': 'Mine', 'language': 'python'}
    (folder / 'kernel.json').write_text(json.dumps(spec))
    row = examine('kernel', JUPYTER_PATH=str(tmp_path))['Jupyter kernel']
    wrong = 'which is not there' if program == '/no/such/python' else 'and not this one'
    check(row, 'failed', "'Mine' in", program, wrong, fix='unset JUPYTER_PATH')


def test_the_kernel_of_this_python():
    rows = examine('jupyter', 'kernel', JUPYTER_PREFER_ENV_PATH='1')
    check(rows['Jupyter'], 'ok', 'jupyterlab', 'nbval')
    check(rows['Jupyter kernel'], 'ok', 'starts')


# --- Training -----------------------------------------------------------------------------------
@needs_mxnet
def test_losses_that_differ(tmp_path):
    """A package whose allreduce loses what it should hand back, as source 004's does."""
    shutil.copytree(ROOT / 'mgpu_helpers', tmp_path / 'mgpu_helpers')
    file = tmp_path / 'mgpu_helpers' / 'scratch.py'
    text = file.read_text()
    broken = text.replace('allreduce(list(grads_of_one_param))', 'pass')
    assert broken != text
    file.write_text(broken)
    done = subprocess.run(
        [sys.executable, '-m', 'mgpu_helpers', 'doctor', '--only', 'training'],
        capture_output=True, text=True, cwd=tmp_path, env=environment([tmp_path], COLUMNS='100'),
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert 'the losses on one device and on two differ' in re.sub(r'\s+', ' ', done.stdout)


# --- What one sees ------------------------------------------------------------------------------
def terminal(*words):
    """Run the command on a terminal of 100 columns; everything that it writes there."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack('HHHH', 40, 100, 0, 0))
    process = subprocess.Popen(
        [sys.executable, '-m', 'mgpu_helpers', 'doctor', *words],
        stdin=theirs, stdout=theirs, stderr=theirs, cwd=ROOT, env=environment(),
    )  # fmt: skip
    os.close(theirs)
    text = b''
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # the other side is closed
            break
        text += piece
    os.close(ours)
    return text.decode(), process.wait(timeout=60)


def test_on_a_terminal_there_are_a_bar_and_colours():
    text, status = terminal('--only', 'cores', '--only', 'settings')
    assert status == 0
    assert 'looking' in text and 'settings' in text.split('check')[0]
    assert '\x1b[32mok\x1b[0m' in text


def test_all_of_it(tmp_path):
    done = subprocess.run(
        [sys.executable, '-m', 'mgpu_helpers', 'doctor'],
        capture_output=True, text=True, timeout=150, cwd=ROOT, env=environment(),
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 100
    assert '\x1b' not in done.stdout and 'Traceback' not in done.stderr
    assert lines[0].split('  ')[0] == 'check'
    names = ('Python', 'NumPy', 'MXNet', 'PyTorch', 'packages', 'Jupyter kernel', 'NVIDIA driver',
             'CUDA libraries', 'CPU cores', 'settings', 'allocator', 'data mnist',
             'two devices')  # fmt: skip
    assert [name for name in names if f'\n{name} ' not in done.stdout] == []
    assert re.fullmatch(r'\d+ checks in \d+\.\d s: .*\.', lines[-1])
    assert done.returncode == (1 if ' failed ' in done.stdout else 0)


@pytest.mark.parametrize('width', [60, 80, 100])
def test_a_long_command_can_be_pasted(width):
    """Its lines, as a shell reads them, are the words of the command; none ends in a quotation."""
    command = (
        """python -m ipykernel install --name python3 --display-name 'Python 3 (a course)' -x"""
    )
    text = Report([Row('kernel', 'failed', 'none', f'true\n{command}')], {}, 0.1).text(width)
    assert max(map(len, text.splitlines())) <= width
    pasted = text.split('fix: ')[1].replace('python -m', 'printf "%s|" -m', 1)
    shell = subprocess.run(['sh', '-c', pasted], capture_output=True, text=True, check=True)
    assert shell.stdout.split('|')[:-1] == shlex.split(command)[1:]


def test_the_json_has_what_a_program_needs():
    done = subprocess.run(
        [sys.executable, '-m', 'mgpu_helpers', 'doctor', '--json', '--only', 'settings'],
        capture_output=True, text=True, cwd=ROOT, env=environment(),
    )  # fmt: skip
    report = json.loads(done.stdout)
    assert set(report) == {'ok', 'seconds', 'versions', 'checks'}
    assert report['versions']['numpy'] == metadata.version('numpy')
    for row in report['checks']:
        assert list(row) == ['name', 'verdict', 'found', 'fix']
        assert all(isinstance(value, str) for value in row.values())


def test_no_such_check():
    done = subprocess.run(
        [sys.executable, '-m', 'mgpu_helpers', 'doctor', '--only', 'moon'],
        capture_output=True, text=True, cwd=ROOT, env=environment(),
    )  # fmt: skip
    assert done.returncode == 2
    assert "'moon' is not one of 'python'" in done.stderr


def test_the_parent_loads_nothing_heavy():
    """Because it must work where these are missing or broken."""
    code = (
        'import sys\nfrom mgpu_helpers.doctor import command, examine\n'
        'print(sorted({"mxnet", "torch", "numpy", "matplotlib", "joblib", "tqdm", "pooch",'
        ' "requests", "jupyter_client"} & set(sys.modules)))'
    )
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True,
                          env=environment())  # fmt: skip
    assert done.stdout.strip() == '[]', done.stderr


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
        'import warnings, mxnet\nwarnings.simplefilter("ignore")',
        'import mgpu_helpers as mgpu\nreport = mgpu.doctor.examine(["settings", "data"])\nreport',
        'print(report.failed, [row.name for row in report.warnings])',
        'mgpu.doctor.examine(["moon"])',
    ]
    notebook = new_notebook(cells=[new_code_cell(cell) for cell in cells])
    nbformat.write(notebook, tmp_path / 'n.ipynb')
    client = NotebookClient(
        notebook, kernel_name='python3', allow_errors=True, timeout=60,
        resources={'metadata': {'path': str(tmp_path)}},
    )  # fmt: skip
    client.execute(env=environment([tmp_path]))
    table, printed, error = (cell.outputs for cell in notebook.cells[1:])
    html = next(o.data['text/html'] for o in table if o.output_type == 'execute_result')
    assert html.count('<tr') == 2 + len(catalogue.FILES) + 1 and 'too late for' in html
    assert printed[0].text.startswith("[] ['settings'")
    assert error[0].evalue.startswith("there is no check 'moon'; there are python, numpy")


def test_every_setting_has_its_cost():
    from mgpu_helpers.doctor.settings import COSTS

    assert set(COSTS) == set(runtime.SETTINGS)


def test_the_packages_are_those_of_the_project():
    import tomllib

    from mgpu_helpers.doctor.child import JUPYTER, MODULES

    project = tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']
    core = {re.match(r'[\w-]+', line)[0] for line in project['dependencies']}
    seen = {'scikit-learn' if name == 'sklearn' else name.split('.')[0] for name in MODULES}
    assert seen == core - {'click', 'lazy-loader', 'tabulate', 'numpy'}
    extras = project['optional-dependencies']
    listed = {re.match(r'[\w-]+', x)[0] for x in extras['notebooks'] + extras['dev']}
    assert set(JUPYTER) <= listed


def test_every_check_can_be_chosen():
    text = subprocess.run(
        [sys.executable, '-m', 'mgpu_helpers', 'doctor', '--help'],
        capture_output=True, text=True, cwd=ROOT, env=environment(COLUMNS='200'),
    ).stdout  # fmt: skip
    assert all(word in text for word in CHECKS)


def test_where_there_is_no_gpu_a_look_at_gpus_has_nothing_to_show():
    done = subprocess.run(
        [sys.executable, '-m', 'mgpu_helpers', 'doctor', '--only', 'gpus'],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {'CUDA_VISIBLE_DEVICES': ''},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith('There is nothing to look at here.')


@pytest.mark.parametrize(
    ('builds', 'choice', 'removed', 'extra'),
    [
        (['mxnet-cu112'], '', None, 'cu112'),
        (['mxnet-cu112'], 'GPU=0', 'mxnet-cu112', 'cpu'),
        (['mxnet'], 'GPU=1 TORCH=0', 'mxnet', 'cu112'),
        (['mxnet', 'mxnet-cu112'], '', 'mxnet mxnet-cu112', 'cu112'),
        (['mxnet'], 'TORCH=1', None, 'torch'),
        ([], '', None, 'cpu'),
        (['mxnet-cu112'], 'GPU=0 TORCH=1', None, None),
    ],
)
def test_in_conda_the_commands_never_leave_two_builds(
    builds, choice, removed, extra, tmp_path, bare
):
    python = bare()
    for build in builds:
        distribution(tmp_path / 'builds', build)
    done = subprocess.run(
        [python, '-c', f'from mgpu_helpers.doctor import fixes; print(fixes.setup({choice!r}))'],
        capture_output=True,
        text=True,
        env=environment([tmp_path / 'builds'], CONDA_PREFIX=str(python.parent.parent)),
    )
    assert done.returncode == 0, done.stderr
    if extra is None:
        assert done.stdout.startswith('conda create -n mgpu-torch ')
        return
    assert f"'[{extra},notebooks]'" in done.stdout
    found = re.search(r'uninstall -y (.*?) && ', done.stdout)
    assert (found and found[1]) == removed


@pytest.mark.parametrize(
    ('name', 'choice', 'fix'),
    [
        ('MXNet', '0', 'rm -rf .venv && make setup'),
        ('PyTorch', '1', 'rm -rf .venv && make setup TORCH=1'),
        ('PyTorch', '0', 'make setup TORCH=1'),
    ],
)
def test_what_was_removed_from_a_finished_environment_needs_a_new_one(
    name, choice, fix, bare, tmp_path
):
    """`make setup` takes one that it finished for good."""
    course = tmp_path / 'course'
    shutil.copytree(ROOT / 'mgpu_helpers', course / 'mgpu_helpers')
    shutil.copy(ROOT / 'Makefile', course)
    shutil.move(bare().parent.parent, course / '.venv')
    (course / '.venv/made-by-setup').touch()
    (course / '.uv').mkdir()
    (course / '.uv/torch').write_text(f'{choice}\n')
    done = subprocess.run(
        ['.venv/bin/python', '-m', 'mgpu_helpers', 'doctor', '--json']
        + ['--only', 'mxnet', '--only', 'torch'],
        cwd=course,
        capture_output=True,
        text=True,
        env=environment() | {'PYTHONPATH': ''},
    )
    assert done.returncode == 1, done.stderr
    rows = {row['name']: row for row in json.loads(done.stdout)['checks']}
    assert rows[name]['fix'] == fix


def test_setup_names_the_same_package_for_a_library_as_doctor():
    script = (ROOT / 'tools/setup.sh').read_text()
    named = dict(re.findall(r'^ +(lib\S+\.so\.\d)\)\n.*\n.*apt-get install (\S+) ', script, re.M))
    assert len(named) >= 3
    assert named == {library: fixes.PACKAGES[library][0] for library in named}
