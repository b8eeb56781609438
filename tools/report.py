"""Report how the course runs on this machine, for developers who have no such machine.

``make report`` calls this: doctor, every chapter through nbval, the quick benchmark. After each
step it writes what it has so far to ``build/report.md`` (for readers) and ``build/report.json``
(for programs), so that a killed run leaves its results. Names, paths and addresses of this machine
and its user are removed. The exit status is 1 if something failed, 130 after Ctrl-C.
"""

import contextlib
import datetime
import getpass
import json
import os
import platform
import re
import signal
import sys
import time
from pathlib import Path

import click
import nbformat
from run_notebooks import ChapterError, find_chapters, frameworks, write
from tabulate import tabulate

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = dict(os.environ)  # as it was before our package sets what MXNet reads
sys.path.insert(0, str(ROOT))

from benchmarks.figures import figures  # noqa: E402
from benchmarks.result import Result, machine, versions  # noqa: E402
from mgpu_helpers.processes import Group, ProcessFailed, python_with  # noqa: E402

FOLDER = click.Path(path_type=Path)
PASSED, FAILED, RUNNING, WAITING = 'passed', 'failed', 'stopped', 'not reached'
LIMITS = {'doctor': 600, 'chapter': 7200, 'bench': 3600}  # seconds; ten times the longest seen
COLOURS = re.compile(r'\x1b\[[0-9;]*m')
CELL = re.compile(r'::Cell (\d+) (PASSED|FAILED)')
# The lines around the description of a failure in pytest's output.
BEGIN, END = re.compile(r'^=+ (?:FAILURES|ERRORS) =+$'), re.compile(r'^=+ .* =+$')
LONGEST = 6000  # characters of it that are kept, from its end, which says most
ADDRESSES = '|'.join(
    (
        r'\b[a-z][a-z0-9+.-]*://[^\s\'")>]+',
        r'[\w.+-]+@[\w-][\w.-]*',  # not the device of an array, " @cpu(1)"
        r'\b(?!127\.0\.0\.1\b|0\.0\.0\.0\b)\d{1,3}(?:\.\d{1,3}){3}\b',
        r'\b(?:[\da-f]{2}[:-]){5}[\da-f]{2}\b',  # a network card's
        # IPv6: eight groups, or fewer and a double colon; a slice such as x[1::2] has no letters.
        r'\b(?:[\da-f]{1,4}:){7}[\da-f]{1,4}\b',
        r'\b(?=[\d:]*[a-f])[\da-f]{2,4}:(?=[\da-f:]*:)(?:[\da-f]{0,4}:)+[\da-f]{0,4}(?:%\w+)?',
    )
)
FOLDERS = '|'.join(
    (
        # In quotes, with spaces or without; of a user; any with two parts.
        r'(?<=["\'`])(?:~|[a-z]:\\|/|\\\\)[^"\'`\n]*[/\\](?=[^"\'`/\\\n]*["\'`])',
        r'(?:/home|/Users|[a-z]:\\Users)[/\\][^/\\\n"\']+[/\\](?:[^/\\\s"\']+[/\\])*',
        r'(?<![\w.>])(?:~[\w.-]*)?/(?:[\w.+@~-]+/)+',
        r'(?<![\w.>])~[\w.-]*/',
        r'(?:\b[a-z]:|\\)\\(?:[^\\\s"\']+\\)+',
    )
)
# Variables whose values nobody should read: HF_TOKEN, GH_PAT, AWS_SECRET_ACCESS_KEY, DB_PASSWORD
SECRET = re.compile(r'TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|(?:^|_)(?:PAT|KEY|PWD|PASS)(?:_|$)')


def names():
    """Map, one after the other: secrets, our folders, and names of this machine and its user."""
    values = (value for key, value in ENVIRONMENT.items() if SECRET.search(key.upper()))
    secrets = dict.fromkeys((value for value in values if len(value) > 5), '<secret>')
    home, host = os.path.expanduser('~'), platform.node()
    folders = {str(ROOT): 'COURSE', sys.prefix: 'PYTHON'}
    folders |= {os.path.realpath(home): 'HOME', home: 'HOME'}
    people = {host: '<host>', host.split('.')[0]: '<host>'}
    with contextlib.suppress(Exception):
        people[getpass.getuser()] = '<user>'
    return secrets, folders, people


