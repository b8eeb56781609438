"""Grade submissions of the exercises: ``make grade FROM=folder`` leaves ``build/grades/``.

Below the folder each notebook is a submission: its name begins with the chapter's number, and its
folder, or what stands in the name after the chapter's, is the student. Each is run in a process of
its own, with limits of time and memory, alone and without network where the system allows it, in an
empty folder, with a copy of the package; checks are ours, with another seed. It is students' code
that runs: for strangers' use the container. ``PRIVATE=folder`` takes sources from there.
"""

import csv
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

import click
import nbformat
import psutil
import yaml
from tabulate import tabulate
from tqdm import tqdm

from mgpu_helpers.processes.guard import Leash
from student import set_of

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 240  # a whole submission, its restarts included; then what is graded counts
LARGEST = 100 << 20  # bytes of a notebook
PLAN = ROOT / 'exercises' / 'teaching' / 'plan.yml'  # what each exercise is worth
CELL_SECONDS = 20  # one cell, or answer; the slowest solution takes about two
NEVER = False, 'not reached'
HEAD = """<!doctype html><meta charset="utf8"><title>Exercises</title>
<style>body{font:16px sans-serif;max-width:50em;margin:2em auto}td{padding:.3em .8em}</style>"""
# Variables that students' code shall not read: by name, or an address with a password in it.
SECRET = re.compile(r'^[^=]*(KEY|TOKEN|SECRET|PASS)|://[^/]*@')
CHECK = re.compile(r"^check\('(\w+\.\d+)'.*", re.MULTILINE)


def package(folder):
    """Read the packages in a folder: what is copied, and what no submission may change."""
    files = [*folder.glob('mgpu_helpers/**/*.py*'), *folder.glob('exercises/mgpu_exercises/*.py')]
    return {str(p.relative_to(folder)): p.read_bytes() for p in files if p.suffix != '.pyc'}


def alone():
    """Give the words before a command that hide network and processes, or none where that fails."""
    words = ['unshare', '-rnpf', '--kill-child', '--mount-proc']
    words += ['sh', '-c', 'ip link set lo up && exec "$@"', 'sh']
    with suppress(OSError, subprocess.SubprocessError):
        if subprocess.run([*words, 'true'], capture_output=True, timeout=10).returncode == 0:
            return words
    return []


def cells_of(path):
    """Give a notebook's cells of code, and the calls of ``check`` in each by number."""
    if not path.is_file() or path.stat().st_size > LARGEST:
        raise ValueError(f'{path} is no file, or larger than {LARGEST} bytes')
    cells = nbformat.reads(path.read_text(encoding='utf8'), as_version=4).cells
    code = [cell.source for cell in cells if cell.cell_type == 'code']
    return [(source, {m[1]: m[0] for m in CHECK.finditer(source)}) for source in code]


def run(words, job, course, deadline):
    """Run a submission once; give what was said of it, and how it ended."""
    command = [*words, sys.executable, '-P', ROOT / 'tools' / 'grade_one.py']
    environment = {k: v for k, v in os.environ.items() if not SECRET.search(f'{k}={v}')}
    environment |= {'HOME': '.', 'IPYTHONDIR': '.'}
    token, said, end, rest = os.urandom(16).hex().encode(), [], '', b''
    with TemporaryDirectory() as top, TemporaryFile('w+') as given, ExitStack() as at_end:
        for name, content in course.items():
            Path(top, name).parent.mkdir(parents=True, exist_ok=True)
            Path(top, name).write_bytes(content)
        (folder := Path(top, 'empty')).mkdir()
        json.dump(job | {'token': token.decode()}, given)
        given.seek(0)
        at_end.callback((leash := Leash()).close)  # a submission ends when we do, however
        process = subprocess.Popen(
            leash.command(command), cwd=folder,
            stdin=given, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=environment | {'PYTHONPATH': f'{top}:{top}/exercises'},
            start_new_session=True, pass_fds=leash.fds,
        )  # fmt: skip
        at_end.callback(stop, process, top)
        while not end:
            left = min(CELL_SECONDS if said else SECONDS, max(0, deadline - time.monotonic()))
            late = not select.select([process.stdout], [], [], left)[0]
            if late or not (read := os.read(process.stdout.fileno(), 1 << 16)):
                end = 'ran out of time' if late else 'ended the process'
                break
            *lines, rest = (rest + read).split(b'\n')
            for by, _, line in (line.partition(b' ') for line in lines):
                said.append(json.loads(line) if by == token else {'error': 'wrote to the results'})
                end = end or said[-1].get('end')
        return said, end if package(Path(top)) == course else 'changed the course'


