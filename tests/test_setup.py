"""`make setup`: run for real, in copies of this checkout."""

import hashlib
import os
import re
import shutil
import sys
import tarfile
from pathlib import Path

import pytest
from checkouts import ROOT, call, choose, copy_to, folder_of_tools, python, refused, setup
from packaging.version import Version
from serving import mirror

HOSTED = (ROOT / 'book/elsewhere.md').read_text()
NO_GPU = {'CUDA_VISIBLE_DEVICES': '-1'}  # NVIDIA's driver, where there is one, gives none then


def test_nothing_to_fetch_uv_with_or_from_is_said(checkout, tmp_path):
    tools = folder_of_tools(tmp_path / 'bin')
    refused(setup(checkout, PATH=tools), 'no uv', 'no Python 3', 'no curl', 'apt-get install')
    assert not (checkout / '.venv').exists()


def test_without_pip_uv_is_what_its_makers_published_or_nothing_is_run(tmp_path, offline):
    folder, tools = copy_to(tmp_path / 'course'), folder_of_tools(tmp_path / 'bin')
    brought, ran = tmp_path / 'brought', tmp_path / 'ran'
    brought.write_text(f'#!/bin/sh\ntouch {ran}\necho uv 0.9\n')
    # One that sends far too much is stopped before it has.
    (tools / 'curl').write_text(f'#!/bin/sh\nhead -c 200000000 /dev/zero && touch {ran}\n')
    (tools / 'curl').chmod(0o755)
    here = offline | {'PATH': tools}
    refused(setup(folder, **here), 'could not fetch uv')
    assert not ran.exists()

    (tools / 'curl').write_text(f'#!/bin/sh\nexec cat {brought}\n')
    brought.chmod(0o755)
    done = setup(folder, **here)
    refused(done, 'could not fetch uv', 'is not the published file', 'network?', 'HTTPS_PROXY')
    assert not ran.exists()

    with tarfile.open(tmp_path / 'uv.tar.gz', 'w:gz') as archive:
        archive.add(brought, 'uv-somewhere/uv')
    brought = (tmp_path / 'uv.tar.gz').rename(brought)
    text = (folder / 'tools/get-uv.sh').read_text()
    sha256 = hashlib.sha256(brought.read_bytes()).hexdigest()
    (folder / 'tools/get-uv.sh').write_text(re.sub('sum=[0-9a-f]{64}', f'sum={sha256}', text))
    assert 'could not fetch uv' not in setup(folder, **here).stderr and ran.exists()


def test_no_network_for_packages_or_a_python_is_said(checkout, tmp_path, offline):
    for _ in range(2):
        choose(checkout, **offline)
        assert not (checkout / '.venv').exists()  # it comes when it is whole

    tools = folder_of_tools(tmp_path / 'bin')
    (tools / 'uv').symlink_to(shutil.which('uv', path=offline['PATH']))
    nowhere = offline | {'PATH': tools, 'UV_PYTHON_INSTALL_DIR': tmp_path / 'none'}
    done = setup(checkout, **nowhere)
    refused(done, 'Python 3.11 is missing', 'apt-get install python3.11', 'conda')


def another_system(folder, system, machine):
    """A PATH as on macOS: uname says so, and GNU's own tools are not there."""
    tools = folder_of_tools(folder)
    for name in ('uname', 'sha256sum', 'flock', 'stat'):
        (tools / name).unlink(missing_ok=True)
    sums, stat = shutil.which('sha256sum'), shutil.which('stat')
    for name, text in {
        'uname': f'[ "$1" = -m ] && echo {machine} || echo {system}',
        'shasum': f'[ "$1 $2" = "-a 256" ] && exec {sums}',
        'stat': f'[ "$1 $2" = "-f %d" ] && exec {stat} -c %d "$3"',
    }.items():
        (tools / name).write_text(f'#!/bin/sh\n{text}\n')
        (tools / name).chmod(0o755)
    return tools


def test_where_mxnet_has_no_build_pytorch_alone_is_installed(checkout, tmp_path, offline):
    tools = another_system(tmp_path / 'neither', 'Darwin', 'x86_64')
    refused(setup(checkout, PATH=tools, TORCH=1), "'Darwin x86_64'", 'Linux x86_64', "PyTorch's")
    assert not (checkout / '.venv').exists() and not (checkout / '.uv').exists()
    for system in ('Linux aarch64', 'Darwin arm64'):
        shutil.rmtree(checkout / '.uv', ignore_errors=True)
        tools = another_system(tmp_path / system, *system.split())
        for name in ('uv', 'python3.11'):
            (tools / name).symlink_to(shutil.which(name, path=offline['PATH']))
        here = offline | {'PATH': tools}
        refused(setup(checkout, **here, TORCH=0), f"'{system}'", 'make setup')
        assert not (checkout / '.uv').exists()
        assert choose(checkout, **here)[0] == 'tools/locks/base.txt tools/locks/torch.txt'
    # It is remembered.
    assert choose(checkout, **here)[0] == 'tools/locks/base.txt tools/locks/torch.txt'


