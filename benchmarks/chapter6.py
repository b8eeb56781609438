"""Chapter 6: its training script, started by ``torchrun`` as a reader would."""

import subprocess
import sys
import time
from pathlib import Path

from .protocol import wait_for_the_others

SCRIPT = Path(__file__).resolve().parent.parent / 'training' / 'train_ddp.py'


def output(num_devices, batch_size, num_examples, epochs):
    """Run the script and return what it prints, a line for each epoch."""
    torchrun = ['-m', 'torch.distributed.run', '--standalone', f'--nproc-per-node={num_devices}']
    options = f'--epochs={epochs} --batch-size={batch_size} --limit={num_examples}'.split()
    command = [sys.executable, *torchrun, str(SCRIPT), *options]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def train(num_devices, batch_size, num_examples):
    """Return the seconds of the second of two epochs; the first one warms up."""
    wait_for_the_others()
    return float(output(num_devices, batch_size, num_examples, 2).split('time: ')[2].split()[0])


def first_step(num_devices, batch_size, num_examples):
    """Time ``torchrun`` from start to end: one step, an evaluation, shutting down."""
    wait_for_the_others()
    begin = time.monotonic()
    output(num_devices, batch_size, batch_size, 1)
    return {'waited': time.monotonic() - begin}
