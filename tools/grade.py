"""Grade submissions of the exercises: ``make grade FROM=folder`` leaves ``build/grades/``.

Below the folder each notebook is a submission: its name begins with the chapter's number, and its
folder, or what stands in the name after the chapter's, is the student. Each is run in a process of
its own, with limits of time and memory, without network where the system allows it, and in an empty
folder; checks are ours, with another seed. It is students' code that runs: for strangers' use the
container. ``PRIVATE=folder`` takes sources, with other checks, from there.
"""

import csv
import html
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import click
import yaml
from tqdm import tqdm

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 240  # a whole submission, its restarts included; then what is graded counts
PLAN = ROOT / 'teaching' / 'plan.yml'  # what each exercise is worth
RESTARTS = 4  # a cell that takes its process with it is left out the next time


def without_network():
    """Give the words before a command that take the network away, or none where that fails."""
    if not (shutil.which('unshare') and shutil.which('ip')):
        return []
    words = ['unshare', '-rn', 'sh', '-c', 'ip link set lo up && exec "$@"', 'sh']
    try:
        tried = subprocess.run([*words, 'true'], capture_output=True, timeout=10)
    except subprocess.SubprocessError:
        return []
    return words if tried.returncode == 0 else []


def run_once(words, source, submission, seed, skipped, seconds):
    """Run a submission once; give its lines."""
    reading, writing = os.pipe()
    here = ROOT / 'tools' / 'grade_one.py'
    command = [*words, sys.executable, here, source, submission, str(seed), *map(str, skipped)]
    environment = {k: v for k, v in os.environ.items() if not re.search('KEY|TOKEN|SECRET|PASS', k)}
    environment |= {'PYTHONPATH': str(ROOT), 'HOME': '.', 'IPYTHONDIR': '.'}
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [sys.executable, '-c', 'import os, sys; os.dup2(int(sys.argv[1]), 3); '
             'os.execvp(sys.argv[2], sys.argv[2:])', str(writing), *map(str, command)],
            cwd=folder, env=environment, pass_fds=(writing,), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        os.close(writing)
        timer = threading.Timer(seconds, stop, [process])
        timer.start()
        lines = []
        try:
            with os.fdopen(reading, encoding='utf8', errors='replace') as pipe:
                for line in pipe:
                    lines.append(json.loads(line))
                    if 'end' in lines[-1]:
                        break
        finally:
            timer.cancel()
            stop(process)
            process.wait()
    return lines


def stop(process):
    """End a submission and all that it has started and left in its session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def grade(words, source, submission, seed):
    """Give the verdicts, {number: (right, sentence)}, and remarks on what else there was."""
    verdicts, remarks, skipped = {}, [], []
    for _ in range(RESTARTS):
        lines, last = run_once(words, source, submission, seed, skipped, SECONDS / RESTARTS), None
        for line in lines:
            if 'sentence' in line:
                verdicts[line['number']] = line['right'], line['sentence']
            elif 'error' in line:
                remarks.append(f'cell {line["at"] + 1}: {line["error"]}')
            elif 'cell' in line:
                last = line
        if (lines and 'end' in lines[-1]) or last is None:
            break
        where = last['cell'] if last['cell'] >= 0 else last['number']
        remarks.append(f'cell {last["cell"] + 1} ended its process or ran out of time: left out')
        skipped.append(where)
        if last['number']:
            verdicts[last['number']] = False, 'its answer ended the process or ran out of time'
    if not lines:
        remarks.append('it is no notebook that can be read')
    return verdicts, list(dict.fromkeys(remarks))


def page(student, chapter, numbers, verdicts, remarks):
    """Give one student's page."""
    rows = ''.join(
        f'<tr><td>{n}<td>{"✓" if verdicts.get(n, (0,))[0] else "–"}'
        f'<td>{html.escape(verdicts.get(n, (0, "not reached"))[1])}'
        for n in numbers
    )
    said = ''.join(f'<li>{html.escape(remark)}' for remark in remarks)
    return (
        f'<!doctype html><meta charset="utf8"><title>{html.escape(student)}</title>'
        '<style>body{font:16px sans-serif;max-width:50em;margin:2em auto}td{padding:.3em .8em}'
        f'</style><h1>{html.escape(student)}: chapter {chapter}</h1><table>{rows}</table>'
        f'<ul>{said}</ul>'
    )


def numbers_of(source):
    text = source.read_text(encoding='utf8')
    return list(dict.fromkeys(re.findall(r"\bcheck\('(\d+\.\d+)'", text)))


def submissions_in(folder, sources):
    """Yield the student, the source and the file of each submission."""
    for path in sorted(folder.rglob('*.ipynb')):
        found = re.match(r'(\d\d)-', path.name)
        if found and found[1] in sources and '.ipynb_checkpoints' not in path.parts:
            source = sources[found[1]]
            rest = path.stem.removeprefix(source.stem).strip('-_ .')
            yield rest or path.parent.relative_to(folder).as_posix(), source, path


@click.command()
@click.argument('folder', type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option('--private', type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option('--seed', default=1, show_default=True, help='Draws the arrays of the checks.')
@click.option('--build', type=click.Path(path_type=Path), default=ROOT / 'build' / 'grades')
def main(folder, private, seed, build):
    """Grade the notebooks below FOLDER."""
    sources = {p.name[:2]: p for p in (private or ROOT / 'exercises').glob('[0-9]*.ipynb')}
    found = list(submissions_in(folder, sources))
    if not found:
        raise click.ClickException(
            f"there is no submission in '{folder}': notebooks named like {sources['01'].name}"
        )
    words = without_network()
    click.echo(f'network: {"none" if words else "NOT taken away: this system does not allow it"}')
    worth = yaml.safe_load(PLAN.read_text(encoding='utf8'))['points']
    build.mkdir(parents=True, exist_ok=True)
    with (build / 'grades.csv').open('w', newline='', encoding='utf8') as file:
        table = csv.writer(file)
        table.writerow('student chapter right of points out_of exercises remarks'.split())
        for student, source, path in tqdm(found, unit='submission', disable=None):
            numbers = numbers_of(source)
            verdicts, remarks = grade(words, source, path.resolve(), seed)
            right = [n for n in numbers if verdicts.get(n, (False,))[0]]
            chapter = int(source.name[:2])
            # An exercise of the teacher's own, which is not in the plan, is one point.
            points, out_of = (sum(worth.get(n, [1])[0] for n in of) for of in (right, numbers))
            counts = len(right), len(numbers), points, out_of
            table.writerow([student, chapter, *counts, ' '.join(right), '; '.join(remarks)])
            file.flush()
            name = re.sub(r'[^\w.-]+', '_', student)
            text = page(student, chapter, numbers, verdicts, remarks)
            (build / f'{name}-{chapter:02}.html').write_text(text, encoding='utf8')
    click.echo(build / 'grades.csv')


if __name__ == '__main__':
    main()
