"""`make` itself, and tools/env.sh, with which every recipe starts."""

import re

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
    # In code only: text may well say that something makes sense.
    code = re.findall(r'```.*?```|`[^`\n]+`', (ROOT / 'README.md').read_text(), re.DOTALL)
    named = set(re.findall(r'\bmake ([a-z]+)', '\n'.join(code)))
    assert {'lab', 'test'} <= named <= set(targets())


def test_what_is_given_to_make_reaches_the_tools_quotes_and_all(tmp_path):
    (tmp_path / 'tools').mkdir()
    for name in ('setup', 'test'):
        (tmp_path / f'tools/{name}.sh').write_text('printf "%s;" "$GPU" "$PYTEST_ARGS"\n')
    file = f'--file={ROOT}/Makefile'
    done = call(tmp_path, 'make', file, 'test', 'GPU=0', "PYTEST_ARGS=-k 'ring or tree'")
    assert done.stdout == "0;-k 'ring or tree';" * 2, done.stderr


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
