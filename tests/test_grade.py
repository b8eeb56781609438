"""Grading: each submission gets its verdict, whatever its author did, and nothing goes on."""

import contextlib
import csv
import itertools
import os
import resource
import subprocess
import sys
import time
from datetime import datetime

import grade
import grading
import psutil
import pytest
from classroom import (
    DUE,
    FIRST,
    NUMBERS,
    ODD_NAMES,
    ROOT,
    Handed,
    a_class,
    notebook,
    to_chapter_1,
    two_environments,
)
from click.testing import CliRunner
from grading import Judge, Room
from sandbox import Course

SMALL = 'answer dies', 'answer leaves processes', 'forges: walks frames to what sends'
SMALL += ('forges: pickles what decides',)
CHOSEN = ['1.1', '1.3', '1.5', '1.6']
WORTH = grade.yaml.safe_load(grade.PLAN.read_text('utf8'))['points']


def graded(folder, handed, *options, python=sys.executable, **environment):
    """Grade what is handed in; return the rows by name, and all that was printed."""
    due = datetime.fromisoformat(DUE).timestamp()
    for one in itertools.chain(*handed.values()):
        path = folder / 'in' / one.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(one.text, encoding='utf8')
        os.utime(path, (due - 3600 * one.hours,) * 2)
    command = [python, ROOT / 'tools/grade.py', folder / 'in', '--build', folder / 'out']
    done = subprocess.run(
        [*command, *options], cwd=ROOT, capture_output=True, text=True, timeout=3000,
        env=os.environ | environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with (folder / 'out' / 'grades.csv').open(encoding='utf8', newline='') as file:
        rows = {row['name'].lstrip("'"): row for row in csv.DictReader(file)}
    assert not [row for row in rows.values() if row['name'].startswith('=')]
    return rows, done.stdout


def check_rows(rows, handed, chosen):
    """Hold each row against what is right of what was handed in, remarks and lateness included."""
    for name, files in handed.items():
        row, counting = rows[grade.plain(name)], [one for one in files if one.counts]
        points = {n: 0 for one in counting for n in NUMBERS[one.chapter]}
        points |= {n: WORTH[n][0] for one in counting for n in one.right}
        found = {n: int(row[n]) for n in chosen if row[n]}
        assert found == {n: points[n] for n in chosen if n in points}, row
        late = any(one.hours < 0 for one in counting)  # by five hours, so it counts half
        assert late or float(row['points']) == sum(found.values())
        assert all(one.remark in row['remarks'] for one in counting), row
        assert bool(row['late']) == any(one.hours < 0 for one in counting), row
        names = sorted(grade.plain(one.path) for one in counting)
        assert row['files'].lstrip("'") == '; '.join(names)


def pages_in(folder):
    pages = [page.read_text(encoding='utf8') for page in (folder / 'out').rglob('*.html')]
    assert not any('<b>' in page or 'a-secret' in page for page in pages)
    return pages


@pytest.mark.slow  # a minute or two; a reader has no class
def test_each_submission_gets_its_verdict_and_nothing_is_left_or_in_view(tmp_path, started):
    (tmp_path / 'out' / 'feedback').mkdir(parents=True)
    (tmp_path / 'out' / 'feedback' / 'of-last-year.html').touch()
    (tmp_path / 'exam').write_text('a-secret')
    look = f'import os\nfor p in ({str(tmp_path / "exam")!r}, {str(grade.PLAN)!r}):\n'
    look += '    if os.path.exists(p):\n        raise type(open(p).read(), (Exception,), {})()\n'
    theirs = notebook(f'{look}raise type("a-secret", (Exception,), {{}})()', look)
    given = {**ODD_NAMES, 'looks': (theirs, [], '')} | {
        name: to_chapter_1()[name] for name in SMALL
    }
    handed = {name: [Handed(f'{name}/{FIRST.name}', '1', *of)] for name, of in given.items()}
    secrets = dict.fromkeys(('MY_PAT', 'AUTHORIZATION', 'SSH_AUTH_SOCK'), 'a-password')
    secrets |= {'MGPU_DATA_MIRRORS': 'https://me:a-password@localhost/', 'HOME': str(tmp_path)}
    rows, printed = graded(tmp_path, handed, '--set', ' '.join(CHOSEN), **secrets)
    check_rows(rows, handed, CHOSEN)  # who leaves processes is right; who forges is not
    drawn = "chapter 1: numbers drawn for 'Ada'"  # where it reads a file, its cell raises an error
    assert 'NOT hidden' in printed or rows['looks']['remarks'] == drawn
    pages = pages_in(tmp_path)
    assert len(pages) == len(handed) == len(rows)
    assert any('shard_sizes(6, 2) raised an error' in page for page in pages)
    assert not started()


@pytest.mark.slow  # a submission takes 7 s
def test_who_forges_gets_nothing(tmp_path, started):
    forgers = [name for name in to_chapter_1() if name.startswith('forges: ')]
    given = {name: to_chapter_1()[name] for name in forgers}
    handed = {name: [Handed(f'{name}/{FIRST.name}', '1', *of)] for name, of in given.items()}
    rows, _ = graded(tmp_path, handed, '--set', '1.1')
    check_rows(rows, handed, ['1.1'])
    assert not started()


def test_a_submission_ends_with_its_grader_though_that_is_killed(tmp_path):
    (tmp_path / FIRST.name).write_text(notebook(first='while True: pass'), encoding='utf8')
    command = [sys.executable, ROOT / 'tools/grade.py', tmp_path, '--build', tmp_path / 'out']
    pipes = dict.fromkeys(('stdout', 'stderr'), subprocess.PIPE)
    with subprocess.Popen(command, cwd=ROOT, **pipes) as grader:
        below, begun = [], False
        while grader.poll() is None and not begun:
            with contextlib.suppress(psutil.Error):
                below = psutil.Process(grader.pid).children(recursive=True)
                begun = any('grade_answers.py' in ' '.join(process.cmdline()) for process in below)
        grader.kill()
    assert begun and not psutil.wait_procs(below, 30)[1]


@pytest.fixture
def alone(tmp_path, started):
    """Grade one submission where nothing can be hidden from it."""
    grade.adopt_orphans()

    def grade_text(text):
        (tmp_path / FIRST.name).write_text(text, encoding='utf8')
        with (
            Course() as course,
            Course() as ours,
            contextlib.closing(Judge(ours)) as judge,
            contextlib.closing(Room(course, [], '1.1')) as room,
        ):
            return grading.grade(room, judge, grade.checks_in(FIRST), tmp_path / FIRST.name)

    yield grade_text
    # A later test in this process would take the watchdogs of what it starts for its children.
    grade.adopt_orphans(False)
    assert not started()


def test_what_hides_behind_two_forks_ends_where_nothing_can_be_hidden(alone):
    fork = 'import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n'
    fork += "        os.execve('/bin/sleep', ['sleep', '987'], {})\n    os._exit(0)"
    alone(notebook('raise NotImplementedError', fork))
    assert ['sleep', '987'] not in [p.info['cmdline'] for p in psutil.process_iter(['cmdline'])]


@pytest.mark.slow  # about ten minutes; a notebook takes six seconds, what never ends a minute
def test_a_class_of_40_in_one_table_where_there_are_two_environments(tmp_path, started):
    pytest.importorskip('mxnet', reason='MXNet is not installed')
    pytest.importorskip('torch', reason='PyTorch is not installed')
    before = {path: path.stat().st_mtime_ns for path in (ROOT / 'mgpu_helpers').rglob('*.py')}
    roster, handed = a_class()
    chosen = [n for c in NUMBERS if c.isdigit() for n in NUMBERS[c] if n not in ('1.9', '3.7')]
    (tmp_path / 'roster.csv').write_text(
        ''.join(f'{id},{name}\n' for id, name in roster.items()), encoding='utf8'
    )
    options = '--roster', tmp_path / 'roster.csv', '--set', ' '.join(chosen), '--due', DUE
    began = time.monotonic()
    rows, printed = graded(tmp_path, handed, *options, python=two_environments(tmp_path))
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
    minutes, pages = (time.monotonic() - began) / 60, pages_in(tmp_path)
    print(f'{len(rows)} rows, {len(pages)} notebooks in {minutes:.1f} min, {most:.2f} GB at most')
    assert list(rows)[:40] == [*roster.values()] and len(rows) == 40 + len(ODD_NAMES)
    check_rows(rows, handed, chosen)
    for name in set(roster.values()) - set(handed):
        assert rows[name]['points'] == '0' and not rows[name]['files'], 'absent'
    assert len(pages) == sum(one.counts for files in handed.values() for one in files)
    assert not started()
    assert not [p for p in psutil.process_iter(['cmdline']) if str(tmp_path) in str(p.info)]
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_what_is_no_plain_file_is_told(tmp_path, five_minutes):
    for name in ('pipe', 'nowhere', 'folder', 'link'):
        path = tmp_path / f'01-{name}.ipynb'
        if name == 'pipe':
            os.mkfifo(path)
        elif name == 'folder':
            path.mkdir()
        else:  # a link to another student's, for instance
            path.symlink_to(FIRST if name == 'link' else tmp_path / 'not there')
        with pytest.raises(grading.Refused):
            grading.content_of(path)


def test_a_folder_without_submissions_is_told(tmp_path):
    done = CliRunner().invoke(grade.main, [str(tmp_path)])
    assert done.exit_code == 1 and 'there is no submission in' in done.output