def replaced(text, words):
    """Replace whole words, the longest first; a machine's with its domain."""
    for name, word in sorted(words.items(), key=lambda item: -len(item[0])):
        more = r'(?:\.[\w.-]*\w)?' if word == '<host>' else ''
        if len(name) > 2 and name != 'root':
            text = re.sub(rf'(?<!\w){re.escape(name)}{more}(?!\w)', word, text)
    return text


def scrub(value):
    """Replace names, paths and addresses in a text, a list or a dictionary."""
    if isinstance(value, dict):
        return {key: scrub(each) for key, each in value.items()}
    if isinstance(value, list):
        return [scrub(each) for each in value]
    if not isinstance(value, str):
        return value
    secrets, folders, people = names()
    value = replaced(COLOURS.sub('', value), secrets)
    value = replaced(re.sub(ADDRESSES, '<address>', value, flags=re.IGNORECASE), folders)
    return replaced(re.sub(FOLDERS, '.../', value, flags=re.IGNORECASE), people)


class Report:
    """The results so far; ``save`` writes them to two files."""

    def __init__(self, folder, chapters):
        self.folder, self.began = folder, time.monotonic()
        self.results = {
            'date': datetime.date.today().isoformat(),
            'finished': False,
            'seconds': 0,
            'machine': machine(),
            'versions': versions(),
            'doctor': [],
            'chapters': [
                {'chapter': path.stem, 'verdict': WAITING, 'seconds': 0, 'cells': 0, 'of': 0}
                for path in chapters
            ],
            'bench': {'verdict': WAITING, 'seconds': 0, 'ratios': []},
        }

    def save(self):
        self.results['seconds'] = round(time.monotonic() - self.began)
        results = scrub(self.results)
        text = json.dumps(results, indent=1, ensure_ascii=False) + '\n'
        write(self.folder / 'report.json', text)
        write(self.folder / 'report.md', markdown(results))


def markdown(results):
    stopped = '' if results['finished'] else ' It was stopped before its end.'
    parts = [f'# The course on this machine\n\n{results["date"]}, {results["seconds"]} s.{stopped}']
    about = {**results['machine'], **results['versions']}
    parts.append('\n'.join(f'* {name}: {value}' for name, value in about.items()))
    rows = [
        [row['chapter'], row['verdict'], f'{row["cells"]} of {row["of"]}', row['seconds']]
        for row in results['chapters']
    ]
    heads = ['chapter', 'verdict', 'cells passed', 'seconds']
    parts += ['## Chapters', tabulate(rows, heads, 'github')]
    for row in results['chapters']:
        if row.get('failure'):
            parts += [f'### {row["chapter"]}', f'````\n{row["failure"]}\n````']
    parts.append('## Speed')
    bench = results['bench']
    rows = [[row['what'], row['over'], row['median'], row['range']] for row in bench['ratios']]
    parts.append(f'A quick look, {bench["verdict"]}, {bench["seconds"]} s.')
    parts.append(tabulate(rows, ['what', 'over', 'ratio', 'range'], 'github') if rows else '')
    if 'failure' in bench:
        parts.append(f'````\n{bench["failure"]}\n````')
    rows = [[row['name'], row['verdict'], row['found']] for row in results['doctor']]
    parts += ['## Doctor', tabulate(rows, ['check', 'verdict', 'found'], 'github')]
    return '\n\n'.join(filter(None, parts)) + '\n'


def run(name, command, limit, on_line=lambda line: None):
    """Run a command to its end; return its lines, and why it failed ('' if it did not)."""
    lines = []

    def note(_, line):
        lines.append(line)
        on_line(line)

    try:
        with Group() as group:
            group.start(name, command)
            group.wait(note, timeout=limit)
    except (ProcessFailed, TimeoutError) as error:
        return lines, str(error)
    return lines, ''


def examine(report):
    """Run doctor."""
    command = [sys.executable, '-W', 'ignore', '-m', 'mgpu_helpers', 'doctor', '--json']
    lines, why = run('doctor', command, LIMITS['doctor'])
    text = '\n'.join(lines)
    try:
        answer = json.loads(text[text.index('{') :])
    except ValueError:
        report.results['doctor'] = [{'name': 'doctor', 'verdict': FAILED, 'found': why or text}]
        return
    report.results['versions'] |= {
        name: version
        for name, version in answer['versions'].items()
        if name not in ('python', 'system')
    }
    report.results['doctor'] = [
        {key: row[key] for key in ('name', 'verdict', 'found')} for row in answer['checks']
    ]


