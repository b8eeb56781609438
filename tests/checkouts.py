"""What the tests of `make setup` have in common: copies of this checkout, and commands in them."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# What setup.sh calls besides Python, uv and a downloader.
TOOLS = (
    'sh awk cat chmod cp cut date df dirname env expand false flock grep gzip head id ln ls mkdir '
    'mv printenv readlink rm sed sha256sum sort stat tail tar touch tr true uname'
).split()

# The variables that the Makefile knows.
VARIABLES = re.search(r'VARIABLES := ((?:.*\\\n)*.*)', (ROOT / 'Makefile').read_text())[1].split()


def tracked():
    """The files of the checkout: what git has, and what is not ignored."""
    command = ('git', 'ls-files', '-z', '--cached', '--others', '--exclude-standard')
    if not shutil.which('git') or (listed := call(ROOT, *command)).returncode:
        pytest.skip('not a git checkout')
    return [name for name in listed.stdout.split('\0') if name and (ROOT / name).is_file()]


def copy_to(folder):
    """A copy of this checkout, without what no setup reads."""
    for name in tracked():
        if not name.startswith('benchmarks/results/') and not name.endswith('.ipynb'):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def environment(**changes):
    """Our environment without what a surrounding `make` put there; None takes a name away."""
    # `make test SLOW=1` hands SLOW on to every command below it: a `make test` in a copy would then
    # leave all but the slow tests out.
    ours = ('MAKE', 'MFLAGS', 'UV_', 'MGPU_DRIVER', *VARIABLES)
    env = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    if cache := os.environ.get('UV_CACHE_DIR'):  # where HOME is of no use, this is where wheels are
        env['UV_CACHE_DIR'] = cache
    env |= {name: str(value) for name, value in changes.items()}
    return {name: value for name, value in env.items() if changes.get(name, '') is not None}


def call(folder, *command, timeout=300, **changes):
    return subprocess.run(
        command,
        cwd=folder,
        env=environment(**changes),
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def setup(folder, **changes):
    return call(folder, 'sh', 'tools/setup.sh', **changes)


def refused(done, *words):
    """It ended with a sentence on stderr, and with no page of a program's own words."""
    assert done.returncode == 1, done.stdout + done.stderr
    for word in words:
        assert word in done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) <= 6 and all(line.startswith('setup: ') for line in lines), done.stderr


def choose(folder, **given):
    """A setup up to where the first package would be fetched: what it chose, and what it said."""
    done = setup(folder, **given)
    refused(done, 'packages could not be reached', 'is there a network?')
    _, chosen = done.stdout.split('the rest of ')
    return chosen.split('\n')[0], done.stdout + done.stderr


def folder_of_tools(folder, *more):
    """A PATH with the usual small programs only, and those of `more` that are here."""
    folder.mkdir()
    for name in (*TOOLS, *more):
        if program := shutil.which(name):
            (folder / name).symlink_to(program)
    return folder


def python(folder, code, **changes):
    interpreter = folder / '.venv/bin/python'
    return call(folder, interpreter, '-W', 'ignore', '-c', code, PYTHONPATH=None, **changes)
