"""The result of a benchmark run, stored as one JSON file."""

import contextlib
import datetime
import json
import os
import pathlib
import platform
import re
import subprocess
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version

from mgpu_helpers.devices.cores import usable_cores
from mgpu_helpers.processes import python_with
from mgpu_helpers.runtime import installed_builds

ROOT = pathlib.Path(__file__).parent.parent
FOLDER = ROOT / 'benchmarks' / 'results'
FULL, QUICK, PART = 'full', 'quick', 'part'


def cpu_model():
    with contextlib.suppress(OSError):
        lines = pathlib.Path('/proc/cpuinfo').read_text(encoding='utf8').splitlines()
        for line in lines:
            if line.startswith('model name'):
                return line.split(':', 1)[1].strip()
    return platform.processor() or platform.machine()


def machine():
    """Describe this machine, without its name or any path."""
    import psutil

    return {
        'cpu': cpu_model(),
        'cores': usable_cores(),
        'memory_gb': round(psutil.virtual_memory().total / 1e9, 1),
        'system': f'{platform.system()} {platform.release().split("-")[0]}',  # not who built it
        'load_before': round(os.getloadavg()[0], 2),
    }


def versions():
    """Return the versions of what is measured and installed, and the commit."""
    numbers = {'Python': platform.python_version()}
    for name in (*installed_builds(), 'numpy', 'd2l'):
        with contextlib.suppress(PackageNotFoundError):
            numbers[name] = version(name)
    if python := python_with('torch'):  # possibly in another environment than this one
        code = 'import importlib.metadata as m; print(m.version("torch"))'
        done = subprocess.run([python, '-c', code], capture_output=True, text=True, check=True)
        numbers['torch'] = done.stdout.strip()
    git = ['git', 'describe', '--always', '--dirty', '--exclude=*', '--abbrev=10']
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        done = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=True)
        numbers['commit'] = done.stdout.strip()
    return numbers


@dataclass
class Result:
    """Everything that one run of the benchmarks measured.

    ``kind`` is 'full' (the only one that is published), 'quick' or 'part' (``--only``);
    ``measured`` is what ``measuring.measure`` returns; ``failed`` names cases of which a run
    failed, ``absent`` modules that are not installed.
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
        """The name of its files, without suffix: one per machine and day."""
        cpu = re.sub(r'\((r|tm)\)|\b(cpu|processor)\b|@.*', ' ', self.machine['cpu'].lower())
        slug = re.sub('[^a-z0-9]+', '-', cpu).strip('-')
        parts = [self.date[:10], f'{self.machine["cores"]}cores', slug]
        return '-'.join(parts + ([] if self.kind == FULL else [self.kind]))

    @property
    def publishable(self):
        """Whether everything was measured, in all rounds."""
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
        return cls(**json.loads(pathlib.Path(path).read_text(encoding='utf8')))


def newest(folder=FOLDER):
    """Return the newest publishable result, or None."""
    results = [Result.load(path) for path in pathlib.Path(folder).glob('*.json')]
    return max((r for r in results if r.publishable), key=lambda r: r.date, default=None)
