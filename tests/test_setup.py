"""`make setup`: run for real, in copies of this checkout."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from checkouts import (
    NOTHING_TO_BE_HAD,
    call,
    copy_to,
    environment,
    folder_of_tools,
    python,
    refused,
    setup,
)
from packaging.version import Version
from serving import mirror

# --- A machine that lacks something ---------------------------------------------------------------


def test_wrong_platform_is_named(checkout, tmp_path):
    tools = another_system(tmp_path / 'bin', 'Darwin', 'x86_64')
    for torch in (None, 1):
        done = setup(checkout, PATH=tools, TORCH=torch)
        refused(done, "'Darwin x86_64'", 'Linux x86_64', 'chapter 5')
    assert not (checkout / '.venv').exists() and not (checkout / '.uv').exists()


def test_nothing_to_fetch_with_is_said(checkout, tmp_path):
    tools = folder_of_tools(tmp_path / 'bin')
    refused(setup(checkout, PATH=tools), 'no uv', 'no Python 3', 'no curl', 'apt-get install')
    assert not (checkout / '.venv').exists()


def test_no_network_for_uv_is_said(checkout, tmp_path):
    tools = folder_of_tools(tmp_path / 'bin', 'curl')
    done = setup(checkout, PATH=tools, HTTPS_PROXY='http://127.0.0.1:9', https_proxy=None)
    if not (tools / 'curl').exists():
        pytest.skip('no curl here')
    refused(done, 'could not fetch uv', 'is there a network?', 'HTTPS_PROXY')


def test_no_network_for_packages_is_said_and_the_next_run_repairs(checkout, tmp_path, with_uv):
    offline = {
        'PATH': with_uv,
        'UV_CACHE_DIR': tmp_path / 'cache',
        'HTTPS_PROXY': 'http://127.0.0.1:9',
        'UV_HTTP_RETRIES': 0,
    }
    refused(setup(checkout, **offline), 'packages could not be reached', 'is there a network?')
    again = setup(checkout, **offline)
    refused(again, 'is there a network?')
    assert 'not finished' in again.stdout


def test_no_python_and_no_network_for_one_is_said(checkout, tmp_path, with_uv):
    tools = folder_of_tools(tmp_path / 'bin')
    (tools / 'uv').symlink_to(shutil.which('uv', path=with_uv))
    done = setup(
        checkout,
        PATH=tools,
        HTTPS_PROXY='http://127.0.0.1:9',
        UV_HTTP_RETRIES=0,
        UV_PYTHON_INSTALL_DIR=tmp_path / 'none',
        UV_CACHE_DIR=tmp_path / 'cache',
    )
    refused(done, 'Python 3.11 is missing', 'apt-get install python3.11', 'conda')


def another_system(folder, system, machine, *more):
    """A PATH as on macOS: uname says so, and GNU's own tools are not there."""
    tools = folder_of_tools(folder, *more)
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


@pytest.mark.parametrize('system', ['Darwin arm64', 'Linux aarch64'])
def test_where_mxnet_has_no_build_pytorch_alone_is_installed(checkout, tmp_path, with_uv, system):
    tools = another_system(tmp_path / 'bin', *system.split())
    for name in ('uv', 'python3.11'):
        (tools / name).symlink_to(shutil.which(name, path=with_uv))
    plain = {'PATH': tools, 'UV_CACHE_DIR': tmp_path / 'cache', **NOTHING_TO_BE_HAD}
    refused(setup(checkout, **plain), f"'{system}'", 'make setup TORCH=1')
    assert not (checkout / '.uv').exists()
    for options in ({'TORCH': 1}, {}):  # what was chosen is remembered
        done = setup(checkout, **plain, **options)
        refused(done, 'packages could not be reached')
        assert 'the rest of requirements-no-mxnet.txt requirements-torch.txt\n' in done.stdout


@pytest.mark.skipif(os.geteuid() == 0, reason='root may write everywhere')
def test_folder_without_permission_is_named(checkout):
    checkout.chmod(0o555)
    refused(setup(checkout), 'cannot write', str(checkout))


