"""`make setup` and what stands around it: run for real, in copies of this checkout."""

import ctypes.util
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from serving import mirror

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']
EXTRAS = PROJECT['optional-dependencies']
LOCKS = {
    'cpu': 'requirements.txt',
    'cu112': 'requirements-cu112.txt',
    'no-mxnet': 'requirements-no-mxnet.txt',
}
# Each of these is installed together with the first or the last of those.
TORCH_LOCKS = {'torch': 'requirements-torch.txt', 'torch-cpu': 'requirements-torch-cpu.txt'}
MACHINES = {
    'linux': {'platform_machine': 'x86_64', 'sys_platform': 'linux', 'os_name': 'posix'},
    'macos': {'platform_machine': 'arm64', 'sys_platform': 'darwin', 'os_name': 'posix'},
    'windows': {'platform_machine': 'AMD64', 'sys_platform': 'win32', 'os_name': 'nt'},
}
# What setup.sh calls besides Python, uv and a downloader.
TOOLS = (
    'sh awk cat chmod cp cut date df dirname env expand false flock grep head id ln ls mkdir mv '
    'printenv readlink rm sed sha256sum sort stat tail touch tr true uname'
).split()


def tracked():
    """The files of the checkout: what git has, and what is not ignored."""
    try:
        listed = subprocess.run(
            ['git', 'ls-files', '-z', '--cached', '--others', '--exclude-standard'],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip('not a git checkout')
    return [name for name in listed.split('\0') if name and (ROOT / name).is_file()]


@pytest.fixture
def checkout(tmp_path):
    """A copy of this checkout in a folder with a space in its name."""
    return copy_to(tmp_path / 'a course')


def copy_to(folder):
    for name in tracked():
        if name.startswith(('notebooks/', 'benchmarks/results/')):
            continue
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    return folder


def environment(**changes):
    """Our environment without what a surrounding `make` put there; None takes a name away."""
    ours = ('MAKE', 'MFLAGS', 'UV_', 'GPU', 'TORCH')
    env = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    if cache := os.environ.get('UV_CACHE_DIR'):  # where HOME is of no use, this is where wheels are
        env['UV_CACHE_DIR'] = cache
    for name, value in changes.items():
        env.pop(name, None)
        if value is not None:
            env[name] = str(value)
    return env


def call(folder, *command, **changes):
    return subprocess.run(
        command,
        cwd=folder,
        env=environment(**changes),
        capture_output=True,
        text=True,
        timeout=300,
    )


def setup(folder, **changes):
    return call(folder, 'sh', 'tools/setup.sh', **changes)


def refused(done, *words):
    """It ended with a sentence on stderr, and with no page of a program's own words."""
    assert done.returncode == 1, done.stdout + done.stderr
    for word in words:
        assert word in done.stderr
    assert 'Traceback' not in done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) <= 6 and all(line.startswith('setup: ') for line in lines), done.stderr


def folder_of_tools(folder, *more):
    """A PATH with the usual small programs only, and those of `more` that are here."""
    folder.mkdir()
    for name in (*TOOLS, *more):
        if found := shutil.which(name):
            (folder / name).symlink_to(found)
    return folder


@pytest.fixture(scope='module')
def with_uv():
    """A PATH on which uv and a Python 3.11 are found; skips where `make setup` was not used."""
    places = os.pathsep.join([os.environ['PATH'], str(ROOT / '.uv' / 'bin')])
    if shutil.which('uv', path=places) is None:
        pytest.skip('no uv here: the environment was not made by `make setup`')
    if sys.version_info[:2] != (3, 11):
        pytest.skip('needs Python 3.11')
    return os.pathsep.join([str(Path(sys.base_prefix) / 'bin'), places])


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


def test_wrong_gpu_value_is_named(checkout):
    refused(setup(checkout, GPU='yes'), "GPU is 'yes'", 'expected 1')


def test_gpu_packages_without_a_driver_are_not_fetched(checkout, tmp_path, with_uv):
    if ctypes.util.find_library('cuda'):
        pytest.skip("NVIDIA's driver is here")
    cache = tmp_path / 'cache'
    done = setup(checkout, GPU=1, PATH=with_uv, UV_CACHE_DIR=cache, LD_LIBRARY_PATH=None)
    refused(done, "NVIDIA's driver", 'make setup GPU=0')
    # The choice is remembered until it is taken back.
    refused(setup(checkout, PATH=with_uv, UV_CACHE_DIR=cache, LD_LIBRARY_PATH=None), 'GPU=0')


def test_wrong_torch_value_is_named(checkout):
    refused(setup(checkout, TORCH='yes'), "TORCH is 'yes'", 'expected 1', 'only')
    assert not (checkout / '.uv').exists()


