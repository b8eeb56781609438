"""Grading: each submission gets its verdict, whatever its author did, and nothing goes on."""

import contextlib
import csv
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import grade
import nbformat
import psutil
import pytest
import sandbox
import yaml
from launching import Started

import student

ROOT = Path(__file__).resolve().parent.parent
FIRST = student.SOURCES[0]
WORTH = yaml.safe_load((ROOT / 'exercises/teaching/plan.yml').read_text('utf8'))['points']
NUMBERS = [f'1.{n}' for n in range(1, 10)]
# What a student writes into the blank of 1.1; the verdict on 1.1, and a part of the remarks.
ANSWERS = {
    'endless loop': ('    while True:\n        pass', False, ''),
    'memory eater': ('    return bytearray(1 << 40)', False, ''),
    'leaves': ('    raise SystemExit', False, ''),
    'dies': ('    import os\n    os._exit(0)', False, ''),
    'segfaults': ('    import ctypes\n    ctypes.string_at(0)', False, ''),
    'no syntax': ('    return [', False, 'SyntaxError'),
    'kills its parent': ('    import os\n    os.kill(os.getppid(), 9)', False, ''),
    'surrogate': ("    raise ValueError('\\ud800')", False, ''),
    'tells': ('    raise ValueError("a-secret")', False, ''),
    'leaves processes': (
        '    import os, subprocess, sys\n'
        '    assert "a-password" not in str(os.environ)\n'
        '    for own in (False, True):\n'
        "        subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(987)'],\n"
        '                         start_new_session=own, env={} if own else None)\n'
        '    return [n // k + (i < n % k) for i in range(k)]',
        True,
        '',
    ),
}
# Cells put before the others, in notebooks with all solutions, and a part of the remarks.
EVERY_PIPE = 'import contextlib, os, time\nend = time.time() + 15\nwhile time.time() < end:\n'
EVERY_PIPE += '    for fd in range(1, 30):\n        with contextlib.suppress(OSError):\n'
CELLS = {
    'passes over': (
        'while True:\n    try:\n        while True:\n            pass\n'
        '    except Exception:\n        pass',
        'ran out of time',
    ),
    'exit': ('import sys\nsys.exit()', 'SystemExit'),
    'ends all': ('import os\nos._exit(3)', 'ended the process'),
    'talks': ("print('x' * 100_000_000)", ''),
    'talks for ever': ("while True: print('x' * 1_000_000)", 'ran out of time'),
    'asks': ('input()', 'Error'),
    'magic': ('%%bash\necho hello', ''),
    'an earlier answer': ("def shard_sizes(n, k):\n    return []\ncheck('1.1', shard_sizes)\n", ''),
    'surrogate': ("raise ValueError('\\ud800')", 'ValueError'),
    'folders': (
        'import os\nfor _ in range(1500):\n    os.mkdir("d")\n    os.chdir("d")',
        '',
    ),
    'newlines': (EVERY_PIPE + "            os.write(fd, b'\\n' * 60000)", 'wrote to the results'),
    'no newline': (EVERY_PIPE + "            os.write(fd, b'x' * 60000)", 'wrote to the results'),
    'out of memory': ('kept = [bytearray(1 << 28) for _ in range(100)]', 'MemoryError'),
    'memory of many': (
        'import os, time\nfor _ in range(4):\n    if os.fork() == 0:\n'
        "        kept = b'x' * (3 << 29)\n        time.sleep(60)\ntime.sleep(15)",
        'GB of memory',
    ),
    'many': (
        'import os, time\nfor _ in range(250):\n    if os.fork() == 0:\n'
        '        os.execv("/bin/sleep", ["sleep", "60"])\ntime.sleep(15)',
        'processes',
    ),
    'tells': ('raise ValueError("a-secret")', 'ValueError'),
}
# Cells that change the course; the answers are right, and where they could do it nothing counts.
THERE = 'import mgpu_helpers, os\nhere = os.path.dirname(mgpu_helpers.__file__)\n'
CHANGES = {
    'pipe': THERE + "os.mkfifo(f'{here}/x.py')",
    'folder': THERE + "os.mkdir(f'{here}/x.py')",
    'endless file': THERE + "os.symlink('/dev/zero', f'{here}/x.py')",
    'line': THERE + "open(f'{here}/scratch.py', 'a').write('\\n')",
}
# Cells put before a wrong answer to 1.1: nothing of it is right.
CHEATS = {
    'its own check': "def check(*args):\n    return 'right'",
    'tampered checks': (
        'import mgpu_exercises.checking as c, mgpu_exercises.chapter1 as one\n'
        'c.expect = one.expect = lambda *args: None'
    ),
    'tampered NumPy': (
        'import numpy, builtins\n'
        'numpy.allclose = numpy.array_equal = builtins.all = lambda *args, **kwargs: True\n'
        'builtins.any = lambda *args: False'
    ),
    'tampered library': (
        'import functools, json\n'
        'old = json.dumps\n'
        "json.dumps = lambda m, **k: old(dict(m, right=True) if 'number' in m else m)\n"
        'functools.partial = lambda *args, **kwargs: lambda *a, **k: (True, "right")'
    ),
    'a package of its own': (
        'import os, sys\n'
        "os.makedirs('mgpu_exercises')\n"
        "open('mgpu_exercises/__init__.py', 'w').write('def check(*args, **k): return 1')\n"
        "sys.path.insert(0, '.')\n"
        "for name in [n for n in sys.modules if n.startswith('mgpu_exercises')]:\n"
        '    del sys.modules[name]'
    ),
    'its own words': (
        'import gc\n'
        'for say in gc.get_objects():\n'
        '    try:\n'
        "        assert say.__name__ in ('say', 'send')\n"
        "        say(number='1.1', right=True, sentence='right')\n"
        '    except Exception:\n'
        '        pass'
    ),
    'edited package': (
        'import mgpu_exercises.checking as c\n'
        "open(c.__file__, 'a').write('\\ndef expect(*args): pass')"
    ),
    'written results': (
        'import contextlib, json, os\n'
        "line = json.dumps({'number': '1.1', 'right': True, 'sentence': 'right'})\n"
        'for fd in range(1, 30):\n'
        '    with contextlib.suppress(OSError):\n'
        "        os.write(fd, f'{line}\\n'.encode())"
    ),
    'half a result': (
        'import contextlib, os\n'
        'for fd in range(1, 30):\n'
        '    with contextlib.suppress(OSError):\n'
        "        os.write(fd, b'x')\n"
        'while True: pass'
    ),
}


