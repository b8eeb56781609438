"""What a measured process says to the one that started it, and the arrays that peers get.

Nothing of ``mgpu_helpers`` is imported here: a peer's process keeps its framework's own settings.
"""

import json
import os
import sys

READY = 'benchmark ready'
RESULT = 'benchmark result '
ARRAYS = 'MGPU_BENCH_ARRAYS'  # the environment variable with the file of the data, for peers
WARM_UP = 2560  # examples; ten batches: first allocations, oneDNN's kernels, the CPU's clock


def wait_for_the_others():
    """Say that everything is loaded and warm; wait until all processes of this case are."""
    print(READY, flush=True)
    sys.stdin.readline()


def give_back(measured):
    """Send what was measured, a dictionary."""
    print(RESULT + json.dumps(measured), flush=True)


def arrays(num_examples):
    """Read images (n, 28, 28), uint8, and labels (n,), int32, without our package."""
    import numpy as np

    with np.load(os.environ[ARRAYS]) as data:
        return data['images'][:num_examples], data['labels'][:num_examples].astype('int32')
