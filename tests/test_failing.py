"""A worker that fails ends at once, with its own status, and only then."""

import subprocess
import sys

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


def test_what_fails_ends_at_once():
    for code, status, words in (
        ('sys.exit(3)', 3, ''),
        ('sys.exit("no data")', 1, 'no data\n'),
        ('sys.exit(-1)', 255, ''),
        ('try: sys.exit(3)\nfinally: print("cleared away", file=sys.stderr)', 3, 'cleared'),
        ('1 / 0', 1, 'Traceback'),
        ('try:\n    sys.exit(3)\nexcept SystemExit:\n    pass\nsys.exit(4)', 4, ''),
    ):
        returncode, _, said = run(WAITS + code)
        assert returncode == status and said.startswith(words), code


def test_what_ends_well_frees_everything_as_ever():
    caught = 'try:\n    sys.exit(3)\nexcept SystemExit:\n    pass'  # is no end
    for end in ('', 'sys.exit()', 'sys.exit(0)', caught):
        assert run('import atexit; atexit.register(print, "freed")\n' + end) == (0, 'freed\n', '')
