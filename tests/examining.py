"""What tests of the doctor and of what it looks at share: places where something is wrong."""

import os
import subprocess
import sys
import textwrap
from importlib import metadata
from pathlib import Path

import pytest

from mgpu_helpers import runtime

ROOT = Path(__file__).parent.parent
OURS = ('click', 'tabulate', 'lazy_loader')  # all that the command itself needs
A100, H200, K80 = ('NVIDIA A100', 40, (8, 0)), ('NVIDIA H200', 141, (9, 0)), ('K80', 12, (3, 7))
needs_mxnet = pytest.mark.skipif(not runtime.installed_builds(), reason='needs MXNet')


def environment(path=(), **more):
    """Our variables without the settings that this process inherited."""
    ours = runtime.SETTINGS | runtime.MALLOC
    clean = {name: value for name, value in os.environ.items() if name not in ours}
    return clean | {'PYTHONPATH': os.pathsep.join(map(str, [*path, ROOT]))} | more


def python(script, path=(), **more):
    """Run a script in such an environment; return the completed process."""
    return subprocess.run(
        [sys.executable, '-c', textwrap.dedent(script)],
        capture_output=True, text=True, timeout=300, env=environment(path, **more),
    )  # fmt: skip


def bare(folder, *names):
    """Make an environment with what our command needs, and only some of the other packages."""
    subprocess.run([sys.executable, '-m', 'venv', '--without-pip', folder / 'bare'], check=True)
    site = next(folder.glob('bare/lib/*/site-packages'))
    for name in (*OURS, *names):
        distribution = metadata.distribution(name)
        for entry in {Path(file).parts[0] for file in distribution.files} - {'..', '__pycache__'}:
            if not (site / entry).exists():
                (site / entry).symlink_to(distribution.locate_file(entry))
    return folder / 'bare' / 'bin' / 'python'


def distribution(folder, name, version='1.9.1'):
    """Write the file by which Python knows that a distribution is installed."""
    info = folder / f'{name.replace("-", "_")}-{version}.dist-info'
    info.mkdir(parents=True)
    (info / 'METADATA').write_text(f'Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n')
    return folder
