"""Store the result of a run as one JSON file, show it as a table, and put it into the book."""

import contextlib
import datetime
import json
import pathlib
import platform
import re
import statistics
import subprocess
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version

import psutil
from tabulate import tabulate

from mgpu_helpers.devices.driver import usable_cores
from mgpu_helpers.processes import python_with
from mgpu_helpers.runtime import installed_builds

from .cases import ROWS, rate

ROOT = pathlib.Path(__file__).parent.parent
FOLDER, PAGE = ROOT / 'benchmarks/results', ROOT / 'book/measured.md'
FULL, QUICK, PART = 'full', 'quick', 'part'
BEGIN = '<!-- speed: written by python -m benchmarks --book -->'
END = '<!-- speed: end -->'


def machine():
    """Describe this machine, without its hostname or any path."""
    cpu = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        about = pathlib.Path('/proc/cpuinfo').read_text(encoding='utf8')
        cpu = dict(re.findall(r'(?m)^(model name)\s*: (.*)', about)).get('model name', cpu)
    return {
        'cpu': cpu,
        'cores': usable_cores(),
        'memory_gb': round(psutil.virtual_memory().total / 1e9, 1),
        'system': f'{platform.system()} {platform.release().split("-")[0]}',  # not the builder
        'load_before': round(psutil.getloadavg()[0], 2),
    }


def versions():
    """Return the versions of the frameworks that are installed, and the commit."""
    numbers = {'Python': platform.python_version()}
    for name in (*installed_builds(), 'numpy', 'd2l'):
        with contextlib.suppress(PackageNotFoundError):
            numbers[name] = version(name)
    commands = {'commit': 'git describe --always --dirty --exclude=* --abbrev=10'.split()}
    if python := python_with('torch'):  # possibly in a different environment
        code = 'import importlib.metadata as m; print(m.version("torch"))'
        commands = {'torch': [python, '-c', code]} | commands
    for name, command in commands.items():
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            said = subprocess.check_output(command, cwd=ROOT, text=True, stderr=subprocess.DEVNULL)
            numbers[name] = said.strip()
    return numbers


@dataclass
class Result:
    """All measurements of one run of the benchmarks.

    ``kind`` is 'full' (the only kind that is published), 'quick' or 'part' (``--only``);
    ``measured`` is what ``measuring.measure`` returns; ``failed`` names the cases that failed,
    ``absent`` the modules that are not installed.
    """

    kind: str
    rounds: int
    examples: int
    measured: dict
    failed: list = field(default_factory=list)
    absent: list = field(default_factory=list)
    seconds: float = 0
    date: str = field(default_factory=lambda: datetime.datetime.now().isoformat(timespec='minutes'))
    machine: dict = field(default_factory=machine)
    versions: dict = field(default_factory=versions)

    @property
    def name(self):
        """Return the file's name without its suffix: one per machine and day."""
        cpu = re.sub(r'\((r|tm)\)|\b(cpu|processor)\b|@.*', ' ', self.machine['cpu'].lower())
        slug = re.sub('[^a-z0-9]+', '-', cpu).strip('-')
        parts = [self.date[:10], f'{self.machine["cores"]}cores', slug]
        return '-'.join(parts + ([] if self.kind == FULL else [self.kind]))

    @property
    def publishable(self):
        """Return whether this was a full run in which every case was measured in all rounds."""
        return self.kind == FULL and not self.failed and not self.absent

    def save(self, folder):
        """Write the JSON file; return its path."""
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f'{self.name}.json'
        path.write_text(json.dumps(asdict(self), indent=1) + '\n', encoding='utf8')
        return path

    @classmethod
    def load(cls, path):
        """Read what ``save`` wrote."""
        return cls(**json.loads(pathlib.Path(path).read_text(encoding='utf8')))

    def ratios(self):
        """Return title and ratio per round for each row whose cases were all measured."""
        rows = []
        for row in ROWS:
            if all(self.measured.get(name) for name in (row.of, *row.over)):
                best = max(row.over, key=lambda name: statistics.median(self.scores(name, row)))
                pairs = zip(self.scores(row.of, row), self.scores(best, row))
                rows.append((row.title, [ours / theirs for ours, theirs in pairs]))
        return rows

    def scores(self, name, row):
        """Return a case's score in each round."""
        return [row.score(processes) for processes in self.measured[name]]

    def table(self):
        """Format the ratios as a table, for the terminal and for the book."""
        rows = [[title, *median_and_range(values, '.2f')] for title, values in self.ratios()]
        align = {'colalign': ('left', 'right', 'right'), 'disable_numparse': True}
        return tabulate(rows, ['what', 'ratio', 'range'], 'pipe', **align)

    def runs(self):
        """Format each run's examples per second, or the seconds it took."""
        rows = []
        for name, runs in self.measured.items():
            if 'examples_per_second' in runs[0][0]:
                rows.append([name, *median_and_range(map(rate, runs), ',.0f'), 'examples/s'])
            else:
                values = [processes[0]['waited'] for processes in runs]
                rows.append([name, *median_and_range(values, '.3g'), 's'])
        return tabulate(rows, ['run', 'median', 'range', ''], disable_numparse=True)

    def about(self):
        """Describe the measurements: versions, machine and date."""
        numbers = ', '.join(f'{name} {number}' for name, number in self.versions.items())
        return (
            f'Measured with `make bench` on {self.machine["cores"]} cores ({self.machine["cpu"]}, '
            f'{self.machine["memory_gb"]} GB, load before {self.machine["load_before"]}) on '
            f'{self.date[:10]}, with {numbers}: ratios between runs that took turns, the median '
            f'of {self.rounds} rounds and their range. Above 1, the first is better. Unless '
            'stated otherwise: LeNet, batches of 256, stand-in devices.'
        )


def median_and_range(values, form):
    """Format the median of repeated values, and their range."""
    values = sorted(values)
    median, *ends = (f'{v:{form}}' for v in (statistics.median(values), values[0], values[-1]))
    return [median, ' to '.join(ends)]


def newest(folder=FOLDER):
    """Return the newest publishable result, or None."""
    results = [Result.load(path) for path in pathlib.Path(folder).glob('*.json')]
    return max((r for r in results if r.publishable), key=lambda r: r.date, default=None)


def write_page(result, path=PAGE):
    """Write a result between the two markers in the book's page."""
    page = pathlib.Path(path).read_text(encoding='utf8')
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    block = f'{BEGIN}\n{result.about()}\n\n{result.table()}\n{END}'
    pathlib.Path(path).write_text(f'{before}{block}{after}', encoding='utf8')
