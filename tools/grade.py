"""Grade submissions of the exercises: ``make grade FROM=folder`` leaves ``build/grades/``.

Each notebook in the folder or below it is a submission: its name begins with the chapter's number,
and the student is the rest of its name, or else its folder. ``grade_cells.py`` executes its cells,
``grade_checks.py`` checks the answers, with another seed; both run in a sandbox (``sandbox.py``).
``PRIVATE=folder`` takes the exercises' sources from there.
"""

import base64
import csv
import os
import re
import socket
import stat
import sys
import tempfile
import time
from pathlib import Path

import click
import nbformat
import yaml
from sandbox import ROOT, Course, Ended, Program, adopt_orphans, isolation
from tabulate import tabulate
from tqdm import tqdm

from student import CHECK, set_of

SECONDS = 240  # for a submission, restarts included; after that, what has been graded counts
CELL_SECONDS = 20  # for one cell or answer; the slowest solution takes about two
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


def run_checks(course, prefix, answers, seed, deadline):
    """Check answers; yield for each its number and verdict. One that ends the checks is not right.

    Each answer is sent as the name of a file: it may be longer than a pipe holds.
    """
    waiting = list(answers)
    while waiting and time.monotonic() < deadline:
        try:
            with Program('grade_checks.py', course, prefix) as program:
                program.send(number=waiting[0])
                program.receive(deadline)  # it has imported what the checks need
                while waiting:
                    path = course.given / f'{waiting[0]}.pickle'
                    path.write_bytes(answers[waiting[0]])
                    program.send(number=waiting[0], answers=str(path), seed=seed)
                    message = program.receive(min(deadline, time.monotonic() + CELL_SECONDS))
                    yield waiting.pop(0), (message['right'] is True, message['sentence'])
        except Ended as how:
            yield waiting.pop(0), (False, f'its answer {how}')


def grade(course, prefix, checks, path, seed):
    """Return the verdicts on a submission, {number: (right, sentence)}, and remarks on the rest."""
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
        verdicts |= run_checks(course, prefix, answers, seed, deadline)
        unchanged = course.is_unchanged()
    if not unchanged:
        raise Refused('it has changed files of the course: nothing counts')
    return verdicts, list(dict.fromkeys(remarks))


def submissions_in(folder, sources):
    """Yield the student, the chapter and the file of each submission."""
    for path in sorted(folder.rglob('*.ipynb')):
        chapter = set_of(path)
        if chapter in sources and '.ipynb_checkpoints' not in path.parts:
            rest = path.stem.removeprefix(sources[chapter].stem).strip('-_ .')
            yield rest or path.parent.relative_to(folder).as_posix(), chapter, path


def plain(text):
    """Replace what no file can hold, and what a terminal or a table would act upon."""
    text = os.fsencode(text) if isinstance(text, Path) else str(text).encode('utf8', 'replace')
    return ' '.join(re.sub(r'[\x00-\x1f\x7f]', ' ', text.decode('utf8', 'replace')).split())


def page(student, chapter, checks, right, verdicts, remarks):
    """Write the page that a student is given back."""
    lines = [(n, '✓' if n in right else '–', verdicts.get(n, NEVER)[1]) for n in checks]
    lines += [('', '', remark) for remark in remarks]
    lines = [[plain(word) for word in line] for line in lines]
    return HEAD + tabulate(lines, [student, f'chapter {chapter}', ''], 'html')


@click.command()
@click.argument('folder', type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option('--private', type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option('--seed', default=1, show_default=True, help="Seed of the checks' random arrays.")
@click.option('--build', type=click.Path(path_type=Path), default=ROOT / 'build' / 'grades')
def main(folder, private, seed, build):
    """Grade the notebooks below FOLDER."""
    sources = {set_of(p): p for p in (private or ROOT / 'exercises').glob('*.ipynb')}
    submissions = list(submissions_in(folder, sources))
    if not submissions:
        example = min(sources.values()).name
        raise click.ClickException(
            f"there is no submission in '{folder}': notebooks like {example}"
        )
    build.mkdir(parents=True, exist_ok=True)
    hidden = {p.resolve() for p in (folder, build, ROOT / 'exercises', private or folder)}
    for needed in ROOT, Path(sys.prefix), Path(tempfile.gettempdir()):
        if any(needed.resolve().is_relative_to(path) for path in hidden):
            raise click.ClickException(
                f"'{folder}' holds {needed}: put the submissions into a folder of their own"
            )
    for page_of_before in build.glob('*.html'):
        page_of_before.unlink()
    adopt_orphans()
    course, worth = Course(), yaml.safe_load(PLAN.read_text(encoding='utf8'))['points']
    with course:
        isolated = bool(isolation(course.folder, hidden))
    offline = isolated or {name for _, name in socket.if_nameindex()} == {'lo'}
    click.echo(f'network: {"none" if offline else "NOT taken away: this system does not allow it"}')
    if not isolated:
        click.echo('files and processes: NOT hidden: use a container for each student')
    with (build / 'grades.csv').open('w', newline='', encoding='utf8') as file:
        table = csv.writer(file)
        table.writerow('student chapter right of points out_of exercises remarks'.split())
        for student, chapter, path in tqdm(submissions, unit='submission', disable=None):
            checks, verdicts, remarks = checks_in(sources[chapter]), {}, []
            try:
                with course:
                    prefix = isolation(course.folder, hidden) if isolated else []
                    verdicts, remarks = grade(course, prefix, checks, path, seed)
            except Refused as why:
                remarks = [str(why)]
            except Exception as error:  # what one hands in must not cost another's grade
                remarks = [f'it could not be graded: {type(error).__name__}']
            student, remarks = plain(Path(student)), [plain(remark) for remark in remarks]
            right = [n for n in checks if verdicts.get(n, NEVER)[0]]
            # A teacher's own exercise, which is not in the plan, is worth one point.
            points, out_of = (sum(worth.get(n, [1])[0] for n in of) for of in (right, checks))
            row = [student, chapter, len(right), len(checks), points, out_of]
            row += [' '.join(right), '; '.join(remarks)]
            # A spreadsheet would take text that begins like this for a formula.
            table.writerow([f"'{x}" if str(x).startswith(tuple('=+-@')) else x for x in row])
            file.flush()
            name = re.sub(r'[^\w.-]+', '_', student)[-100:]
            name += f'-{sources[chapter].stem.split("-")[0]}.html'
            text = page(student, chapter, checks, right, verdicts, remarks)
            (build / name).write_text(text, encoding='utf8')
    click.echo(build / 'grades.csv')


if __name__ == '__main__':
    main()
