"""What is needed, and which files that means: pyproject.toml, the locks, environment.yml."""

import hashlib
import re
import tomllib

import pytest
import yaml
from checkouts import ROOT, tracked
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

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
