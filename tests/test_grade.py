"""Grading: each submission gets its verdict, whatever its author did, and nothing goes on."""

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import student
import yaml

ROOT = Path(__file__).resolve().parent.parent
FIRST = student.SOURCES[0]
WORTH = yaml.safe_load((ROOT / 'teaching/plan.yml').read_text('utf8'))['points']
NUMBERS = [f'1.{n}' for n in range(1, 10)]
# What a student writes into the blank of 1.1; the verdict on 1.1, and a part of the remarks.
ANSWERS = {
    'wrong': ('    return [n // k] * k', False, ''),
    'endless loop': ('    while True:\n        pass', False, ''),
    'memory eater': ('    return bytearray(1 << 40)', False, ''),
    'eats slowly': ('    x = []\n    while True:\n        x.append(bytearray(1 << 26))', False, ''),
    'leaves': ('    raise SystemExit', False, ''),
    'dies': ('    import os\n    os._exit(0)', False, ''),
    'segfaults': ('    import ctypes\n    ctypes.string_at(0)', False, ''),
    'no syntax': ('    return [', False, 'SyntaxError'),
    'forks': (
        '    import subprocess, sys\n'
        "    subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(987)'])\n"
        '    return [n // k + (i < n % k) for i in range(k)]',
        True,
        '',
    ),
    'recursion': ('    return shard_sizes(n, k)', False, ''),
}
# Cells put before the others, in notebooks with all solutions.
CELLS = {
    'its own check': "def check(*args):\n    return 'right'",
    'tampered package': (
        'import mgpu_helpers.exercises.checking as c, mgpu_helpers.exercises.chapter1 as one\n'
        'c.expect = one.expect = lambda *args: None'
    ),
    'loop first': 'while True:\n    pass',
    'passes over': (
        'while True:\n    try:\n        while True:\n            pass\n'
        '    except Exception:\n        pass'
    ),
    'exit': 'import sys\nsys.exit()',
    'ends all': 'import os\nos._exit(3)',
    'no syntax': 'this is no code',
    'big': 'x = bytearray(1 << 40)',
    'talks': "print('x' * 10_000_000)",
    'asks': 'input()',
    'magic': '%%bash\necho hello',
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
    given = {
        'solved': (notebook(), NUMBERS, ''),
        'blank': (notebook('    raise NotImplementedError'), [], ''),
        'no checks': (notebook(without=['check(']), NUMBERS, ''),
        'one deleted': (notebook(without=['def shard_sizes']), NUMBERS[2:], ''),  # 1.2 calls it
        'empty': ('', [], 'no notebook'),
        'no notebook': ('PK\x03\x04 not JSON', [], 'no notebook'),
        'a list': ('[1, 2]', [], 'no notebook'),
        'half': (notebook()[:5000], [], 'no notebook'),
        'odd cells': (json.dumps({'cells': [1, {'cell_type': 'code'}, None]}), [], ''),
    }
    for name, (lines, right, remark) in ANSWERS.items():
        given[f'answer {name}'] = notebook(lines), ['1.1'] if right else [], remark
    for name, first in CELLS.items():
        given[f'cell {name}'] = notebook(first=first), NUMBERS, ''
    return given


def graded(folder, chosen):
    made = submissions()
    for name in chosen:
        (folder / 'in' / name).mkdir(parents=True)
        (folder / 'in' / name / FIRST.name).write_text(made[name][0], encoding='utf8')
    command = [
        sys.executable,
        ROOT / 'tools' / 'grade.py',
        folder / 'in',
        '--build',
        folder / 'out',
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stderr
    with (folder / 'out' / 'grades.csv').open(encoding='utf8', newline='') as file:
        rows = {row['student']: row for row in csv.DictReader(file)}
    assert list(rows) == sorted(chosen)
    for name, row in rows.items():
        _, right, remark = made[name]
        assert row['exercises'].split() == right, row
        assert int(row['points']) == sum(WORTH[number][0] for number in right)
        assert remark in row['remarks'], row
        assert (folder / 'out' / f'{name.replace(" ", "_")}-01.html').exists()


def test_each_submission_gets_its_verdict_and_nothing_is_left(tmp_path, started):
    # What forks is right, and all else there is blank.
    graded(tmp_path, ['solved', 'no notebook', 'answer dies', 'answer forks'])
    assert not started()


@pytest.mark.slow
def test_thirty_submissions(tmp_path, started):
    assert len(submissions()) == 30
    graded(tmp_path, list(submissions()))
    assert not started()


def test_a_folder_without_submissions_is_told(tmp_path):
    command = [sys.executable, ROOT / 'tools' / 'grade.py', tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and 'there is no submission in' in done.stderr
