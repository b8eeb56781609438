"""Run cases in rounds: every case once, then all again.

If the machine slows down, it slows all of them; ratios are taken within a round.
"""

import contextlib
import json
import os
import pathlib
import sys
import tempfile
import time

import numpy as np
import psutil
from tqdm import tqdm

from mgpu_helpers.processes import Group, ProcessFailed, python_with

from .cases import CASES, OUR_SETTINGS
from .protocol import ARRAYS, READY, RESULT

ROOT = pathlib.Path(__file__).parent.parent
TIMEOUT = 900  # seconds after which a run counts as hung
BAR = '{percentage:3.0f}% |{bar:20}| {n_fmt}/{total_fmt}, {remaining} left; now: {desc}'


@contextlib.contextmanager
def clean_environment(data=None):
    """Start processes with the frameworks' own settings, on stand-ins, with the data at hand.

    Settings exported in the shell, or made by our own import of ``mgpu_helpers``, are removed; a
    case sets what it needs. ``data`` comes from ``mgpu_helpers.data.dataset``.
    """
    before = dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, 'arrays.npz')
        if data:
            np.savez(file, images=data.train_images, labels=data.train_labels)
        for name in OUR_SETTINGS:
            os.environ.pop(name, None)
        os.environ |= {
            ARRAYS: str(file),
            'CUDA_VISIBLE_DEVICES': '',  # CPU cores are what is measured
            'PYTHONPATH': os.pathsep.join([str(ROOT), *filter(None, [before.get('PYTHONPATH')])]),
            'PYTHONWARNINGS': 'ignore',  # ours about two OpenMP threads, which are intended here
        }
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)


def memory_of(pids):
    """Sum the gigabytes of processes and all their children, shared pages counted once."""
    total = 0
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            for one in (process, *process.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    total += one.memory_full_info().pss
    return total / 1e9


def run(name, num_examples, tick=lambda: None):
    """Run a case's processes at the same time; return what each measured.

    ``tick`` is called about ten times a second. If one process fails or hangs, all are ended.
    """
    case = CASES[name]
    examples, peak, ready, results = case.examples_of(num_examples), [0.0], set(), {}
    with Group() as group:

        def on_line(member, line):
            if line == READY:
                ready.add(member)
                if len(ready) == case.processes:
                    for one in group.members:
                        with contextlib.suppress(OSError):  # it has ended: group.wait will say so
                            one.process.stdin.write(b'go\n')
                            one.process.stdin.flush()
            elif line.startswith(RESULT):
                results[member] = json.loads(line[len(RESULT) :])
                # Unless the run measured its own wait: from its start to its result.
                results[member].setdefault('waited', time.monotonic() - start)
            return line == READY or line.startswith(RESULT)

        def check():
            tick()
            if case.memory:
                peak[0] = max(peak[0], memory_of(m.process.pid for m in group.members))

        start = time.monotonic()
        python = python_with('torch') if 'torch' in case.needs else sys.executable
        wanted = json.dumps([case.what, case.devices, case.batch, examples, case.options])
        for i in range(case.processes):
            label = f'{name}, process {i}' if i else name
            group.start(label, [python, '-m', 'benchmarks.run', wanted], case.settings, given=b'')
        group.wait(on_line, timeout=TIMEOUT, check=check)
        if len(results) < case.processes:
            raise ProcessFailed(name, 0, 'ended without a result')
    measured = [results[member.name] for member in group.members]
    if case.memory:
        measured[0]['peak_gb'] = peak[0]
    return measured


def measure(names, rounds, num_examples, say):
    """Run cases in rounds, with a bar that shows the current case and the time left.

    Returns for each case a list of what its processes measured in each round, and the names of
    cases that failed: these are reported by ``say`` and not tried again.
    """
    steps = [name for i in range(rounds) for name in names if i == 0 or not CASES[name].once]
    measured, failed = {name: [] for name in names}, []
    style = {'disable': None, 'leave': False, 'bar_format': BAR, 'smoothing': 0}
    with tqdm(total=len(steps), **style) as bar:
        for name in steps:
            if name not in failed:
                bar.set_description_str(name)
                try:
                    measured[name].append(run(name, num_examples, bar.refresh))
                except (ProcessFailed, TimeoutError) as error:
                    failed.append(name)
                    del measured[name]
                    with tqdm.external_write_mode(file=sys.stderr):
                        say(f'{name}: left out, because it failed. {error}')
            bar.update()
    return measured, failed
