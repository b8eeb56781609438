"""Grade submissions of the exercises: ``make grade FROM=folder`` leaves ``build/grades/``.

``handed_in.py`` finds them below the folder, ``grade_cells.py`` executes a notebook's cells,
``grade_answers.py`` runs each answer, both in a sandbox (``sandbox.py``) and in the environment of
the chapter. ``grade_checks.py`` decides, with another seed, in a process that gets data alone
(``grade_wire.py``). ``grades.py`` keeps the table.
"""

import base64
import builtins
import os
import re
import shutil
import socket
import stat
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import click
import nbformat
import yaml
from grades import Grades, add_weeks
from handed_in import due_date, find, read_roster, same_person, words_in
from interpreters import python_of
from sandbox import ROOT, Course, Ended, Program, adopt_orphans, isolation
from tabulate import tabulate
from tqdm import tqdm

from student import CHECK, set_of

SECONDS = 240  # for a submission, restarts included; after that, what has been graded counts
CELL_SECONDS = 20  # for one cell
ANSWER_SECONDS = 90  # 5.11 sends 3,400 messages; some checks start processes, 20 s on busy machines
LARGEST = 10 << 20  # bytes of a notebook
PLAN = ROOT / 'exercises' / 'teaching' / 'plan.yml'  # what each exercise is worth
START_SECONDS = 60  # for the checks to be imported
SEED = 1  # of the checks' random arrays; students have 0
EXAMPLE = 'Ada Lovelace'  # stands in the exercises' cell for the name
NEVER = False, 'not reached'
# Where an environment is: itself, what it was made from, and its packages, if they are links.
WHERE = 'import os, sys, numpy\nfor p in (sys.prefix, sys.base_prefix, '
WHERE += 'os.path.dirname(os.path.dirname(os.path.realpath(numpy.__file__)))): print(p)'
HEAD = """<!doctype html><meta charset="utf8"><title>Exercises</title>
<style>body{font:16px sans-serif;max-width:50em;margin:2em auto}td{padding:.3em .8em}</style>"""


def error_name(name):
    """Name an error of a student's; another name than a built-in one can be anything."""
    kind = getattr(builtins, str(name), None)
    return name if isinstance(kind, type) and issubclass(kind, BaseException) else 'an error'


class Refused(Exception):
    """Why a submission has no verdicts."""


def checks_in(path):
    """Return the calls of ``check`` in a source of ours, by exercise number."""
    cells = nbformat.read(path, as_version=4).cells
    lines = [line for cell in cells if cell.cell_type == 'code' for line in cell.source.split('\n')]
    return {match[1]: line for line in lines if (match := CHECK.match(line))}


def content_of(path):
    """Read a submission: a regular file, and not by a link, which may lead to another student's."""
    if path.is_dir():
        raise Refused('it is a folder, not a notebook')
    if path.is_symlink():
        raise Refused('it is a link: hand in the notebook itself')
    file = os.open(path, os.O_RDONLY | getattr(os, 'O_NONBLOCK', 0))  # a pipe would wait
    with open(file, 'rb') as opened:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise Refused('it is no file')
        if len(content := opened.read(LARGEST + 1)) > LARGEST:
            raise Refused(f'it is too large, over {LARGEST >> 20} MB: save it without its outputs')
    if content.startswith((b'\xff\xfe', b'\xfe\xff')):
        raise Refused('it is written in UTF-16: save it as UTF-8')
    return content


def run_cells(course, prefix, checks, deadline):
    """Execute a submission, again without a cell that ends it; yield what it sends, by number."""
    skipped, done = [], False
    while not done and time.monotonic() < deadline:
        cell = None
        try:
            with Program('grade_cells.py', course, prefix) as program:
                job = {'notebook': str(course.given / 'notebook'), 'checks': checks}
                program.send(job | {'skipped': skipped}, deadline)
                while not done:
                    seconds = SECONDS if cell is None else CELL_SECONDS
                    message = program.receive(min(deadline, time.monotonic() + seconds))
                    cell = message.get('cell', cell)
                    done = 'end' in message
                    message.pop('how', None)
                    yield message | {'cell': cell}
        except Ended as how:
            if cell is None:
                raise Refused(f'it cannot be read: it {how}') from None
            skipped.append(cell)
            yield {'cell': cell, 'how': f'{how}: left out'}


