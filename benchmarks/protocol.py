"""Messages between a measured process and its parent, and the data for peers.

Nothing of ``mgpu_helpers`` is imported here: a peer's process keeps its framework's own settings.
"""

import json
import os
import sys

READY = 'benchmark ready'
RESULT = 'benchmark result '
ARRAYS = 'MGPU_BENCH_ARRAYS'  # environment variable: the file with the data, for peers
WARM_UP = 2560  # examples, ten batches: first allocations, oneDNN's kernels, the CPU's clock


def wait_for_the_others():
    """Report that everything is loaded and warm, and wait until this case's other processes are."""
    print(READY, flush=True)
    sys.stdin.readline()


def send(measured):
    """Send the measurements, a dictionary, to the parent process."""
    print(RESULT + json.dumps(measured), flush=True)


def arrays(num_examples):
    """Read images (n, 28, 28), uint8, and labels (n,), int32, without our package."""
    import numpy as np

    with np.load(os.environ[ARRAYS]) as data:
        return data['images'][:num_examples], data['labels'][:num_examples].astype('int32')