def test_pip_index_and_wheel_folder_reach_uv(checkout, tmp_path, with_uv):
    wheels = tmp_path / 'wheels'
    wheels.mkdir()
    with mirror({}) as (address, asked):
        index = address.replace('{name}', 'a-mirror')
        done = setup(
            checkout,
            PATH=with_uv,
            UV_CACHE_DIR=tmp_path / 'cache',
            PIP_INDEX_URL=index,
            PIP_FIND_LINKS=f'{wheels} {tmp_path / "not-there"}',
            HTTPS_PROXY=None,
            HTTP_PROXY=None,
            NO_PROXY='127.0.0.1',
        )
    assert any(path.startswith('/a-mirror/uv') for path in asked)
    refused(done, 'packages could not be reached')
    assert 'not-there' not in done.stderr


# --- A machine that has everything ----------------------------------------------------------------


@pytest.fixture(scope='module')
def made(tmp_path_factory, with_uv):
    """A copy of the checkout with its environment, from uv's cache; no network is used.

    It was left half-made, and then two setups repaired it at once; what they said is in `said`.
    """
    folder = copy_to(tmp_path_factory.mktemp('made') / 'a course')
    (folder / '.venv').mkdir()
    both = [
        subprocess.Popen(
            ['sh', 'tools/setup.sh'],
            cwd=folder,
            env=environment(PATH=with_uv, GPU=0, UV_OFFLINE=1),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(2)
    ]
    said = [process.communicate(timeout=300)[0] for process in both]
    if 'could not be reached' in said[0] + said[1]:
        pytest.skip(
            "not every wheel of the lock is in uv's cache, and the network is not used here"
        )
    assert [process.returncode for process in both] == [0, 0], said
    (folder / '.uv/said').write_text('\n'.join(said))
    yield folder
    shutil.rmtree(folder)  # 1.6 GB where files cannot be linked


def test_two_setups_at_once_repair_a_half_made_environment(made):
    said = (made / '.uv/said').read_text()
    assert said.count('not finished') == 1
    if shutil.which('flock'):
        assert said.count('waiting for it') == 1


def test_setup_leaves_a_working_kernel_of_its_own(made):
    done = call(
        made,
        made / '.venv/bin/python',
        '-c',
        'import mgpu_helpers as mgpu, mxnet as mx\n'
        'from jupyter_client.kernelspec import get_kernel_spec\n'
        'spec = get_kernel_spec("python3")\n'
        'print(mgpu.__file__, spec.argv[0], spec.display_name, mx.__version__, sep="\\n")',
        JUPYTER_PREFER_ENV_PATH=1,
        PYTHONPATH=None,
    )
    where, python, name, version = done.stdout.splitlines()
    assert Path(where) == made / 'mgpu_helpers/__init__.py'
    assert Path(python).parent == made / '.venv/bin'
    assert (name, version) == ('Python 3 (multi-GPU course)', '1.9.1')


def test_second_setup_changes_nothing(made, with_uv):
    before = (made / '.venv/made-by-setup').stat().st_mtime_ns
    done = call(made, 'make', 'setup', PATH=with_uv)
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        'setup: ready (MXNet for CPUs in .venv)\n',
        '',
    )
    assert (made / '.venv/made-by-setup').stat().st_mtime_ns == before


def test_changed_project_is_brought_up_to_date(made, with_uv):
    with (made / 'pyproject.toml').open('a') as file:
        file.write('# one more line\n')
    done = setup(made, PATH=with_uv, UV_OFFLINE=1)
    assert done.returncode == 0, done.stderr
    assert 'bringing it up to date' in done.stdout
    assert setup(made, PATH=with_uv).stdout.count('\n') == 1


