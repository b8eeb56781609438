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
import textwrap
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
GIVEN = yaml.safe_load((ROOT / 'tests/submissions.yml').read_text('utf8'))


def notebook(fill=None, first=None, without=()):
    """Make a submission: solutions of all, or, with ``fill``, blanks and an answer to 1.1."""
    text = (FIRST if fill is None else FIRST.parent / 'student' / FIRST.name).read_text('utf8')
    made = nbformat.reads(text, as_version=4)
    if fill is not None:
        cell = next(c for c in made.cells if c.source.startswith('def shard_sizes'))
        cell.source = re.sub(
            r' *raise NotImplementedError.*', lambda _: textwrap.indent(fill, '    '), cell.source
        )
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
        'blank': (notebook('raise NotImplementedError'), [], ''),
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
    for name, of in GIVEN['answers'].items():
        right = ['1.1'] if 'right' in of else []
        given[f'answer {name}'] = notebook(of['text']), right, of.get('remark', '')
    for name, of in GIVEN['cells'].items():
        given[f'cell {name}'] = notebook(first=of['text']), NUMBERS, of.get('remark', '')
    for name, first in GIVEN['changes'].items():
        given[f'change {name}'] = notebook(first=first), NUMBERS, 'OSError'
    for name, first in GIVEN['cheats'].items():
        given[f'cheat {name}'] = notebook('return [n // k] * k', first), [], ''
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
        rows = {row['name'].lstrip("'"): row for row in csv.DictReader(file)}
        assert not [row for row in rows.values() if row['name'].startswith('=')]
    made = {grade.plain(Path(name)): of for name, of in made.items()}
    assert set(rows) == {grade.plain(Path(name)) for name in names}
    for name, row in rows.items():
        _, right, remark = made[name]
        assert [n for n in NUMBERS if int(row[n])] == right, row
        assert int(row['points']) == sum(WORTH[number][0] for number in right)
        assert remark in row['remarks'], row
    pages = [page.read_text(encoding='utf8') for page in (folder / 'out').rglob('*.html')]
    assert len(pages) == len(names)
    assert not any('<b>' in page or 'a-secret' in page for page in pages)


def test_each_submission_gets_its_verdict_and_nothing_is_left(tmp_path, started):
    # What leaves processes is right, and all else there is blank.
    files = ['no notebook', '=cmd()', """O'Neil, "Bo" & <b>Co""", 'M\udcfcller']
    (tmp_path / 'out' / 'feedback').mkdir(parents=True)
    (tmp_path / 'out' / 'feedback' / 'of-last-year.html').touch()
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


@pytest.mark.parametrize('change', GIVEN['changes'])
def test_who_changes_the_course_where_that_is_possible_is_told(alone, change, a_minute):
    with pytest.raises(grade.Refused, match='changed files of the course'):
        alone(notebook('return [n // k] * k', GIVEN['changes'][change] + '\nos._exit(0)'))


def test_what_hides_behind_two_forks_ends_where_nothing_can_be_hidden(alone):
    fork = 'import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n'
    fork += "        os.execve('/bin/sleep', ['sleep', '987'], {})\n    os._exit(0)"
    alone(notebook('raise NotImplementedError', fork))
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
