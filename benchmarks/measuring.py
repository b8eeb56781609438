"""Run cases in rounds: every case once per round.

If the machine slows down, all cases slow down alike; ratios are taken within a round.
"""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
from tqdm import tqdm

from mgpu_helpers.processes import python_with

from .cases import CASES, OUR_SETTINGS
from .protocol import ARRAYS, READY, RESULT

ROOT = pathlib.Path(__file__).parent.parent
TIMEOUT = 900  # seconds after which a run counts as hung


@contextlib.contextmanager
def clean_environment(data=None):
    """Return a run's environment: the frameworks' default settings, stand-ins, and local data.

    Settings exported in the shell, or made by our own import of ``mgpu_helpers``, are removed; a
    case sets those it needs. ``data`` comes from ``mgpu_helpers.data.dataset``.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, 'arrays.npz')
        if data:
            np.savez(file, images=data.train_images, labels=data.train_labels)
        kept = {name: value for name, value in os.environ.items() if name not in OUR_SETTINGS}
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get('PYTHONPATH')]))
        yield kept | {
            ARRAYS: str(file),
            'CUDA_VISIBLE_DEVICES': '',  # we measure CPU cores only
            'PYTHONPATH': path,
            'PYTHONWARNINGS': 'ignore',  # our own warning about two OpenMP threads, intended here
        }


class Failed(Exception):
    """A run ended without a result; the message has its last output."""


def run(name, num_examples, environment):
    """Run a case's processes in parallel; return the measurements of each."""
    case, start, running = CASES[name], time.monotonic(), []
    python = python_with('torch') if 'torch' in case.needs else sys.executable
    examples = case.examples_of(num_examples)
    wanted = json.dumps([case.what, case.devices, case.batch, examples, case.options])
    late = threading.Timer(TIMEOUT, lambda: end(running))
    late.start()
    try:
        for _ in range(case.processes):
            process = subprocess.Popen(
                [python, '-m', 'benchmarks.run', wanted],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, env=environment | case.settings, start_new_session=True,
            )  # fmt: skip
            running.append(process)
        lines = [listen(process) for process in running]
        for process in running:
            with contextlib.suppress(BrokenPipeError):  # it has ended; `result_in` reports why
                process.stdin.write('go\n')
                process.stdin.flush()
        lines = [listen(p) if line.startswith(READY) else line for p, line in zip(running, lines)]
        # If the run did not time its own wait: the time from its start to its result.
        waited = time.monotonic() - start
        return [{'waited': waited} | result_in(line) for line in lines]
    finally:
        late.cancel()
        end(running)


def listen(process):
    """Read until a process reports that it is ready or done; return that line, or else the last."""
    last = ''
    for line in process.stdout:
        if line.startswith((READY, RESULT)):
            return line
        last = line.strip() or last
    return last


def result_in(line):
    """Parse the measurements from the last line of a process's output."""
    if not line.startswith(RESULT):
        raise Failed(line or 'it ended without any output')
    return json.loads(line[len(RESULT) :])


def end(processes):
    """Kill processes and everything that they started."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def measure(names, rounds, num_examples, environment, say):
    """Run cases in rounds, with a progress bar that shows the current case and the time left.

    Returns, for each case, a list with its processes' measurements in each round, and the names of
    the cases that failed; these are reported through ``say`` and not tried again.
    """
    measured, failed = {name: [] for name in names}, []
    bar = tqdm(names * rounds, bar_format='{l_bar}{bar:20}| {n_fmt}/{total_fmt}, {remaining} left')
    for name in bar:
        if name in failed:
            continue
        bar.set_description(name)
        try:
            measured[name].append(run(name, num_examples, environment))
        except Failed as failure:
            say(f'{name}: left out, because it failed: {failure}')
            failed.append(name)
    return {name: measured[name] for name in names if name not in failed}, failed