@pytest.mark.parametrize(
    ('remembered', 'given'),
    [
        ({}, {'GPU': 1, 'TORCH': 1}),
        ({}, {'GPU': 1, 'TORCH': 'only'}),
        ({'torch': '1'}, {'GPU': 1}),
        ({'torch': 'only'}, {'GPU': 1}),
        ({'kind': 'cu112'}, {'TORCH': 1}),
    ],
)
def test_mxnet_for_gpus_and_pytorch_are_not_mixed(checkout, remembered, given):
    for name, what in remembered.items():
        (checkout / '.uv').mkdir()
        (checkout / '.uv' / name).write_text(f'{what}\n')
    before = {path: path.stat().st_mtime_ns for path in checkout.rglob('*')}
    done = setup(checkout, **given)
    refused(done, 'GPU=1 and TORCH=', 'GPU=1 TORCH=0', 'GPU=0 TORCH=1', 'libnccl.so.2', 'clone')
    assert ('since last time' in done.stderr) == bool(remembered)
    assert {path: path.stat().st_mtime_ns for path in checkout.rglob('*')} == before


# A setup that ends where the first package would be fetched.
NOTHING_TO_BE_HAD = {'HTTPS_PROXY': 'http://127.0.0.1:9', 'UV_HTTP_RETRIES': 0}


@pytest.mark.parametrize(
    ('gpus', 'cuda', 'chosen', 'why'),
    [
        ([], 13000, 'requirements-torch-cpu.txt', ''),
        ([('H100', 80, (9, 0))], 13000, 'requirements-torch.txt', ''),
        ([('P100', 16, (6, 0)), ('T4', 16, (7, 5))], 13010, 'requirements-torch.txt', ''),
        ([('P100', 16, (6, 0))], 13000, 'requirements-torch-cpu.txt', 'capability 6.0'),
        ([('H100', 80, (9, 0))], 12040, 'requirements-torch-cpu.txt', 'knows CUDA 12.4'),
    ],
)
def test_driver_decides_which_pytorch(
    checkout, tmp_path, with_uv, stub_driver, gpus, cuda, chosen, why
):
    done = setup(
        checkout,
        TORCH=1,
        PATH=with_uv,
        UV_CACHE_DIR=tmp_path / 'cache',
        LD_LIBRARY_PATH=stub_driver(gpus, cuda),
        **NOTHING_TO_BE_HAD,
    )
    refused(done, 'packages could not be reached', why)
    assert f'the rest of requirements.txt {chosen}\n' in done.stdout
    assert ('will not use a GPU' in done.stderr) == bool(why)


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
    """A copy of the checkout with its environment, from uv's cache; no network is used."""
    folder = copy_to(tmp_path_factory.mktemp('made') / 'a course')
    done = setup(folder, PATH=with_uv, UV_OFFLINE=1)
    if 'could not be reached' in done.stderr:
        pytest.skip(
            "not every wheel of the lock is in uv's cache, and the network is not used here"
        )
    assert done.returncode == 0, done.stdout + done.stderr
    yield folder
    shutil.rmtree(folder)  # 750 MB where files cannot be linked


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