def check(report, row, path, timeout):
    """Run one chapter through nbval, up to its first failing cell."""
    nb = nbformat.read(path, as_version=4)
    row['of'] = sum(cell.cell_type == 'code' and bool(cell.source) for cell in nb.cells)
    missing = [name for name in frameworks(nb) if not python_with(name)]
    if missing:
        row['verdict'] = f'left out: no {missing[0]}'
        return
    row['verdict'], began, saved = RUNNING, time.monotonic(), 0.0
    command = [sys.executable, '-m', 'pytest', '-v', '-x', '--color=no', '-p', 'no:cacheprovider']
    command += ['--nbval', '--nbval-sanitize-with', str(ROOT / 'tests' / 'sanitize.cfg')]
    command += ['--nbval-cell-timeout', str(timeout), '--rootdir', str(ROOT), str(path)]

    def follow(line):
        nonlocal saved
        cell = CELL.search(line)
        if not cell:
            return
        row['cells'] += cell[2] == 'PASSED'
        row['seconds'] = round(time.monotonic() - began)
        if sys.stdout.isatty():
            click.echo(f'\r{row["chapter"]}  {row["cells"]} of {row["of"]} cells', nl=False)
        if time.monotonic() - saved > 1:
            report.save()
            saved = time.monotonic()

    lines, why = run(path.stem, command, LIMITS['chapter'], follow)
    row['seconds'] = round(time.monotonic() - began)
    row['verdict'] = FAILED if why else PASSED
    if why:
        lines = [COLOURS.sub('', line) for line in lines]
        begin = next((i for i, line in enumerate(lines) if BEGIN.match(line)), None)
        if begin is not None:
            end = next((i for i in range(begin + 1, len(lines)) if END.match(lines[i])), None)
            why = '\n'.join(lines[begin + 1 : end])
        row['failure'] = why[-LONGEST:]


def measure(report):
    """Run the quick benchmark."""
    bench, folder, began = report.results['bench'], report.folder / 'bench', time.monotonic()
    bench['verdict'] = RUNNING
    report.save()
    for old in folder.glob('*.json'):
        old.unlink()
    command = [sys.executable, '-m', 'benchmarks', '--quick', '--out', str(folder)]
    lines, why = run('bench', command, LIMITS['bench'])
    bench['seconds'] = round(time.monotonic() - began)
    bench['verdict'] = FAILED if why else PASSED
    if why:
        bench['failure'] = '\n'.join(lines)[-LONGEST:] or why
    for path in folder.glob('*.json'):
        bench['ratios'] = [
            {'what': f.what, 'over': f.over, 'median': round(f.median, 2), 'range': f.range}
            for f in figures(Result.load(path).measured)
        ]


@click.command(help=__doc__.split('\n')[0])
@click.option('--chapter', metavar='N', help='Which: 1, or 1,3 (default: all there are).')
@click.option('--timeout', default=900, show_default=True, help='Seconds one cell may take.')
@click.option('--notebooks', type=FOLDER, default=ROOT / 'notebooks', metavar='DIR')
@click.option('--out', type=FOLDER, default=ROOT / 'build', metavar='DIR')
def main(chapter, timeout, notebooks, out):
    os.environ.clear()
    os.environ.update(ENVIRONMENT)
    os.chdir(ROOT)
    try:
        chapters = find_chapters(notebooks, chapter)
    except ChapterError as error:
        click.echo(f'report: {error}', err=True)
        sys.exit(2)
    out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    report = Report(out, chapters)
    report.save()
    status = 1
    try:
        examine(report)
        report.save()
        for row, path in zip(report.results['chapters'], chapters):
            check(report, row, path, timeout)
            report.save()
            click.echo(f'\r{row["chapter"]}  {row["verdict"]} in {row["seconds"]} s')
        measure(report)
        report.results['finished'] = True
        rows = *report.results['chapters'], report.results['bench']
        status = int(FAILED in [row['verdict'] for row in rows])
    except KeyboardInterrupt:
        status = 130
    finally:
        report.save()
        files = ' and '.join(click.format_filename(out / f'report.{e}') for e in ('md', 'json'))
        click.echo(f'report: {files}, to attach to an issue')
    sys.exit(status)


if __name__ == '__main__':
    main()