def test_pip_index_and_wheel_folder_reach_uv(checkout, tmp_path, offline):
    (tmp_path / 'wheels').mkdir()
    direct = offline | {'HTTPS_PROXY': None, 'HTTP_PROXY': None, 'NO_PROXY': '127.0.0.1'}
    with mirror({}) as (address, asked):
        index = address.replace('{name}', 'a-mirror')
        wheels = f'{tmp_path / "wheels"} {tmp_path / "not-there"}'
        _, said = choose(checkout, **direct, PIP_INDEX_URL=index, PIP_FIND_LINKS=wheels)
    assert any(path.startswith('/a-mirror/uv') for path in asked)
    assert 'not-there' not in said


@pytest.fixture(scope='module')
def made(tmp_path_factory, with_uv):
    """A copy that was left half-made, repaired by README's command without a network.

    With PyTorch, where its wheel is at hand: then `.uv/torch` says 1.
    """
    folder = copy_to(tmp_path_factory.mktemp('made') / 'a course')
    for torch in (1, 0):
        shutil.rmtree(folder / '.venv', ignore_errors=True)
        (folder / '.venv').mkdir()
        given = {'PATH': with_uv, 'UV_OFFLINE': 1, **NO_GPU}
        done = call(folder, 'make', 'setup', f'TORCH={torch}', **given)
        if 'could not be reached' not in done.stdout + done.stderr:
            break
    else:
        pytest.skip("not every wheel is in uv's cache, and the network is not used here")
    assert done.returncode == 0 and 'not finished' in done.stdout + done.stderr, done.stderr
    yield folder
    shutil.rmtree(folder)  # 1.6 GB where files cannot be linked


def test_the_readmes_commands_work_in_a_clean_checkout(made, with_uv):
    code = """
import mgpu_helpers as mgpu, mxnet as mx
from jupyter_client.kernelspec import get_kernel_spec
for name in 'python3', 'mgpu-torch':
    spec = get_kernel_spec(name)
    print(spec.argv[0], spec.display_name, sep='\\n')
print(mgpu.__file__, mx.__version__, sep='\\n')
if open('.uv/torch').read() == '1\\n':
    import torch
    assert torch.from_numpy(mx.nd.ones(3).asnumpy()).sum().item() == 3
    assert torch.__version__ == '2.13.0+cpu'
"""
    done = python(made, code, JUPYTER_PREFER_ENV_PATH=1)
    assert done.returncode == 0, done.stderr
    kernel, name, another, title, where, version = done.stdout.splitlines()
    assert where == f'{made}/mgpu_helpers/__init__.py' and Path(kernel).parent == made / '.venv/bin'
    assert (another, version) == (kernel, '1.9.1')
    assert (name, title) == ('Python 3 (multi-GPU course)', 'PyTorch (multi-GPU course)')
    done = call(made, 'make', 'test', 'TESTS=tests/test_costs.py', PATH=with_uv, **NO_GPU)
    assert done.returncode == 0 and ' passed' in done.stdout, done.stdout + done.stderr


def test_a_switch_that_cannot_be_had_leaves_what_there_was(made, with_uv, offline):
    torch = (made / '.uv/torch').read_text().strip()
    ready, given = setup(made, PATH=with_uv).stdout, {'TORCH': '10'[int(torch)], **NO_GPU}
    assert ready.count('\n') == 1
    refused(setup(made, **offline, **given), 'could not be reached')
    assert setup(made, PATH=with_uv).stdout == ready
    assert python(made, 'import mgpu_helpers, mxnet').returncode == 0