def notebook(fill=None, first=None, without=()):
    """Make a submission: solutions of all, or, with ``fill``, blanks and an answer to 1.1."""
    text = (FIRST if fill is None else FIRST.parent / 'student' / FIRST.name).read_text('utf8')
    made = nbformat.reads(text, as_version=4)
    if fill is not None:
        cell = next(c for c in made.cells if c.source.startswith('def shard_sizes'))
        cell.source = re.sub(r' *raise NotImplementedError.*', lambda _: fill, cell.source)
    if first is not None:
        made.cells.insert(2, nbformat.v4.new_code_cell(first))
    made.cells = [c for c in made.cells if not any(c.source.startswith(w) for w in without)]
    return nbformat.writes(made)


def submissions():
    """Give name -> (text, right ones, a part of the remarks)."""
    solved = nbformat.reads(notebook(), as_version=4)
    checks = [cell for cell in solved.cells if cell.source.startswith('check(')]
    others = [cell for cell in solved.cells if not cell.source.startswith('check(')]
    given = {
        'solved': (notebook(), NUMBERS, ''),
        'blank': (notebook('    raise NotImplementedError'), [], ''),
        'no checks': (notebook(without=['check(']), NUMBERS, ''),
        'one deleted': (notebook(without=['def shard_sizes']), NUMBERS[2:], ''),  # 1.2 calls it
        'no notebook': ('PK\x03\x04 not JSON', [], 'no notebook'),
        'half': (notebook()[:5000], [], 'no notebook'),
        'odd cells': (json.dumps({'cells': [1, {'cell_type': 'code'}]}), [], 'no notebook'),
        'deep': ('[' * 10**6, [], 'no notebook'),
        'large': (' ' * (grade.LARGEST + 1), [], 'too large'),
        'objects': (json.dumps(solved | {'metadata': {'x': [{}] * 10**6}}), NUMBERS, ''),
        'marked': ('\ufeff' + notebook(), NUMBERS, ''),  # as some editors begin a file
        # Their names mean something to a shell, a page and a spreadsheet.
        '=cmd()': ('', [], 'no notebook'),
        """O'Neil, "Bo" & <b>Co""": ('', [], 'no notebook'),
        'M\udcfcller': (notebook(), NUMBERS, ''),  # a name in Latin-1
        'another order': (json.dumps(solved | {'cells': checks + others}), NUMBERS, ''),
        'version 3': (nbformat.writes(nbformat.convert(solved, 3), version=3), NUMBERS, ''),
    }
    for name, (lines, right, remark) in ANSWERS.items():
        given[f'answer {name}'] = notebook(lines), ['1.1'] if right else [], remark
    for name, (first, remark) in CELLS.items():
        given[f'cell {name}'] = notebook(first=first), NUMBERS, remark
    for name, first in CHANGES.items():
        given[f'change {name}'] = notebook(first=first), NUMBERS, 'OSError'
    for name, first in CHEATS.items():
        given[f'cheat {name}'] = notebook('    return [n // k] * k', first), [], ''
    return given


