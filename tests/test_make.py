"""`make` itself, and tools/env.sh, with which every recipe starts."""

import re

from checkouts import ROOT, VARIABLES, call

COMMAND = r"""(?:^|[`"]|exec |run: )make ([a-z]+)((?: [A-Z_]+=(?:'[^']*'|\S*))*)"""


def targets():
    line = re.search(r'^\.PHONY:(.*)$', (ROOT / 'Makefile').read_text(), re.MULTILINE)
    return line.group(1).split()


def test_help_is_the_default_and_lists_every_target():
    done = call(ROOT, 'make')
    assert done.returncode == 0, done.stderr
    listed = re.findall(r'^ +make (\w+) +\S', done.stdout, re.MULTILINE)
    assert sorted(listed) == sorted(targets())
    assert len(done.stdout.splitlines()) == len(listed)


def test_pages_and_machines_name_only_commands_and_variables_that_there_are():
    pages = '*.md book/*.md exercises/teaching/*.md .devcontainer/*.json'
    pages += ' .binder/* .ci/run .github/**/*.yml'
    named = set()
    for path in (path for pattern in pages.split() for path in ROOT.glob(pattern)):
        for target, given in re.findall(COMMAND, path.read_text(), re.MULTILINE):
            assert target in targets(), f'{path}: make {target}'
            assert set(re.findall(' ([A-Z_]+)=', given)) <= set(VARIABLES), f'{path}: {given}'
            named.add(target)
    assert {'lab', 'test', 'setup', 'bench', 'grade'} <= named


def test_data_folder_is_absolute_and_without_a_home_all_stays_in_the_course(tmp_path):
    here, home, up = tmp_path / 'a course', tmp_path / 'home', tmp_path / 'up'
    for folder in (here, home, up):
        folder.mkdir()
    script = f'. "{ROOT}/tools/env.sh" && printf "%s\\n" "$MXNET_HOME" "$HOME" "$UV_CACHE_DIR"'

    def told(**given):
        return call(here, 'sh', '-c', script, UV_CACHE_DIR=None, **given).stdout.splitlines()

    for given, expected in (
        (None, home / '.mxnet'),
        ('', home / '.mxnet'),
        ('/data/sets', '/data/sets'),
        ('sub dir', here / 'sub dir'),
        ('../up', up),
        ('~/data', home / 'data'),
    ):
        assert told(HOME=home, MXNET_HOME=given)[0] == str(expected)
    inside = [f'{here}/.uv/{name}' for name in ('home/.mxnet', 'home', 'cache')]
    for nowhere in (None, '', '/no/such/folder'):
        assert told(HOME=nowhere, MXNET_HOME=None) == inside
    assert (here / '.uv/home').is_dir()