def stop(process, top):
    """End a submission, and all that it has started: in its session, or with its settings."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for other in psutil.process_iter():
        with suppress(psutil.Error):
            if other.environ().get('PYTHONPATH', '').startswith(top):
                other.kill()
    process.stdout.close()  # what is left may hold the other side: nobody waits for its end
    process.wait()


def grade(words, checks, path, seed, course):
    """Give the verdicts, {number: (right, sentence)}, and remarks on what else there was."""
    verdicts, remarks, skipped, deadline = {}, [], [], time.monotonic() + SECONDS
    try:
        cells = cells_of(path)
    except Exception as error:  # whatever a file can be
        return {}, [f'it is no notebook that can be read: {type(error).__name__}']
    while time.monotonic() < deadline:
        job = {'checks': checks, 'cells': cells, 'seed': seed, 'skipped': skipped}
        at, (said, end) = {'cell': -1, 'number': None}, run(words, job, course, deadline)
        for line in said:
            if 'sentence' in line:
                verdicts[line['number']] = line['right'], line['sentence']
            elif 'error' in line:
                remarks.append(f'cell {at["cell"] + 1}: {line["error"]}')
            else:
                at = line
        if end == 'changed the course':
            return {}, [*remarks, 'it has changed files of the course: nothing counts']
        if end == 'all done':
            break
        skipped.append(at['number'] or at['cell'])  # left out the next time
        if at['number']:
            verdicts[at['number']] = False, f'its answer {end}'
        else:
            remarks.append(f'cell {at["cell"] + 1} {end}: left out')
    return verdicts, list(dict.fromkeys(remarks))


def submissions_in(folder, sources):
    """Yield the student, the chapter and the file of each submission."""
    for path in sorted(folder.rglob('*.ipynb')):
        chapter = set_of(path)
        if chapter in sources and '.ipynb_checkpoints' not in path.parts:
            rest = path.stem.removeprefix(sources[chapter].stem).strip('-_ .')
            yield rest or path.parent.relative_to(folder).as_posix(), chapter, path


@click.command()
@click.argument('folder', type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option('--private', type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option('--seed', default=1, show_default=True, help='Draws the arrays of the checks.')
@click.option('--build', type=click.Path(path_type=Path), default=ROOT / 'build' / 'grades')
def main(folder, private, seed, build):
    """Grade the notebooks below FOLDER."""
    sources = {set_of(p): p for p in (private or ROOT / 'exercises').glob('*.ipynb')}
    found = list(submissions_in(folder, sources))
    if not found:
        named = min(sources.values()).name
        raise click.ClickException(f"there is no submission in '{folder}': notebooks like {named}")
    words, course = alone(), package(ROOT)
    none = words or {name for _, name in socket.if_nameindex()} == {'lo'}
    click.echo(f'network: {"none" if none else "NOT taken away: this system does not allow it"}')
    worth = yaml.safe_load(PLAN.read_text(encoding='utf8'))['points']
    build.mkdir(parents=True, exist_ok=True)
    with (build / 'grades.csv').open('w', newline='', encoding='utf8') as file:
        table = csv.writer(file)
        table.writerow('student chapter right of points out_of exercises remarks'.split())
        for student, chapter, path in tqdm(found, unit='submission', disable=None):
            checks = dict(pair for _, of in cells_of(sources[chapter]) for pair in of.items())
            verdicts, remarks = grade(words, checks, path, seed, course)
            right = [n for n in checks if verdicts.get(n, NEVER)[0]]
            # An exercise of the teacher's own, which is not in the plan, is one point.
            points, out_of = (sum(worth.get(n, [1])[0] for n in of) for of in (right, checks))
            row = [student, chapter, len(right), len(checks), points, out_of]
            row += [' '.join(right), '; '.join(remarks)]
            # What begins so is a formula to a spreadsheet.
            table.writerow([f"'{x}" if str(x).startswith(tuple('=+-@')) else x for x in row])
            file.flush()
            lines = [(n, '✓' if n in right else '–', verdicts.get(n, NEVER)[1]) for n in checks]
            lines += [('', '', remark) for remark in remarks]
            name = re.sub(r'[^\w.-]+', '_', student)[-100:]
            text = HEAD + tabulate(lines, [student, f'chapter {row[1]}', ''], 'html')
            (build / f'{name}-{sources[chapter].stem.split("-")[0]}.html').write_text(
                text, encoding='utf8'
            )
    click.echo(build / 'grades.csv')


if __name__ == '__main__':
    main()
