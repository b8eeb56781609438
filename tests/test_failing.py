"""A worker that fails ends at once, with its own status, and only then."""

import subprocess
import sys

import pytest

START = 'import sys; from mgpu_helpers.processes import failing; failing.end_without_waiting()\n'
# Stands for MXNet's store: what Python frees at its end, and what would wait for ever.
WAITS = """
import atexit, time
class Store:
    def __del__(self):
        time.sleep(60)
store = Store()
atexit.register(time.sleep, 60)
"""


def run(code):
    done = subprocess.run([sys.executable, '-c', START + code], capture_output=True, timeout=20)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.mark.parametrize(
    'code,status,words',
    [
        ('sys.exit(3)', 3, ''),
        ('sys.exit("no data")', 1, 'no data\n'),
        ('sys.exit(-1)', 255, ''),
        ('try: sys.exit(3)\nfinally: print("cleared away", file=sys.stderr)', 3, 'cleared'),
        ('1 / 0', 1, 'Traceback'),
    ],
)
def test_what_fails_ends_at_once(code, status, words):
    found, _, said = run(WAITS + code)
    assert found == status and said.startswith(words)


@pytest.mark.parametrize('end', ['', 'sys.exit()', 'sys.exit(0)'])
def test_what_ends_well_frees_everything_as_ever(end):
    code = 'import atexit; atexit.register(print, "freed")\n' + end
    assert run(code) == (0, 'freed\n', '')


def test_an_exit_that_is_caught_is_none():
    code = 'try:\n    sys.exit(3)\nexcept SystemExit as error:\n    print(error.code)'
    assert run(code) == (0, '3\n', '')


def test_what_was_caught_does_not_count_for_what_comes_later():
    code = 'try:\n    sys.exit(3)\nexcept SystemExit:\n    pass\nsys.exit(4)'
    assert run(code)[0] == 4
