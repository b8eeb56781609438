"""Grade submissions of the exercises: ``make grade FROM=folder`` writes ``build/grades/``.

``handed_in.py`` finds them in the folder, ``grading.py`` grades each one in a sandbox
(``sandbox.py``) and in its chapter's environment, ``grades.py`` keeps the table.
"""

import os
import re
import shutil
import subprocess
import tempfile
from contextlib import closing
from pathlib import Path

import click
import nbformat
import yaml
from grades import Grades, add_weeks
from grading import Judge, Refused, Room, grade
from handed_in import find, read_roster, same_person, words_in
from sandbox import ROOT, Course, adopt_orphans, isolation
from tabulate import tabulate
from tqdm import tqdm

from student import CHECK, SOURCES, python_of

PLAN = ROOT / 'exercises' / 'teaching' / 'plan.yml'  # the points of each exercise
EXAMPLE = 'Ada Lovelace'  # the name in the notebooks' name cell
NEVER = False, 'not reached'
# The folders of an environment: its own, its base Python's, and its packages' if they are links.
WHERE = 'import os, sys, numpy\nfor p in (sys.prefix, sys.base_prefix, '
WHERE += 'os.path.dirname(os.path.dirname(os.path.realpath(numpy.__file__)))): print(p)'
HIDDEN = 'submissions have no network, and see no files or processes of yours'
NOT_HIDDEN = 'network, files and processes are NOT hidden: this system does not allow it'
HEAD = """<!doctype html><meta charset="utf8"><title>Exercises</title>
<style>body{font:16px sans-serif;max-width:50em;margin:2em auto}td{padding:.3em .8em}</style>"""


def checks_in(path):
    """Return the ``check`` calls in one of our own notebooks, by exercise number."""
    cells = nbformat.read(path, as_version=4).cells
    lines = [line for cell in cells if cell.cell_type == 'code' for line in cell.source.split('\n')]
    return {match[1]: line for line in lines if (match := CHECK.match(line))}


