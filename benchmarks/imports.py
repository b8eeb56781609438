"""How long one waits for an import, in a fresh interpreter."""

import importlib
import time


def load(num_devices, batch_size, num_examples, module):
    """Give the seconds that an import takes."""
    start = time.perf_counter()
    importlib.import_module(module)
    return {'waited': time.perf_counter() - start}