class Judge:
    """The process in which the checks of an environment decide; it lasts, for all submissions."""

    def __init__(self):
        self.at_end = ExitStack()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.at_end.close()
        self.at_end, self.programs = ExitStack(), {}

    programs = {}

    def program(self, course, number, deadline):
        """Give the process, and start it if there is none."""
        key = course.python, number.partition('.')[0]
        if key not in self.programs:
            own = self.at_end.enter_context(Course())
            own.python = course.python
            self.programs[key] = program = self.at_end.enter_context(
                Program('grade_checks.py', own, [])
            )
            Program.lasting.add(program.process.pid)
            program.send({'number': number})
            program.receive(deadline)
        return self.programs[key]

    def verdict(self, program, path, number, seed, end):
        """Let an answer be checked: carry questions to its process, and data back."""
        judge = self.program(program.course, number, end + START_SECONDS)
        try:
            program.send({'answer': str(path)}, end)
            program.receive(end)  # it has begun
            judge.send({'number': number, 'seed': seed}, end)
            while 'ask' in (message := judge.receive(end)):
                program.send(message['ask'], end)
                if 'ended' in (reply := program.receive(end)):
                    raise Ended('ended the process')
                judge.send(reply, end)
            if 'broken' in message:
                raise Ended('gave what is no data, or wrote to the results')
            program.end_all_but(program.kept | Program.lasting)
            if 'ended' not in program.receive(end + START_SECONDS):
                raise Ended('wrote to the results')
        except Ended:
            self.__exit__()  # it may wait for a reply
            raise
        return message


def run_checks(course, prefix, answers, seed, deadline, judge):
    """Check answers; yield the number and what came of each. One that ends its process is wrong.

    Each answer is sent as the name of a file: it may be longer than a pipe holds.
    """
    waiting = list(answers)
    while waiting and time.monotonic() < deadline:
        ready = False
        try:
            with Program('grade_answers.py', course, prefix) as program:
                program.course = course
                program.send({'number': waiting[0]})
                program.receive(deadline)  # it has imported what the checks need
                program.kept, ready = {child.pid for child in program.below()}, True
                while waiting:
                    path = course.given / f'{waiting[0]}.pickle'
                    path.write_bytes(answers[waiting[0]])
                    end = min(deadline, time.monotonic() + ANSWER_SECONDS)
                    message = judge.verdict(program, path, waiting[0], seed, end)
                    yield waiting.pop(0), message
        except Ended as how:
            if not ready and time.monotonic() < deadline:  # nothing that an answer has done
                raise Refused(f'nothing could be checked: what checks it {how}') from None
            yield waiting.pop(0), {'right': False, 'sentence': f'its answer {how}', 'how': str(how)}


def grade(course, prefix, checks, path, seed, names=None, judge=None):
    """Return the verdicts on a submission, {number: (right, sentence)}, and remarks on the rest.

    ``names`` collects for whom the personal numbers of an exercise were drawn.
    """
    if judge is None:
        with Judge() as judge:
            return grade(course, prefix, checks, path, seed, names, judge)
    verdicts, remarks, answers, deadline = {}, [], {}, time.monotonic() + SECONDS
    (course.given / 'notebook').write_bytes(content_of(path))
    for message in run_cells(course, prefix, checks, deadline):
        if 'unreadable' in message:
            raise Refused(
                f'it is no notebook that can be read: {error_name(message["unreadable"])}'
            )
        number = message.get('number')
        if 'error' in message:
            remarks.append(f'cell {int(message["cell"]) + 1}: {error_name(message["error"])}')
        elif 'how' in message:
            remarks.append(f'cell {int(message["cell"]) + 1}: {message["how"]}')
        elif 'replaced' in message:
            remarks.append(f'replaced: {", ".join(map(str, message["replaced"][:5]))}')
        elif 'missing' in message and number in checks:
            verdicts[number] = False, f'not yet: {error_name(message["missing"])}'
        elif number in checks:
            answers[number] = base64.b64decode(message['answers'])
    unchanged = course.is_unchanged()
    if unchanged:
        for number, found in run_checks(course, prefix, answers, seed, deadline, judge):
            verdicts[number] = found['right'] is True, found['sentence']
            if names is not None and found.get('name'):
                names[number] = found['name']
            if how := found.get('how'):
                remarks.append(f'{number}: its answer {how}')
            if replaced := found.get('replaced'):
                remarks.append(f'{number}: its answer replaced {", ".join(replaced[:5])}')
        unchanged = course.is_unchanged()
    if not unchanged:
        raise Refused('it has changed files of the course: nothing counts')
    return verdicts, list(dict.fromkeys(remarks))


def environments(sources, chapters):
    """Find the Python of each chapter, and what it must see; stop where that lacks a part."""
    found, places = {chapter: python_of(sources[chapter]) for chapter in chapters}, set()
    for chapter, python in found.items():
        first = min(checks_in(sources[chapter]))
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
                "(PyTorch's chapters: 'make setup TORCH=1'), then the same again"
            )
        places |= {Path(line).resolve() for line in done.stdout.splitlines()[-3:]}
    data = os.environ.get('MXNET_HOME')
    data = Path(data or Path.home() / '.mxnet', 'datasets')
    return found, places | ({data.resolve()} if data.is_dir() else set())


def is_theirs(name, student):
    """Say whether a name can be a student's: in a file's name it may be a part."""
    words = {*words_in(name)} & {*words_in(student.name)}
    return bool(words) or same_person(name, student.name)


def about(submission, names):
    """Say what a lecturer should know of a submission beside its verdicts."""
    student, remarks = submission.student, []
    if submission.others:
        earlier = ', '.join(submission.others)
        remarks.append(f'{submission.path.name} is the last of several: {earlier} not graded')
    for name in sorted({*names.values()}):
        if not is_theirs(name, student):
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


