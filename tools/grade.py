"""Grade submissions of the exercises: ``make grade FROM=folder`` leaves ``build/grades/``.

``handed_in.py`` finds them below the folder, ``grade_cells.py`` executes a notebook's cells,
``grade_checks.py`` checks the answers, with another seed; both run in a sandbox (``sandbox.py``),
in the environment of the chapter. ``grades.py`` keeps the table. ``PRIVATE=folder`` takes the
exercises' sources from there.
"""

import base64
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
import nbformat
import yaml
from grades import Grades
from handed_in import due_date, find, read_roster, same_person, words_in
from interpreters import python_of
from sandbox import ROOT, Course, Ended, Program, adopt_orphans, isolation
from tabulate import tabulate
from tqdm import tqdm

from student import CHECK, set_of

SECONDS = 240  # for a submission, restarts included; after that, what has been graded counts
CELL_SECONDS = 20  # for one cell
ANSWER_SECONDS = 45  # some checks start processes: 5 s, and on slow machines that are busy 20
LARGEST = 10 << 20  # bytes of a notebook
PLAN = ROOT / 'exercises' / 'teaching' / 'plan.yml'  # what each exercise is worth
NEVER = False, 'not reached'
HEAD = """<!doctype html><meta charset="utf8"><title>Exercises</title>
<style>body{font:16px sans-serif;max-width:50em;margin:2em auto}td{padding:.3em .8em}</style>"""


class Refused(Exception):
    """Why a submission has no verdicts."""


def checks_in(path):
    """Return the calls of ``check`` in a source of ours, by exercise number."""
    cells = nbformat.read(path, as_version=4).cells
    lines = [line for cell in cells if cell.cell_type == 'code' for line in cell.source.split('\n')]
    return {match[1]: line for line in lines if (match := CHECK.match(line))}


def content_of(path):
    """Read a submission: a regular file, and not by a link, which may lead to another student's."""
    if path.is_symlink():
        raise Refused('it is a link: hand in the notebook itself')
    file = os.open(path, os.O_RDONLY | getattr(os, 'O_NONBLOCK', 0))  # a pipe would wait
    with open(file, 'rb') as opened:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise Refused('it is no file')
        if len(content := opened.read(LARGEST + 1)) > LARGEST:
            raise Refused(f'it is too large, over {LARGEST >> 20} MB: save it without its outputs')
    return content


def run_cells(course, prefix, checks, deadline):
    """Execute a submission, again without a cell that ends it; yield what it sends, by number."""
    skipped, done = [], False
    while not done and time.monotonic() < deadline:
        cell = None
        try:
            with Program('grade_cells.py', course, prefix) as program:
                job = {'notebook': str(course.given / 'notebook'), 'checks': checks}
                program.send(**job, skipped=skipped)
                while not done:
                    seconds = SECONDS if cell is None else CELL_SECONDS
                    message = program.receive(min(deadline, time.monotonic() + seconds))
                    cell = message.get('cell', cell)
                    done = 'end' in message
                    yield message | {'cell': cell}
        except Ended as how:
            if cell is None:
                raise Refused(f'it cannot be read: it {how}') from None
            skipped.append(cell)
            yield {'cell': cell, 'error': f'{how}: left out'}


def run_checks(course, prefix, answers, seed, deadline, names):
    """Check answers; yield for each its number and verdict. One that ends the checks is not right.

    ``names`` collects those that were given. Each answer is sent as the name of a file: it may be
    longer than a pipe holds.
    """
    waiting = list(answers)
    while waiting and time.monotonic() < deadline:
        ready = False
        try:
            with Program('grade_checks.py', course, prefix) as program:
                program.send(number=waiting[0])
                program.receive(deadline)  # it has imported what the checks need
                ready = True
                while waiting:
                    path = course.given / f'{waiting[0]}.pickle'
                    path.write_bytes(answers[waiting[0]])
                    program.send(number=waiting[0], answers=str(path), seed=seed)
                    message = program.receive(min(deadline, time.monotonic() + ANSWER_SECONDS))
                    names |= {message['name']} - {None}
                    yield waiting.pop(0), (message['right'] is True, message['sentence'])
        except Ended as how:
            if not ready and time.monotonic() < deadline:  # nothing that an answer has done
                raise Refused(f'nothing could be checked: what checks it {how}') from None
            yield waiting.pop(0), (False, f'its answer {how}')


