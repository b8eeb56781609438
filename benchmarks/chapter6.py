"""Chapter 6: its training script, which ``torchrun`` starts as for a reader."""

import subprocess
import sys
import time
from pathlib import Path

from .protocol import wait_for_the_others

SCRIPT = Path(__file__).resolve().parent.parent / 'training' / 'train_ddp.py'


def said(num_devices, batch_size, num_examples, epochs):
    """Run the script; give what it prints, a line for each epoch."""
    torchrun = ['-m', 'torch.distributed.run', '--standalone', f'--nproc-per-node={num_devices}']
    options = f'--epochs={epochs} --batch-size={batch_size} --limit={num_examples}'.split()
    command = [sys.executable, *torchrun, str(SCRIPT), *options]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def train(num_devices, batch_size, num_examples):
    """Give the seconds of the second of two epochs; the first one warms up."""
    wait_for_the_others()
    return float(said(num_devices, batch_size, num_examples, 2).split('time: ')[2].split()[0])


def first_step(num_devices, batch_size, num_examples):
    """Give the seconds from the start of ``torchrun`` to its end: a step, evaluation, the end."""
    wait_for_the_others()
    begin = time.monotonic()
    said(num_devices, batch_size, batch_size, 1)
    return {'waited': time.monotonic() - begin}
