"""One measured run in a process of its own: ``python -m benchmarks.run ours|peer GPUS EXAMPLES``.

Prints ``ready`` when everything is loaded and warm, waits for a line on standard input (so that two
runs can begin together), and prints one line of JSON.
"""

import json
import resource
import sys

WARM_UP = 2560  # ten batches: first allocations, oneDNN's kernels, the CPU's clock


def wait_for_the_others():
    print('ready', flush=True)
    sys.stdin.readline()


def ours(num_gpus, num_examples):
    import mgpu_helpers as mgpu

    mgpu.train(num_gpus, 256, 0.2, num_epochs=1, num_examples=min(WARM_UP, num_examples), seed=0)
    wait_for_the_others()
    history = mgpu.train(num_gpus, 256, 0.2, num_epochs=1, num_examples=num_examples, seed=0)
    return history.seconds[0]


def peer(num_gpus, num_examples):
    import mxnet  # noqa: F401  first, so that MXNet's own defaults are in force

    from . import peer as source

    images, labels = arrays(num_examples)
    source.train(images[:WARM_UP], labels[:WARM_UP], num_gpus, num_epochs=1)
    wait_for_the_others()
    return source.train(images, labels, num_gpus, num_epochs=1)[0]


def arrays(num_examples):
    """Read the data in a process without our settings, which importing the package would make."""
    import subprocess

    import numpy as np

    script = (
        'import sys, numpy as np; from mgpu_helpers import data; '
        "d = data.dataset('fashion-mnist'); n = int(sys.argv[1]); "
        'np.savez(sys.stdout.buffer, X=d.train_images[:n], y=d.train_labels[:n])'
    )
    done = subprocess.run(
        [sys.executable, '-c', script, str(num_examples)], stdout=subprocess.PIPE, check=True
    )
    import io

    loaded = np.load(io.BytesIO(done.stdout))
    return loaded['X'], loaded['y'].astype('int32')


def main():
    what, num_gpus, num_examples = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    seconds = {'ours': ours, 'peer': peer}[what](num_gpus, num_examples)
    print(
        json.dumps(
            {
                'examples_per_second': num_examples / seconds,
                'seconds': seconds,
                'peak_mb': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
            }
        )
    )


if __name__ == '__main__':
    main()