def test_binder_gets_a_kernel_of_this_environment(made, tmp_path, with_uv):
    """What repo2docker runs at the end of its build; without a network, so without data."""
    done = call(
        made,
        '.binder/postBuild',
        PATH=with_uv,
        HOME=tmp_path,
        MXNET_HOME=tmp_path / 'data',
        MGPU_DATA_MIRRORS='http://127.0.0.1:9',
        NB_PYTHON_PREFIX=tmp_path / 'notebook',
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert 'the chapters fetch it' in done.stdout
    kernel = tmp_path / 'notebook/share/jupyter/kernels/python3/kernel.json'
    assert json.loads(kernel.read_text())['argv'][0] == str(made / '.venv/bin/python')


# --- PyTorch --------------------------------------------------------------------------------------


@pytest.fixture(scope='module')
def made_with_torch(made, with_uv):
    """The same copy with PyTorch added, from uv's cache or pip's folder of wheels; no network."""
    done = setup(made, PATH=with_uv, TORCH=1, UV_OFFLINE=1, CUDA_VISIBLE_DEVICES='-1')
    if 'could not be reached' in done.stderr:
        pytest.skip('not every wheel of PyTorch is at hand, and the network is not used here')
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith('setup: ready (MXNet for CPUs and PyTorch in .venv)\n')
    return made


def test_pytorch_and_mxnet_share_an_environment(made_with_torch):
    done = python(
        made_with_torch,
        'import mgpu_helpers, mxnet as mx, torch\n'
        'print(torch.from_numpy(mx.nd.ones(3).asnumpy()).sum().item(), torch.__version__)',
    )
    assert done.stdout == '3.0 2.13.0+cpu\n', done.stderr


def test_pytorch_is_kept_until_it_is_taken_away(made_with_torch, with_uv):
    stamp = made_with_torch / '.venv/made-by-setup'
    before = stamp.stat().st_mtime_ns
    for command in (['setup'], ['setup', 'TORCH=1']):
        done = call(made_with_torch, 'make', *command, PATH=with_uv, CUDA_VISIBLE_DEVICES='-1')
        assert done.returncode == 0, done.stderr
    assert stamp.stat().st_mtime_ns == before
    done = setup(made_with_torch, PATH=with_uv, GPU=1, CUDA_VISIBLE_DEVICES='-1')
    refused(done, '(TORCH=1 since last time)')
    assert stamp.stat().st_mtime_ns == before

    done = setup(made_with_torch, PATH=with_uv, TORCH=0, UV_OFFLINE=1)
    assert done.stdout.endswith('setup: ready (MXNet for CPUs in .venv)\n'), done.stderr
    assert "No module named 'torch'" in python(made_with_torch, 'import torch').stderr
    assert python(made_with_torch, 'import mgpu_helpers, mxnet').returncode == 0
    assert setup(made_with_torch, PATH=with_uv).stdout.count('\n') == 1


@pytest.mark.slow  # the first time it downloads 70 MB
def test_pytorch_alone(made_with_torch, with_uv):
    done = setup(made_with_torch, PATH=with_uv, TORCH='only', CUDA_VISIBLE_DEVICES='-1')
    if 'is there a network?' in done.stderr:
        pytest.skip('no network, and not every wheel is in the cache')
    assert done.stdout.endswith('setup: ready (PyTorch without MXNet in .venv)\n'), done.stderr
    assert setup(made_with_torch, PATH=with_uv).stdout.count('\n') == 1

    done = python(made_with_torch, 'import mgpu_helpers, numpy, torch; print(numpy.__version__)')
    assert Version(done.stdout) >= Version('2')
    done = python(made_with_torch, 'import mgpu_helpers, mxnet')
    assert "MXNet is not installed in this Python. Run 'make setup'" in done.stderr

    done = call(made_with_torch, 'make', '-n', 'lab', PATH=with_uv)
    assert 'notebooks/05-multiple-gpus-pytorch.ipynb' in done.stdout
    done = call(
        made_with_torch,
        *('.venv/bin/python', '-m', 'pytest', 'tests/test_history.py', 'tests/test_train.py'),
        PYTHONPATH=None,
    )
    assert done.returncode == 0, done.stdout
    assert 'tests/test_train.py: MXNet is not installed here' in done.stdout