def test_second_setup_changes_nothing_unless_the_project_has(made, tmp_path, with_uv):
    stamp, torch = made / '.venv/made-by-setup', (made / '.uv/torch').read_text().strip()
    before = stamp.stat().st_mtime_ns
    for given in ([], [f'TORCH={torch}']):
        done = call(made, 'make', 'setup', *given, PATH=with_uv, **NO_GPU)
        what = 'MXNet for CPUs and PyTorch' if torch == '1' else 'MXNet for CPUs'
        assert (done.returncode, done.stderr) == (0, '')
        assert done.stdout == f'setup: ready ({what} in .venv)\n'
    assert stamp.stat().st_mtime_ns == before

    bare = folder_of_tools(tmp_path / 'bin')
    assert setup(made, PATH=bare).returncode == 0  # nothing is needed to see that it is ready
    project, text = made / 'pyproject.toml', (made / 'pyproject.toml').read_text()
    project.write_text(f'{text}# one more line\n')
    refused(setup(made, PATH=bare), 'no uv')
    project.write_text(text)


@pytest.mark.slow  # the first time it downloads 70 MB
def test_pytorch_alone(made, with_uv):
    done = setup(made, PATH=with_uv, TORCH='only', **NO_GPU)
    if 'is there a network?' in done.stderr:
        pytest.skip('no network, and not every wheel is in the cache')
    assert done.stdout.endswith('setup: ready (PyTorch without MXNet in .venv)\n'), done.stderr
    assert setup(made, PATH=with_uv).stdout.count('\n') == 1

    done = python(made, 'import mgpu_helpers, torch, mxnet')
    assert "MXNet is not installed in this Python. Run 'make setup'" in done.stderr
    done = call(made, 'make', '-n', 'lab', PATH=with_uv)
    assert 'notebooks/05-multiple-gpus-pytorch.ipynb' in done.stdout
    check_without_mxnet(made, made / '.venv/bin/python')


@pytest.mark.slow  # the first time it downloads 70 MB
def test_the_readmes_way_for_windows_takes_todays_numpy(checkout, tmp_path, with_uv):
    interpreter = tmp_path / 'venv/bin/python'
    done = call(checkout, 'uv', 'venv', '-p', '3.11', tmp_path / 'venv', PATH=with_uv)
    assert done.returncode == 0, done.stderr
    links = ['--find-links', os.environ['PIP_FIND_LINKS']] if 'PIP_FIND_LINKS' in os.environ else []
    install = ('uv', 'pip', 'install', '-p', interpreter, *links)
    done = call(checkout, *install, '-e', '.[torch,notebooks]', 'pytest', 'psutil', PATH=with_uv)
    if 'error sending request' in done.stderr or 'Failed to fetch' in done.stderr:
        pytest.skip('no network, and not every wheel is in the cache')
    assert done.returncode == 0, done.stderr
    done = call(checkout, interpreter, '-c', 'import numpy; print(numpy.__version__)')
    assert Version(done.stdout) >= Version('2')
    check_without_mxnet(checkout, interpreter)


@pytest.mark.slow  # it downloads 100 MB
def test_the_cell_for_hosted_notebooks_runs_where_there_is_pip_alone(tmp_path):
    """In a plain environment of the newest Python here; for PyTorch's sake, none is fetched."""
    # One that is found may be pyenv's, and switched off.
    there = filter(shutil.which, ('python3.13', 'python3.12'))
    newest = next((p for p in there if not call(tmp_path, p, '-c', '').returncode), sys.executable)
    venv, work = tmp_path / 'venv', tmp_path / 'work'
    (work / 'origin').mkdir(parents=True)
    done = call(work, newest, '-m', 'venv', venv)
    if not done.returncode:
        done = call(work, venv / 'bin/pip', 'install', '--quiet', 'ipython')
    if done.returncode:
        pytest.skip(f'no plain environment: {done.stderr}')
    (next(venv.glob('lib/python3*/site-packages')) / 'torch.py').touch()
    (cell,) = re.findall(r'```python\n(import importlib.util, os, sys\n.*?)```', HOSTED, re.DOTALL)
    cell = cell.replace('https://github.com/OWNER/NAME', f'file://{ROOT}')
    again = f'{cell}\n{cell}\nimport os, mgpu_helpers\nprint(os.getcwd(), mgpu_helpers.__file__)\n'
    (work / 'cell.ipy').write_text(again)
    done = call(work, venv / 'bin/ipython', 'cell.ipy', timeout=900)
    where, module = done.stdout.splitlines()[-1].split()
    assert where == f'{work}/course/notebooks' and module.startswith(f'{work}/course/'), done.stderr


def check_without_mxnet(folder, interpreter):
    """Tests of what needs no MXNet pass, and those of what does are skipped."""
    files = ('tests/test_history.py', 'tests/test_train.py')
    done = call(folder, interpreter, '-m', 'pytest', *files, PYTHONPATH=None)
    assert done.returncode == 0, done.stdout
    assert 'tests/test_train.py: MXNet is not installed here' in done.stdout
