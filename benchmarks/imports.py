"""The time that an import takes in a fresh interpreter."""

import importlib
import time


def load(num_devices, batch_size, num_examples, module):
    """Time an import."""
    start = time.perf_counter()
    importlib.import_module(module)
    return {'waited': time.perf_counter() - start}
