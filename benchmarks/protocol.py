"""Send messages between a measured process and its parent, and load the data for peers.

Nothing from ``mgpu_helpers`` is imported here, so a peer keeps its framework's default settings.
"""

import json
import os
import sys

READY = 'benchmark ready'
RESULT = 'benchmark result '
ARRAYS = 'MGPU_BENCH_ARRAYS'  # environment variable: the file with the data, for peers
WARM_UP = 2560  # ten batches: memory is allocated, oneDNN's kernels exist, the CPU's clock is up


def wait_for_the_others():
    """Report that this process is loaded and warmed up; wait for the case's other processes."""
    print(READY, flush=True)
    sys.stdin.readline()


def send(measured):
    """Send the measurements, a dictionary, to the parent process."""
    print(RESULT + json.dumps(measured), flush=True)


def arrays(num_examples):
    """Read images (n, 28, 28), uint8, and labels (n,), int32, without importing our package."""
    import numpy as np

    with np.load(os.environ[ARRAYS]) as data:
        return data['images'][:num_examples], data['labels'][:num_examples].astype('int32')
