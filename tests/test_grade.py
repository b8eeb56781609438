"""Grading: each submission gets its verdict, whatever its author did, and nothing goes on."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import grade
import nbformat
import pytest
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
    'dies': ('    import os\n    os._exit(0)', False, ''),
    'no syntax': ('    return [', False, 'SyntaxError'),
    'kills its parent': ('    import os\n    os.kill(os.getppid(), 9)', False, ''),
    'leaves processes': (
        '    import os, subprocess, sys\n'
        '    assert "a-password" not in str(os.environ)\n'
        '    for own in (False, True):\n'
        "        subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(987)'],\n"
        '                         start_new_session=own)\n'
        '    return [n // k + (i < n % k) for i in range(k)]',
        True,
        '',
    ),
}
# Cells put before the others, in notebooks with all solutions.
CELLS = {
    'passes over': (
        'while True:\n    try:\n        while True:\n            pass\n'
        '    except Exception:\n        pass'
    ),
    'ends all': 'import os\nos._exit(3)',
    'talks': "print('x' * 100_000_000)",
    'asks': 'input()',
    'magic': '%%bash\necho hello',
    'an earlier answer': "def shard_sizes(n, k):\n    return []\ncheck('1.1', shard_sizes)\n",
}
# Cells put before a wrong answer to 1.1, and a part of the remarks: nothing of it is right.
CHEATS = {
    'its own check': ("def check(*args):\n    return 'right'", ''),
    'tampered NumPy': (
        'import numpy, builtins\n'
        'numpy.allclose = numpy.array_equal = builtins.all = lambda *args, **kwargs: True\n'
        'builtins.any = lambda *args: False',
        '',
    ),
    'edited package': (
        'import mgpu_exercises.checking as c\n'
        "open(c.__file__, 'a').write('\\ndef expect(*args): pass')",
        'changed files of the course',
    ),
    'written results': (
        'import contextlib, json, os\n'
        "line = json.dumps({'number': '1.1', 'right': True, 'sentence': 'right'})\n"
        'for fd in range(1, 30):\n'
        '    with contextlib.suppress(OSError):\n'
        "        os.write(fd, f'{line}\\n'.encode())",
        'wrote to the results',
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
    """Return name -> (text, number of right answers, part of the remarks)."""
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
        'deep': ('[' * 10**6, [], 'no notebook'),
        # Their names mean something to a shell, a page and a spreadsheet.
        '=cmd()': ('', [], 'no notebook'),
        """O'Neil, "Bo" & <b>Co""": ('', [], 'no notebook'),
        'another order': (json.dumps(solved | {'cells': checks + others}), NUMBERS, ''),
        'version 3': (nbformat.writes(nbformat.convert(solved, 3), version=3), NUMBERS, ''),
    }
    for name, (lines, right, remark) in ANSWERS.items():
        given[f'answer {name}'] = notebook(lines), ['1.1'] if right else [], remark
    for name, first in CELLS.items():
        given[f'cell {name}'] = notebook(first=first), NUMBERS, ''
    for name, (first, remark) in CHEATS.items():
        given[f'cheat {name}'] = notebook('    return [n // k] * k', first), [], remark
    return given


def graded(folder, chosen):
    made = submissions()
    for name in chosen:
        (folder / 'in' / name).mkdir(parents=True)
        (folder / 'in' / name / FIRST.name).write_text(made[name][0], encoding='utf8')
    command = [sys.executable, ROOT / 'tools/grade.py', folder / 'in', '--build', folder / 'out']
    secrets = {'A_KEY': 'a-password', 'MGPU_DATA_MIRRORS': 'https://me:a-password@localhost/'}
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=1500, env=os.environ | secrets
    )
    assert done.returncode == 0, done.stderr
    with (folder / 'out' / 'grades.csv').open(encoding='utf8', newline='') as file:
        rows = {row['student'].lstrip("'"): row for row in csv.DictReader(file)}
        assert not [row for row in rows.values() if row['student'].startswith('=')]
    assert list(rows) == sorted(chosen)
    for name, row in rows.items():
        _, right, remark = made[name]
        assert row['exercises'].split() == right, row
        assert int(row['points']) == sum(WORTH[number][0] for number in right)
        assert remark in row['remarks'], row
    pages = [page.read_text(encoding='utf8') for page in (folder / 'out').glob('*-01.html')]
    assert len(pages) == len(chosen) and not any('<b>' in page for page in pages)


def test_each_submission_gets_its_verdict_and_nothing_is_left(tmp_path, started):
    # What leaves processes is right, and all else there is blank.
    files = ['no notebook', '=cmd()', """O'Neil, "Bo" & <b>Co"""]
    graded(tmp_path, ['solved', 'answer dies', 'answer leaves processes', *files])
    assert not started()


def test_a_submission_ends_with_its_grader_though_that_is_killed(tmp_path):
    text = notebook(first=f'open({str(tmp_path / "begun")!r}, "w")\nwhile True: pass')
    (tmp_path / FIRST.name).write_text(text, encoding='utf8')
    with Started(sys.executable, 'tools/grade.py', tmp_path, '--build', tmp_path) as grader:
        while not (tmp_path / 'begun').exists() and grader.process.poll() is None:
            time.sleep(0.1)
        grader.process.kill()
        assert grader.end()[0] == -signal.SIGKILL


def test_who_keeps_the_results_open_keeps_nobody_waiting(a_minute):
    code = 'import subprocess as s; print(s.Popen(["sleep", "987"], start_new_session=True).pid)'
    process = subprocess.Popen([sys.executable, '-uc', code], stdout=subprocess.PIPE)
    pid = int(process.stdout.readline())
    try:
        grade.stop(process, 'no such folder')
    finally:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
def test_whatever_is_handed_in(tmp_path, started):
    graded(tmp_path, list(submissions()))
    assert not started()


def test_what_is_no_plain_file_is_told_and_a_link_is_followed(tmp_path, a_minute):
    os.mkfifo(tmp_path / 'pipe')
    (tmp_path / 'folder').mkdir()
    (tmp_path / 'huge').touch()
    os.truncate(tmp_path / 'huge', grade.LARGEST + 1)
    (tmp_path / 'link').symlink_to(FIRST)
    for name in ('pipe', 'folder', 'huge', 'nowhere'):
        verdicts, remarks = grade.grade([], {}, tmp_path / name, 1, {})
        assert not verdicts and 'no notebook that can be read' in remarks[0]
    assert [n for _, numbers in grade.cells_of(tmp_path / 'link') for n in numbers] == NUMBERS


def test_a_folder_without_submissions_is_told(tmp_path):
    command = [sys.executable, ROOT / 'tools' / 'grade.py', tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and 'there is no submission in' in done.stderr
