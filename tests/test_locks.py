"""What is needed, and which files that means: pyproject.toml, the locks, environment.yml."""

import re
import tomllib

import yaml
from checkouts import ROOT, tracked
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

PYPROJECT = tomllib.loads((ROOT / 'pyproject.toml').read_text())
PROJECT, BUILD = PYPROJECT['project'], PYPROJECT['build-system']['requires']
EXTRAS = PROJECT['optional-dependencies']
BOOK = PYPROJECT['dependency-groups']['book']
MACHINES = {
    'linux': {'platform_machine': 'x86_64', 'sys_platform': 'linux'},
    'arm': {'platform_machine': 'aarch64', 'sys_platform': 'linux'},
    'macos': {'platform_machine': 'arm64', 'sys_platform': 'darwin'},
}
# What setup.sh installs together, and the extras that it is to satisfy.
TOGETHER = {
    ('base', 'cpu'): ['cpu'],
    ('base', 'cu112'): ['cu112'],
    ('base', 'cpu', 'torch'): ['cpu', 'torch'],
    ('base', 'cpu', 'torch-cpu'): ['cpu', 'torch'],
    ('base', 'cu112', 'torch-cpu'): ['cu112', 'torch'],
    ('base', 'torch'): ['torch'],
    ('base', 'torch-cpu'): ['torch'],
}


def lock(name, machine='linux'):
    """Return what a lock installs on a machine: {name: version}."""
    text = (ROOT / f'tools/locks/{name}.txt').read_text().replace('\\\n', ' ')
    python = {'os_name': 'posix', 'python_version': '3.11', 'python_full_version': '3.11.9'}
    here = default_environment() | python | MACHINES[machine]
    pins = {}
    for line in re.findall(r'^[^#\s].*', text, re.MULTILINE):
        needed = Requirement(line.split('--hash=')[0])
        (only,) = needed.specifier
        assert only.operator in ('==', '==='), line
        if needed.marker is None or needed.marker.evaluate(here):
            assert needed.name not in pins, line
            pins[needed.name] = Version(only.version)
    return pins


def test_locks_that_are_installed_together_satisfy_pyproject_and_share_no_package():
    for names, extras in TOGETHER.items():
        for machine in MACHINES if names == ('base', 'torch') else ['linux']:
            parts = [lock(name, machine) for name in names]
            pins = {package: pin for part in parts for package, pin in part.items()}
            assert len(pins) == sum(map(len, parts))
            wanted = BUILD + PROJECT['dependencies']
            wanted += sum((EXTRAS[extra] for extra in [*extras, 'notebooks', 'dev']), [])
            for needed in map(Requirement, wanted):
                version = pins[canonicalize_name(needed.name)]
                assert version in needed.specifier, f'{needed}: {names} have {version}'
    book = lock('book')
    assert all(book[canonicalize_name(r.name)] in r.specifier for r in map(Requirement, BOOK))


def test_environment_yml_has_the_pins():
    described = yaml.safe_load((ROOT / 'environment.yml').read_text())
    (pip,) = (one['pip'] for one in described['dependencies'] if isinstance(one, dict))
    wanted = EXTRAS['cu112'] + EXTRAS['notebooks'] + EXTRAS['dev']
    assert sorted(pip) == sorted(['-e .', *wanted])


def test_no_file_names_a_registry_or_a_folder_of_one_machine():
    hosts = [name + '.org' for name in ('pypi', 'pypi.python', 'files.pythonhosted')]
    hosts += ['conda.anaconda' + '.org', 'download.pytorch' + '.org']
    address = re.compile(r'index-url\s*[ =]\s*\S*:/' + r'/|:/' + r'/[^\s"\']*/(?:simple|packages)/')
    folders = re.compile(r'(?<![\w.}~-])/(?:work/|root/|tmp/|home/(?!you))\w')
    for name in tracked():
        try:
            text = (ROOT / name).read_text(encoding='utf-8')
        except UnicodeDecodeError:
            continue
        assert not [host for host in hosts if host in text], name
        assert not address.search(text), f'{name}: {address.search(text)}'
        if not name.startswith('tests/'):
            assert not folders.search(text), f'{name}: {folders.search(text)}'