def grade_one(course, submission, checks, apart, judge):
    """Return what ``grade`` does; whatever a student hands in, it must not cost another's grade."""
    names = {}
    try:
        with course:
            prefix = isolation(course, *apart) if apart else []
            path = submission.path
            verdicts, remarks = grade(course, prefix, checks, path, SEED, names, judge)
    except Refused as why:
        verdicts, remarks = {}, [str(why)]
    except Exception as error:
        verdicts, remarks = {}, [f'it could not be graded: {type(error).__name__}']
    for number, name in names.items():
        if same_person(name, EXAMPLE) and not is_theirs(name, submission.student):
            sentence = f"not yet: '{EXAMPLE}' is the example's name; with yours come other numbers"
            verdicts[number] = False, sentence
    return verdicts, [plain(remark) for remark in remarks + about(submission, names)]


FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


def keep_apart(own, places):
    for place in places:
        if any(place.resolve().is_relative_to(path.resolve()) for path in own):
            why = f"'{own[0]}' holds {place}: put the submissions into a folder of their own"
            raise click.ClickException(why)


@click.command()
@click.argument('folder', type=FOLDER)
@click.option('--roster', type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option('--set', 'chosen', help='Exercises that were set, such as "1.1 1.5 3.2".')
@click.option('--due', help='When, such as "2026-12-01 18:00": what is later is marked.')
@click.option('--week', help='Its number: points of all weeks add up in weeks.csv.')
@click.option('--build', type=click.Path(path_type=Path), default=ROOT / 'build' / 'grades')
def main(folder, roster, chosen, due, week, build):
    """Grade the notebooks below FOLDER."""
    sources = {set_of(p): p for p in sorted((ROOT / 'exercises').glob('*.ipynb'))}
    try:
        roster, due = read_roster(roster) if roster else [], due_date(due)
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    submissions, skipped = find(folder, sources, roster, due)
    for path, _ in skipped:
        click.echo(f'not graded, its name has no chapter: {plain(path.relative_to(folder))}')
    if roster and not any(submission.student in roster for submission in submissions):
        click.echo('no submission is of a student in the roster: is it that of this course?')
    if not submissions:
        like = next(iter(sources.values())).name
        raise click.ClickException(f"there is no submission in '{folder}': notebooks like {like}")
    own = (folder, build)
    keep_apart(own, [ROOT, Path(tempfile.gettempdir())])  # before any Python is started to ask
    chapters = [c for c in sources if c in {submission.chapter for submission in submissions}]
    checks = {chapter: checks_in(sources[chapter]) for chapter in chapters}
    known = {n for source in sources.values() for n in checks_in(source)}
    if unknown := [n for n in (chosen or '').split() if n not in known]:
        raise click.ClickException(f'there is no exercise {", ".join(unknown)} with a check')
    numbers = chosen.split() if chosen else [n for chapter in chapters for n in checks[chapter]]
    checks = {c: {n: call for n, call in of.items() if n in numbers} for c, of in checks.items()}
    submissions = [s for s in submissions if checks[s.chapter]]
    pythons, needed = environments(sources, [c for c in chapters if checks[c]])
    keep_apart(own, needed)
    weeks, build = build, build / f'week-{week}' if week else build
    build.mkdir(parents=True, exist_ok=True)
    hidden = {p.resolve() for p in (*own, ROOT, Path.home(), Path(tempfile.gettempdir()))}
    hidden -= {Path('/')}
    shutil.rmtree(build / 'feedback', ignore_errors=True)
    adopt_orphans()
    course, worth = Course(), yaml.safe_load(PLAN.read_text(encoding='utf8'))['points']
    with course:
        isolated = bool(isolation(course, hidden, needed))
    offline = isolated or {name for _, name in socket.if_nameindex()} == {'lo'}
    click.echo(f'network: {"none" if offline else "NOT taken away: this system does not allow it"}')
    if not isolated:
        click.echo('files and processes: NOT hidden: use a container for each student')
    # A teacher's own exercise, which is not in the plan, is worth one point.
    grades = Grades(roster, numbers, lambda number: worth.get(number, [1])[0])
    for path, student in skipped:
        if student:
            row = grades.row_of(student, None)
            row['remarks'].append(f'not graded, its name has no chapter: {plain(path.name)}')
    grades.write(build / 'grades.csv')
    judge = Judge()
    for submission in tqdm(submissions, unit='submission', disable=None):
        course.python, mine = pythons[submission.chapter], checks[submission.chapter]
        submission.student.name = plain(Path(submission.student.name))
        apart = (hidden, needed) if isolated else ()
        verdicts, remarks = grade_one(course, submission, mine, apart, judge)
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
    judge.__exit__()
    if week:
        add_weeks(weeks)
        click.echo(weeks / 'weeks.csv')
    click.echo(build / 'grades.csv')


if __name__ == '__main__':
    main()