def environments(chapters):
    """Find each chapter's Python and the folders it must see; stop if a package is missing."""
    found, places = {chapter: python_of(SOURCES[chapter]) for chapter in chapters}, set()
    for chapter, python in found.items():
        first = min(checks_in(SOURCES[chapter]))
        command = f"from mgpu_exercises.checking import find; find('{first}')\n{WHERE}"
        paths = os.pathsep.join([str(ROOT), str(ROOT / 'exercises')])
        done = subprocess.run(
            [python, '-c', command], env=os.environ | {'PYTHONPATH': paths},
            cwd=ROOT, capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode:
            why = (done.stderr.strip().splitlines() or ['it ends'])[-1]
            raise click.ClickException(
                f"{python} cannot check chapter {chapter}: {why}. What to do: 'make setup' "
                "(PyTorch's chapters: 'make setup TORCH=1'), then run the same command again"
            )
        places |= {Path(line).resolve() for line in done.stdout.splitlines()[-3:]}
    data = os.environ.get('MXNET_HOME')
    data = Path(data or Path.home() / '.mxnet', 'datasets')
    return found, places | ({data.resolve()} if data.is_dir() else set())


def is_theirs(name, student):
    """Return whether a name can be this student's; a file's name may have only a part of it."""
    words = {*words_in(name)} & {*words_in(student.name)}
    return bool(words) or same_person(name, student.name)


def about(submission, names):
    """Return remarks on a submission for the lecturer, in addition to its verdicts."""
    student, remarks = submission.student, []
    if submission.others:
        earlier = ', '.join(submission.others)
        remarks.append(f'{submission.path.name} is the last of several: {earlier} not graded')
    for name in sorted({*names.values()}):
        if not is_theirs(name, student):
            remarks.append(f"chapter {submission.chapter}: numbers drawn for '{name}'")
    return remarks


def plain(text):
    """Replace invalid characters and those that a terminal or a table would interpret."""
    text = str(text).encode('utf8', 'replace').decode()
    return ' '.join(re.sub(r'[\x00-\x1f\x7f]', ' ', text).split())


def page(student, chapter, checks, right, verdicts, remarks, worth):
    """Return the HTML page with a student's results."""
    lines = [
        (n, f'{worth(n) if n in right else 0} of {worth(n)}', verdicts.get(n, NEVER)[1])
        for n in checks
    ]
    lines.append(('all', f'{sum(map(worth, right))} of {sum(map(worth, checks))}', ''))
    lines += [('', '', remark) for remark in remarks]
    lines = [[plain(word) for word in line] for line in lines]
    return HEAD + tabulate(lines, [student, f'chapter {chapter}', 'points'], 'html')


def grade_one(course, submission, checks, apart, judge):
    """Return the result of ``grade``; no submission may affect the grade of another student."""
    verdicts, names = {}, {}
    try:
        with course:
            prefix = isolation(course, *apart) if apart else []
            with closing(Room(course, prefix, min(checks))) as room:
                verdicts, names, remarks = grade(room, judge, checks, submission.path)
    except Refused as why:
        remarks = [str(why)]
    except Exception as error:
        remarks = [f'it could not be graded: {type(error).__name__}']
    for number, name in names.items():
        if same_person(name, EXAMPLE) and not is_theirs(name, submission.student):
            sentence = f"not yet: '{EXAMPLE}' is the example's name; your name gives other numbers"
            verdicts[number] = False, sentence
    return verdicts, [plain(remark) for remark in remarks + about(submission, names)]


FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument('folder', type=FOLDER)
@click.option('--roster', type=FILE)
@click.option('--set', 'chosen', help='Exercises that were assigned, such as "1.1 1.5 3.2".')
@click.option('--due', type=click.DateTime(['%Y-%m-%d %H:%M', '%Y-%m-%d']), help='Due date.')
@click.option('--week', help='Number of the week: weeks.csv adds up the points of all weeks.')
@click.option('--build', type=click.Path(path_type=Path), default=ROOT / 'build' / 'grades')
def main(folder, roster, chosen, due, week, build):
    """Grade the notebooks below FOLDER."""
    roster = read_roster(roster) if roster else []
    submissions, skipped = find(folder, roster, due)
    for path, _ in skipped:
        click.echo(f'not graded, its name has no chapter: {plain(path.relative_to(folder))}')
    if roster and not any(submission.student in roster for submission in submissions):
        click.echo('no submission is from a student on the roster: is it the right roster?')
    if not submissions:
        like = SOURCES['1'].name
        raise click.ClickException(
            f"there is no submission in '{folder}'; expected notebooks like {like}"
        )
    every = {chapter: checks_in(source) for chapter, source in SOURCES.items()}
    known = {number for of in every.values() for number in of}
    if unknown := [n for n in (chosen or '').split() if n not in known]:
        raise click.ClickException(f'no check exists for: {", ".join(unknown)}')
    chapters = [c for c in SOURCES if c in {submission.chapter for submission in submissions}]
    numbers = chosen.split() if chosen else [n for c in chapters for n in every[c]]
    checks = {c: {n: call for n, call in every[c].items() if n in numbers} for c in chapters}
    submissions = [s for s in submissions if checks[s.chapter]]
    pythons, needed = environments([c for c in chapters if checks[c]])
    weeks, build = build, build / f'week-{week}' if week else build
    build.mkdir(parents=True, exist_ok=True)
    places = folder, build, ROOT, Path.home(), Path(tempfile.gettempdir())
    hidden = {place.resolve() for place in places} - {Path('/')}
    shutil.rmtree(build / 'feedback', ignore_errors=True)
    adopt_orphans()
    with Course() as course:
        apart = (hidden, needed) if isolation(course, hidden, needed) else ()
    click.echo(HIDDEN if apart else NOT_HIDDEN)
    # A teacher's own exercise that is not in the plan is worth one point.
    worth = yaml.safe_load(PLAN.read_text(encoding='utf8'))['points']
    grades = Grades(roster, numbers, lambda number: worth.get(number, [1])[0])
    for path, student in skipped:
        if student:
            row = grades.row_of(student, None)
            row['remarks'].append(f'not graded, its name has no chapter: {plain(path.name)}')
    grades.write(build / 'grades.csv')
    with Course() as ours, closing(Judge(ours)) as judge:
        for submission in tqdm(submissions, unit='submission', disable=None):
            course.python, mine = pythons[submission.chapter], checks[submission.chapter]
            name = submission.student.name = plain(submission.student.name)
            verdicts, remarks = grade_one(course, submission, mine, apart, judge)
            right = [n for n in mine if verdicts.get(n, NEVER)[0]]
            inside = submission.path.relative_to(folder)
            grades.add(submission, plain(inside), mine, right, remarks)
            grades.write(build / 'grades.csv')
            text = page(name, submission.chapter, mine, right, verdicts, remarks, grades.worth)
            # Under the submission's file name, so that a learning management system can import it.
            target = (build / 'feedback' / inside).with_suffix('.html')
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding='utf8')
    if week:
        add_weeks(weeks)
        click.echo(weeks / 'weeks.csv')
    click.echo(build / 'grades.csv')


if __name__ == '__main__':
    main()