def test_two_setups_at_once_repair_a_half_made_environment(made, with_uv):
    (made / '.venv/made-by-setup').unlink()
    (made / '.venv/bin/python').unlink()
    both = [
        subprocess.Popen(
            ['sh', 'tools/setup.sh'],
            cwd=made,
            env=environment(PATH=with_uv, UV_OFFLINE=1),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(2)
    ]
    said = [process.communicate(timeout=300)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert sum('not finished' in text for text in said) == 1
    if shutil.which('flock'):
        assert sum('waiting for it' in text for text in said) == 1
    done = call(made, made / '.venv/bin/python', '-c', 'import mgpu_helpers, mxnet')
    assert done.returncode == 0, done.stderr


# --- PyTorch --------------------------------------------------------------------------------------


def python(folder, code):
    return call(folder, folder / '.venv/bin/python', '-W', 'ignore', '-c', code, PYTHONPATH=None)


@pytest.fixture(scope='module')
def made_with_torch(tmp_path_factory, with_uv):
    """A copy with MXNet and PyTorch, from uv's cache or pip's folder of wheels; no network."""
    folder = copy_to(tmp_path_factory.mktemp('torch') / 'a course')
    done = setup(folder, PATH=with_uv, TORCH=1, UV_OFFLINE=1, CUDA_VISIBLE_DEVICES='-1')
    if 'could not be reached' in done.stderr:
        pytest.skip('not every wheel of PyTorch is at hand, and the network is not used here')
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith('setup: ready (MXNet for CPUs and PyTorch in .venv)\n')
    yield folder
    shutil.rmtree(folder)  # 1.6 GB where files cannot be linked


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
    refused(setup(made_with_torch, PATH=with_uv, GPU=1), '(TORCH=1 since last time)')
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


# --- make -----------------------------------------------------------------------------------------


def targets():
    line = re.search(r'^\.PHONY:(.*)$', (ROOT / 'Makefile').read_text(), re.MULTILINE)
    return line.group(1).split()


def test_help_is_the_default_and_lists_every_target():
    done = call(ROOT, 'make')
    assert done.returncode == 0, done.stderr
    listed = re.findall(r'^ +make (\w+) +\S', done.stdout, re.MULTILINE)
    assert sorted(listed) == sorted(targets())
    assert len(done.stdout.splitlines()) == len(listed)


def test_readme_names_only_commands_that_there_are():
    readme = ROOT / 'README.md'
    if not readme.exists():
        pytest.skip('no README.md yet')
    # In code only: text may well say that something makes sense.
    text = readme.read_text()
    code = '\n'.join(re.findall(r'```.*?```|`[^`\n]+`', text, re.DOTALL))
    named = re.findall(r'\bmake ([a-z]+)', code)
    assert {'lab', 'test'} <= set(named)
    assert set(named) <= set(targets())


@pytest.mark.parametrize(
    ('given', 'expected'),
    [
        (None, '{home}/.mxnet'),
        ('', '{home}/.mxnet'),
        ('/data/sets', '/data/sets'),
        ('sub dir', '{here}/sub dir'),
        ('../up', '{up}'),
        ('~/data', '{home}/data'),
    ],
)
def test_data_folder_is_absolute(tmp_path, given, expected):
    here, home, up = tmp_path / 'a course', tmp_path / 'home', tmp_path / 'up'
    for folder in (here, home, up):
        folder.mkdir()
    script = f'. "{ROOT}/tools/env.sh" && printf %s "$MXNET_HOME"'
    done = call(here, 'sh', '-c', script, HOME=home, MXNET_HOME=given)
    assert done.stdout == expected.format(here=here, home=home, up=up)


@pytest.mark.parametrize('home', [None, '', '/no/such/folder'])
def test_without_a_home_everything_stays_in_the_course(tmp_path, home):
    script = f'. "{ROOT}/tools/env.sh" && printf "%s\\n" "$HOME" "$UV_CACHE_DIR" "$MXNET_HOME"'
    done = call(tmp_path, 'sh', '-c', script, HOME=home, UV_CACHE_DIR=None, MXNET_HOME=None)
    assert done.stdout.split() == [
        f'{tmp_path}/.uv/{name}' for name in ('home', 'cache', 'home/.mxnet')
    ]
    assert (tmp_path / '.uv/home').is_dir()


# --- What is needed, and which --------------------------------------------------------------------


def lock(kind, machine='linux', version='3.11'):
    """What a lock installs on a machine: {name: (version, hashes)}."""
    text = (ROOT / (LOCKS | TORCH_LOCKS)[kind]).read_text().replace('\\\n', ' ')
    here = default_environment() | MACHINES[machine]
    here |= {'python_version': version, 'python_full_version': f'{version}.9'}
    found = {}
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith('#'):
            continue
        pin, *hashes = line.split('--hash=')
        needed = Requirement(pin)
        (only,) = needed.specifier
        assert only.operator in ('==', '==='), line
        if needed.marker is None or needed.marker.evaluate(here):
            assert needed.name not in found, line
            found[needed.name] = (Version(only.version), [one.strip() for one in hashes])
    return found


@pytest.mark.parametrize('kind', LOCKS | TORCH_LOCKS)
def test_lock_pins_every_package_with_its_checksums(kind):
    found = lock(kind)
    assert len(found) > (100 if kind in LOCKS else 9)
    for name, (_, hashes) in found.items():
        assert hashes, name
        assert all(re.fullmatch(r'sha256:[0-9a-f]{64}', one) for one in hashes), name


@pytest.mark.parametrize('kind', LOCKS)
def test_lock_satisfies_pyproject(kind):
    found = lock(kind)
    extras = EXTRAS.get(kind, []) + EXTRAS['notebooks'] + EXTRAS['dev']
    for text in PROJECT['dependencies'] + extras:
        needed = Requirement(text)
        version, _ = found[canonicalize_name(needed.name)]
        assert version in needed.specifier, f'{text}: the lock has {version}'
    build = tomllib.loads((ROOT / 'pyproject.toml').read_text())['build-system']['requires']
    for needed in map(Requirement, build):
        assert found[needed.name][0] in needed.specifier


def test_a_lock_has_one_mxnet():
    assert {name for name in lock('cpu') if name.startswith(('mxnet', 'nvidia-'))} == {'mxnet'}
    assert {name for name in lock('cu112') if name.startswith('mxnet')} == {'mxnet-cu112'}
    assert not {'mxnet', 'mxnet-cu112', 'd2l', 'torch'} & set(lock('no-mxnet'))


@pytest.mark.parametrize('version', ['3.11', '3.12', '3.13'])
@pytest.mark.parametrize('machine', MACHINES)
def test_lock_without_mxnet_serves_every_system(machine, version):
    others, torch = lock('no-mxnet', machine, version), lock('torch', machine, version)
    assert others['numpy'][0] >= Version('2')
    for text in EXTRAS['torch']:
        assert torch[Requirement(text).name][0] in Requirement(text).specifier
    has_cuda = any(name.startswith('nvidia-') for name in torch)
    assert has_cuda == (machine == 'linux')


@pytest.mark.parametrize('torch', TORCH_LOCKS)
@pytest.mark.parametrize('kind', ['cpu', 'no-mxnet'])
def test_locks_that_are_installed_together_agree(kind, torch):
    one, other = lock(kind), lock(torch)
    assert {'jinja2', 'typing-extensions'} <= set(one) & set(other)
    for name in set(one) & set(other):
        assert one[name] == other[name], name


def test_torch_locks_name_one_build_each():
    """Two equals signs would let 2.13.0+cpu pass for 2.13.0, and the environment keep it."""
    (needed,) = (Requirement(text) for text in EXTRAS['torch'])
    (pin,) = needed.specifier
    text = (ROOT / TORCH_LOCKS['torch']).read_text()
    assert re.search(rf'^torch==={re.escape(pin.version)} ', text, re.MULTILINE)
    version, hashes = lock('torch-cpu')['torch']
    assert str(version) == f'{pin.version}+cpu'
    # What PyTorch publishes for Python 3.11, wherever the lock was made.
    assert 'sha256:6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b' in hashes
    assert not any(name.startswith('nvidia-') for name in lock('torch-cpu'))


def test_core_needs_neither_mxnet_nor_its_numpy():
    needed = {Requirement(text).name: Requirement(text) for text in PROJECT['dependencies']}
    assert not {'mxnet', 'mxnet-cu112', 'd2l', 'torch'} & set(needed)
    assert '2.3.0' in needed['numpy'].specifier and '1.23.5' in needed['numpy'].specifier


def test_every_dependency_is_pinned_and_has_its_reason():
    text = (ROOT / 'pyproject.toml').read_text()
    for requirement in PROJECT['dependencies'] + sum(EXTRAS.values(), []):
        assert re.search(rf'"{re.escape(requirement)}",? +# \S', text), requirement
        operators = {one.operator for one in Requirement(requirement).specifier}
        assert operators in ({'=='}, {'>=', '<'}), requirement


def test_environment_yml_has_the_pins_of_pyproject():
    described = yaml.safe_load((ROOT / 'environment.yml').read_text())
    assert described['name'] == 'mgpu'
    assert 'python=3.11' in described['dependencies']
    (pip,) = (one['pip'] for one in described['dependencies'] if isinstance(one, dict))
    assert '-e .' in pip
    assert sorted(set(pip) - {'-e .'}) == sorted(
        EXTRAS['cu112'] + EXTRAS['notebooks'] + EXTRAS['dev']
    )


def test_pinned_uv_is_one_version_with_a_checksum():
    text = (ROOT / 'tools/uv-requirements.txt').read_text()
    assert len(re.findall(r'^uv==\d+\.\d+\.\d+ \\$', text, re.MULTILINE)) == 1
    assert re.search(r'--hash=sha256:[0-9a-f]{64}$', text, re.MULTILINE)


def test_no_file_names_a_registry_or_a_folder_of_one_machine():
    hosts = [name + '.org' for name in ('pypi', 'pypi.python', 'files.pythonhosted')]
    hosts += ['conda.anaconda' + '.org', 'download.pytorch' + '.org']
    address = re.compile(r'index-url\s*[ =]\s*\S*:/' + r'/|:/' + r'/[^\s"\']*/(?:simple|packages)/')
    folders = re.compile(r'(?<![\w.}~-])/(?:work|root|tmp|home)/\w')
    for name in tracked():
        try:
            text = (ROOT / name).read_text(encoding='utf-8')
        except UnicodeDecodeError:
            continue
        assert not [host for host in hosts if host in text], name
        assert not address.search(text), f'{name}: {address.search(text)}'
        if not name.startswith('tests/'):
            assert not folders.search(text), f'{name}: {folders.search(text)}'


def test_license_is_the_whole_apache_text():
    text = (ROOT / 'LICENSE').read_bytes()
    assert hashlib.md5(text).hexdigest() == '3b83ef96387f14655fc854ddc3c6bd57'
    assert PROJECT['license'] == 'Apache-2.0'