def graded(folder, chosen, times=1):
    """Grade these, and as many innocent ones as ``times`` says; check rows and pages."""
    innocent = [f'{("zebra", "apple", "mango")[i % 3]} {i}' for i in range(times)]
    made, names = submissions(), [*chosen, *innocent]
    made |= dict.fromkeys(innocent, made['solved'])
    for name in names:
        (folder / 'in' / name).mkdir(parents=True)
        path = folder / 'in' / name / FIRST.name
        path.write_text(made[name][0], encoding='utf8')
    command = [sys.executable, ROOT / 'tools/grade.py', folder / 'in', '--build', folder / 'out']
    secrets = dict.fromkeys(('MY_PAT', 'AUTHORIZATION', 'SSH_AUTH_SOCK'), 'a-password')
    secrets |= {'MGPU_DATA_MIRRORS': 'https://me:a-password@localhost/'}
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=3000, env=os.environ | secrets
    )
    assert done.returncode == 0, done.stderr
    with (folder / 'out' / 'grades.csv').open(encoding='utf8', newline='') as file:
        rows = {row['student'].lstrip("'"): row for row in csv.DictReader(file)}
        assert not [row for row in rows.values() if row['student'].startswith('=')]
    made = {grade.plain(Path(name)): of for name, of in made.items()}
    assert set(rows) == {grade.plain(Path(name)) for name in names}
    for name, row in rows.items():
        _, right, remark = made[name]
        assert row['exercises'].split() == right, row
        assert int(row['points']) == sum(WORTH[number][0] for number in right)
        assert remark in row['remarks'], row
    pages = [page.read_text(encoding='utf8') for page in (folder / 'out').glob('*-01.html')]
    assert len(pages) == len(names)
    assert not any('<b>' in page or 'a-secret' in page for page in pages)


def test_each_submission_gets_its_verdict_and_nothing_is_left(tmp_path, started):
    # What leaves processes is right, and all else there is blank.
    files = ['no notebook', '=cmd()', """O'Neil, "Bo" & <b>Co""", 'M\udcfcller']
    (tmp_path / 'out').mkdir()
    (tmp_path / 'out' / 'of-last-year-01.html').touch()
    graded(tmp_path, ['cell surrogate', 'answer dies', 'answer leaves processes', *files])
    assert not started()


def test_a_submission_ends_with_its_grader_though_that_is_killed(tmp_path):
    (tmp_path / FIRST.name).write_text(notebook(first='while True: pass'), encoding='utf8')
    with Started(sys.executable, 'tools/grade.py', tmp_path, '--build', tmp_path / 'out') as grader:
        while grader.process.poll() is None:
            with contextlib.suppress(psutil.Error):
                below = psutil.Process(grader.process.pid).children(recursive=True)
                if any('grade_cells.py' in ' '.join(process.cmdline()) for process in below):
                    break
        grader.process.kill()
        assert grader.end()[0] == -signal.SIGKILL


@pytest.fixture
def alone(tmp_path, started):
    """Grade one submission where nothing can be hidden from it."""
    grade.adopt_orphans()

    def grade_text(text):
        (tmp_path / FIRST.name).write_text(text, encoding='utf8')
        with sandbox.Course() as course:
            return grade.grade(course, [], grade.checks_in(FIRST), tmp_path / FIRST.name, seed=1)

    yield grade_text
    assert not started()


@pytest.mark.parametrize('change', CHANGES)
def test_who_changes_the_course_where_that_is_possible_is_told(alone, change, a_minute):
    with pytest.raises(grade.Refused, match='changed files of the course'):
        alone(notebook('    return [n // k] * k', CHANGES[change] + '\nos._exit(0)'))


def test_what_hides_behind_two_forks_ends_where_nothing_can_be_hidden(alone):
    fork = 'import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n'
    fork += "        os.execve('/bin/sleep', ['sleep', '987'], {})\n    os._exit(0)"
    alone(notebook('    raise NotImplementedError', fork))
    assert ['sleep', '987'] not in [p.info['cmdline'] for p in psutil.process_iter(['cmdline'])]


@pytest.mark.slow
def test_whatever_is_handed_in(tmp_path, started):
    before = {path: path.stat().st_mtime_ns for path in (ROOT / 'mgpu_helpers').rglob('*.py')}
    began = time.monotonic()
    graded(tmp_path, list(submissions()), times=40)
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(f'{time.monotonic() - began:.0f} s, {most / 1e6:.2f} GB in the largest process')
    assert not started()
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_what_is_no_plain_file_is_told(tmp_path, a_minute):
    for name in ('pipe', 'nowhere', 'folder', 'link'):
        path = tmp_path / f'01-{name}.ipynb'
        if name == 'pipe':
            os.mkfifo(path)
        elif name == 'folder':
            path.mkdir()
        else:  # a link to another student's, for instance
            path.symlink_to(FIRST if name == 'link' else tmp_path / 'not there')
        with pytest.raises((grade.Refused, OSError)):
            grade.content_of(path)


def test_a_folder_without_submissions_and_one_with_the_course_are_told(tmp_path):
    for folder, words in (tmp_path, 'there is no submission in'), (ROOT, 'a folder of their own'):
        command = [sys.executable, ROOT / 'tools' / 'grade.py', folder]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 1 and words in done.stderr
