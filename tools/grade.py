"""Grade submissions of the exercises: ``make grade FROM=folder`` leaves ``build/grades/``.

Each notebook in the folder or below it is a submission: its name begins with the chapter's number,
and the student is the rest of its name, or else its folder. Each runs in a process of its own with
limits on time and memory, in an empty folder with a copy of the package, and, where the system
allows it, with no network and no other processes in sight. The checks are ours, with another seed.
Students' code is executed: for strangers' code use the container. ``PRIVATE=folder`` takes the
exercises' sources from there.
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
SECONDS = 240  # for a submission, restarts included; after that, what has been graded counts
LARGEST = 100 << 20  # bytes of a notebook
PLAN = ROOT / 'exercises' / 'teaching' / 'plan.yml'  # what each exercise is worth
CELL_SECONDS = 20  # for one cell or answer; the slowest solution takes about two
NEVER = False, 'not reached'
HEAD = """<!doctype html><meta charset="utf8"><title>Exercises</title>
<style>body{font:16px sans-serif;max-width:50em;margin:2em auto}td{padding:.3em .8em}</style>"""
# Environment variables hidden from students' code: by name, or an address with a password in it.
SECRET = re.compile(r'^[^=]*(KEY|TOKEN|SECRET|PASS)|://[^/]*@')
CHECK = re.compile(r"^check\('(\w+\.\d+)'.*", re.MULTILINE)


def package(folder):
    """Read our packages, which are copied for each submission and must not be changed by it."""
    files = [*folder.glob('mgpu_helpers/**/*.py*'), *folder.glob('exercises/mgpu_exercises/*.py')]
    return {str(p.relative_to(folder)): p.read_bytes() for p in files if p.suffix != '.pyc'}


def sandbox():
    """Return a command prefix that hides the network and other processes; [] if not available."""
    prefix = ['unshare', '-rnpf', '--kill-child', '--mount-proc']
    prefix += ['sh', '-c', 'ip link set lo up && exec "$@"', 'sh']
    with suppress(OSError, subprocess.SubprocessError):
        if subprocess.run([*prefix, 'true'], capture_output=True, timeout=10).returncode == 0:
            return prefix
    return []


def cells_of(path):
    """List a notebook's code cells, each with its calls of ``check`` by exercise number."""
    if not path.is_file() or path.stat().st_size > LARGEST:
        raise ValueError(f'{path} is no file, or larger than {LARGEST} bytes')
    cells = nbformat.reads(path.read_text(encoding='utf8'), as_version=4).cells
    code = [cell.source for cell in cells if cell.cell_type == 'code']
    return [(source, {m[1]: m[0] for m in CHECK.finditer(source)}) for source in code]


def run(prefix, job, course, deadline):
    """Run a submission once; return the messages about it, and how it ended."""
    command = [*prefix, sys.executable, '-P', ROOT / 'tools' / 'grade_one.py']
    environment = {k: v for k, v in os.environ.items() if not SECRET.search(f'{k}={v}')}
    environment |= {'HOME': '.', 'IPYTHONDIR': '.'}
    token, messages, end, rest = os.urandom(16).hex().encode(), [], '', b''
    with TemporaryDirectory() as top, TemporaryFile('w+') as job_file, ExitStack() as at_end:
        for name, content in course.items():
            Path(top, name).parent.mkdir(parents=True, exist_ok=True)
            Path(top, name).write_bytes(content)
        (folder := Path(top, 'empty')).mkdir()
        json.dump(job | {'token': token.decode()}, job_file)
        job_file.seek(0)
        at_end.callback((leash := Leash()).close)  # ends the submission, even if we are killed
        process = subprocess.Popen(
            leash.command(command), cwd=folder,
            stdin=job_file, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=environment | {'PYTHONPATH': f'{top}:{top}/exercises'},
            start_new_session=True, pass_fds=leash.fds,
        )  # fmt: skip
        at_end.callback(stop, process, top)
        while not end:
            seconds = min(CELL_SECONDS if messages else SECONDS, deadline - time.monotonic())
            late = not select.select([process.stdout], [], [], max(0, seconds))[0]
            if late or not (read := os.read(process.stdout.fileno(), 1 << 16)):
                end = 'ran out of time' if late else 'ended the process'
                break
            *lines, rest = (rest + read).split(b'\n')
            for sender, _, line in (line.partition(b' ') for line in lines):
                forged = {'error': 'wrote to the results'}
                messages.append(json.loads(line) if sender == token else forged)
                end = end or messages[-1].get('end')
        return messages, end if package(Path(top)) == course else 'changed the course'


def stop(process, top):
    """Kill a submission and all processes that it started: by its session, or by PYTHONPATH."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for other in psutil.process_iter():
        with suppress(psutil.Error):
            if other.environ().get('PYTHONPATH', '').startswith(top):
                other.kill()
    process.stdout.close()  # not read to its end: a process that is left may hold it open
    process.wait()


def grade(prefix, checks, path, seed, course):
    """Return the verdicts, {number: (right, sentence)}, and remarks on anything else."""
    verdicts, remarks, skipped, deadline = {}, [], [], time.monotonic() + SECONDS
    try:
        cells = cells_of(path)
    except Exception as error:  # the file can hold anything
        return {}, [f'it is no notebook that can be read: {type(error).__name__}']
    while time.monotonic() < deadline:
        job = {'checks': checks, 'cells': cells, 'seed': seed, 'skipped': skipped}
        at, (messages, end) = {'cell': -1, 'number': None}, run(prefix, job, course, deadline)
        for message in messages:
            if 'sentence' in message:
                verdicts[message['number']] = message['right'], message['sentence']
            elif 'error' in message:
                remarks.append(f'cell {at["cell"] + 1}: {message["error"]}')
            else:
                at = message
        if end == 'changed the course':
            return {}, [*remarks, 'it has changed files of the course: nothing counts']
        if end == 'all done':
            break
        skipped.append(at['number'] or at['cell'])  # left out in the next run
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
    prefix, course = sandbox(), package(ROOT)
    none = prefix or {name for _, name in socket.if_nameindex()} == {'lo'}
    click.echo(f'network: {"none" if none else "NOT taken away: this system does not allow it"}')
    worth = yaml.safe_load(PLAN.read_text(encoding='utf8'))['points']
    build.mkdir(parents=True, exist_ok=True)
    with (build / 'grades.csv').open('w', newline='', encoding='utf8') as file:
        table = csv.writer(file)
        table.writerow('student chapter right of points out_of exercises remarks'.split())
        for student, chapter, path in tqdm(submissions, unit='submission', disable=None):
            checks = dict(pair for _, of in cells_of(sources[chapter]) for pair in of.items())
            verdicts, remarks = grade(prefix, checks, path, seed, course)
            right = [n for n in checks if verdicts.get(n, NEVER)[0]]
            # A teacher's own exercise, which is not in the plan, is worth one point.
            points, out_of = (sum(worth.get(n, [1])[0] for n in of) for of in (right, checks))
            row = [student, chapter, len(right), len(checks), points, out_of]
            row += [' '.join(right), '; '.join(remarks)]
            # A spreadsheet would take text that begins like this for a formula.
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
