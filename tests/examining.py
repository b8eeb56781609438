"""What the tests of ``doctor`` have in common: they run it where something is wrong."""

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from mgpu_helpers import runtime
from mgpu_helpers.doctor.asking import Questions
from mgpu_helpers.doctor.report import Row

ROOT = Path(__file__).parent.parent
OURS = ('click', 'tabulate', 'lazy_loader')  # all that the command itself needs
needs_mxnet = pytest.mark.skipif(
    not runtime.installed_builds(),
    reason='MXNet is not installed here; make setup TORCH=1 has both',
)


def environment(path=(), **more):
    """Our variables without the settings that this process inherited."""
    ours = runtime.SETTINGS | runtime.MALLOC
    clean = {name: value for name, value in os.environ.items() if name not in ours}
    return clean | {'PYTHONPATH': os.pathsep.join(map(str, [*path, ROOT]))} | more


def examine(*only, python=sys.executable, path=(), before=(), cwd=ROOT, **more):
    """Run the command; give its rows by name, after a look at what holds for every run."""
    words = [word for each in only for word in ('--only', each)]
    done = subprocess.run(
        [*before, str(python), '-m', 'mgpu_helpers', 'doctor', '--json', *words],
        capture_output=True, text=True, timeout=300, cwd=cwd, env=environment(path, **more),
    )  # fmt: skip
    assert 'Traceback' not in done.stderr, done.stderr
    report = json.loads(done.stdout)
    assert set(report) == {'ok', 'seconds', 'versions', 'checks'}
    for row in report['checks']:
        assert list(row) == ['name', 'verdict', 'found', 'fix']
        assert all(isinstance(value, str) for value in row.values())
    verdicts = [row['verdict'] for row in report['checks']]
    assert set(verdicts) <= {'ok', 'warning', 'failed', 'not needed'}
    assert report['ok'] == ('failed' not in verdicts) == (done.returncode == 0)
    return {row['name']: Row(**row) for row in report['checks']}


def rows(look, **found):
    """The rows of one check, by name; ``found`` is what some steps shall have found."""
    with Questions() as ask:
        answer = look(lambda step: found[step] if step in found else ask(step))
        return {row.name: row for row in answer}


def check(row, verdict, *said, fix=None):
    """The verdict of a row, words that it must say, and its command."""
    assert row.verdict == verdict, row
    for words in said:
        assert words in row.found, row
    if fix is not None:
        assert row.fix == fix


def bare(folder, *names, python=sys.executable):
    """Make an environment that sees only some of the packages that are installed here."""
    subprocess.run([python, '-m', 'venv', '--without-pip', folder / 'bare'], check=True)
    site = next(folder.glob('bare/lib/*/site-packages'))
    for name in (*OURS, *names):
        found = metadata.distribution(name)
        for entry in {Path(file).parts[0] for file in found.files} - {'..', '__pycache__'}:
            if not (site / entry).exists():
                (site / entry).symlink_to(found.locate_file(entry))
    return folder / 'bare' / 'bin' / 'python'


def distribution(folder, name, version='1.9.1'):
    """The file by which Python knows that a distribution is installed."""
    info = folder / f'{name.replace("-", "_")}-{version}.dist-info'
    info.mkdir(parents=True)
    (info / 'METADATA').write_text(f'Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n')
    return folder