def grade(course, prefix, checks, path, seed, names=None):
    """Return the verdicts on a submission, {number: (right, sentence)}, and remarks on the rest.

    ``names`` collects for whom its personal numbers were drawn.
    """
    verdicts, remarks, answers, deadline = {}, [], {}, time.monotonic() + SECONDS
    (course.given / 'notebook').write_bytes(content_of(path))
    for message in run_cells(course, prefix, checks, deadline):
        if 'unreadable' in message:
            raise Refused(f'it is no notebook that can be read: {message["unreadable"]}')
        number = message.get('number')
        if 'error' in message:
            remarks.append(f'cell {int(message["cell"]) + 1}: {message["error"]}')
        elif 'missing' in message and number in checks:
            verdicts[number] = False, f'not yet: {message["missing"]}'
        elif number in checks:
            answers[number] = base64.b64decode(message['answers'])
    unchanged = course.is_unchanged()
    if unchanged:
        names = set() if names is None else names
        verdicts |= run_checks(course, prefix, answers, seed, deadline, names)
        unchanged = course.is_unchanged()
    if not unchanged:
        raise Refused('it has changed files of the course: nothing counts')
    return verdicts, list(dict.fromkeys(remarks))


def environments(sources, chapters):
    """Find the Python of each chapter; stop where one lacks what the chapter's checks need."""
    found = {chapter: python_of(sources[chapter]) for chapter in chapters}
    for chapter, python in found.items():
        first = min(checks_in(sources[chapter]))
        command = f"from mgpu_exercises.checking import find; find('{first}')"
        paths = os.pathsep.join([str(ROOT), str(ROOT / 'exercises')])
        done = subprocess.run(
            [python, '-c', command], env=os.environ | {'PYTHONPATH': paths},
            cwd=ROOT, capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode:
            why = (done.stderr.strip().splitlines() or ['it ends'])[-1]
            raise click.ClickException(
                f"{python} cannot check chapter {chapter}: {why}. What to do: 'make setup' "
                "(PyTorch's chapters: 'make setup TORCH=1'), then the same again"
            )
    return found


def about(submission, names):
    """Say what a lecturer should know of a submission beside its verdicts."""
    student, remarks = submission.student, []
    if submission.others:
        earlier = ', '.join(submission.others)
        remarks.append(f'{submission.path.name} is the last of several: {earlier} not graded')
    for name in sorted(names):
        if not (same_person(name, student.name) or {*words_in(name)} & {*words_in(student.name)}):
            remarks.append(f"chapter {submission.chapter}: numbers drawn for '{name}'")
    return remarks


def plain(text):
    """Replace what no file can hold, and what a terminal or a table would act upon."""
    text = os.fsencode(text) if isinstance(text, Path) else str(text).encode('utf8', 'replace')
    return ' '.join(re.sub(r'[\x00-\x1f\x7f]', ' ', text.decode('utf8', 'replace')).split())


def page(student, chapter, checks, right, verdicts, remarks, worth):
    """Write the page that a student is given back."""
    lines = [
        (n, f'{worth(n) if n in right else 0} of {worth(n)}', verdicts.get(n, NEVER)[1])
        for n in checks
    ]
    lines.append(('all', f'{sum(map(worth, right))} of {sum(map(worth, checks))}', ''))
    lines += [('', '', remark) for remark in remarks]
    lines = [[plain(word) for word in line] for line in lines]
    return HEAD + tabulate(lines, [student, f'chapter {chapter}', 'points'], 'html')


def grade_one(course, submission, checks, hidden, isolated, seed):
    """Return what ``grade`` does; whatever a student hands in, it must not cost another's grade."""
    names = set()
    try:
        with course:
            prefix = isolation(course.folder, hidden) if isolated else []
            verdicts, remarks = grade(course, prefix, checks, submission.path, seed, names)
    except Refused as why:
        verdicts, remarks = {}, [str(why)]
    except Exception as error:
        verdicts, remarks = {}, [f'it could not be graded: {type(error).__name__}']
    return verdicts, [plain(remark) for remark in remarks + about(submission, names)]


FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command()
@click.argument('folder', type=FOLDER)
@click.option('--private', type=FOLDER)
@click.option('--roster', type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option('--set', 'chosen', help='Exercises that were set, such as "1.1 1.5 3.2".')
@click.option('--due', help='When, such as "2026-12-01 18:00": what is later is marked.')
@click.option('--seed', default=1, show_default=True, help="Seed of the checks' random arrays.")
@click.option('--build', type=click.Path(path_type=Path), default=ROOT / 'build' / 'grades')
def main(folder, private, roster, chosen, due, seed, build):
    """Grade the notebooks below FOLDER."""
    sources = {set_of(p): p for p in sorted((private or ROOT / 'exercises').glob('*.ipynb'))}
    try:
        roster, due = read_roster(roster) if roster else [], due_date(due)
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    submissions, skipped = find(folder, sources, roster, due)
    for path in skipped:
        click.echo(f'not graded, its name has no chapter: {plain(path.relative_to(folder))}')
    if not submissions:
        example = next(iter(sources.values())).name
        raise click.ClickException(
            f"there is no submission in '{folder}': notebooks like {example}"
        )
    chapters = [c for c in sources if c in {submission.chapter for submission in submissions}]
    checks = {chapter: checks_in(sources[chapter]) for chapter in chapters}
    known = {n for source in sources.values() for n in checks_in(source)}
    if unknown := [n for n in (chosen or '').split() if n not in known]:
        raise click.ClickException(f'there is no exercise {", ".join(unknown)} with a check')
    numbers = chosen.split() if chosen else [n for chapter in chapters for n in checks[chapter]]
    checks = {c: {n: call for n, call in of.items() if n in numbers} for c, of in checks.items()}
    submissions = [s for s in submissions if checks[s.chapter]]
    pythons = environments(sources, [c for c in chapters if checks[c]])
    build.mkdir(parents=True, exist_ok=True)
    hidden = {p.resolve() for p in (folder, build, ROOT / 'exercises', private or folder)}
    prefixes = {Path(python).parent.parent for python in pythons.values()}
    for needed in ROOT, Path(sys.prefix), Path(tempfile.gettempdir()), *prefixes:
        if any(needed.resolve().is_relative_to(path) for path in hidden):
            raise click.ClickException(
                f"'{folder}' holds {needed}: put the submissions into a folder of their own"
            )
    shutil.rmtree(build / 'feedback', ignore_errors=True)
    adopt_orphans()
    course, worth = Course(), yaml.safe_load(PLAN.read_text(encoding='utf8'))['points']
    with course:
        isolated = bool(isolation(course.folder, hidden))
    offline = isolated or {name for _, name in socket.if_nameindex()} == {'lo'}
    click.echo(f'network: {"none" if offline else "NOT taken away: this system does not allow it"}')
    if not isolated:
        click.echo('files and processes: NOT hidden: use a container for each student')
    # A teacher's own exercise, which is not in the plan, is worth one point.
    grades = Grades(roster, numbers, lambda number: worth.get(number, [1])[0])
    grades.write(build / 'grades.csv')
    for submission in tqdm(submissions, unit='submission', disable=None):
        course.python, mine = pythons[submission.chapter], checks[submission.chapter]
        submission.student.name = plain(Path(submission.student.name))
        verdicts, remarks = grade_one(course, submission, mine, hidden, isolated, seed)
        right = [n for n in mine if verdicts.get(n, NEVER)[0]]
        inside = submission.path.relative_to(folder)
        grades.add(submission, plain(inside), mine, right, remarks)
        grades.write(build / 'grades.csv')
        name = submission.student.name
        text = page(name, submission.chapter, mine, right, verdicts, remarks, grades.worth)
        # Under the submission's own name, by which a learning management system takes it back.
        target = (build / 'feedback' / inside).with_suffix('.html')
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding='utf8')
    click.echo(build / 'grades.csv')


if __name__ == '__main__':
    main()
