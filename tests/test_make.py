"""`make` itself, and tools/env.sh, with which every recipe starts."""

import re

import pytest
from checkouts import ROOT, call


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
