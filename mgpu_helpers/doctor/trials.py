"""Real training steps on one device and on two: the same losses, and how much faster?"""

from __future__ import annotations

import importlib
import os
import statistics
import time
from types import ModuleType
from typing import Any

from ..data.published import FILES, folder_of, stock
from ..data.sets import STOOD_IN, dataset
from ..devices.cores import usable_cores

BATCH, LEARNING_RATE = 256, 0.2
# In turn, so that a machine that slows down slows both; 1.6 s a try at 85 and 46 ms a batch. The
# losses of the first steps, which also warm up, are compared.
ROUNDS, STEPS = 3, 4
AGAIN = 4.0  # seconds in which one more try begins: one run of ten said 0.96, the next one 1.8
FASTER = 1.3  # `make bench` gives 1.8 on two quiet cores


def train(framework: str) -> dict[str, Any]:
    """Train LeNet on one device and on two, in turn, with 'mxnet' or 'torch'.

    Gives the ``losses`` of the first steps and the ``ms`` a batch (the median of the rounds), each
    by number of devices; whether two are ``faster``; the ``devices`` and the ``data``.
    """
    mgpu = importlib.import_module(f'mgpu_helpers{".pytorch" * (framework == "torch")}')
    batches, source = _batches(mgpu)
    both = mgpu.devices(2)
    replicas: dict[int, list] = {}
    losses: dict[int, list[float]] = {}

    def step(k: int, X: Any, y: Any) -> list:
        return mgpu.train_batch(X, y, replicas[k], both[:k], LEARNING_RATE)

    for k in (1, 2):
        replicas[k] = [mgpu.get_params(mgpu.init_params(seed=0), d) for d in both[:k]]
        losses[k] = [float(mgpu.total_loss([step(k, X, y)])) / BATCH for X, y in batches]
    alone = usable_cores() < 2 or os.environ.get('OMP_NUM_THREADS') != '1'
    hopeless = alone or 'cpu' not in str(both[0])  # where a second try would say the same
    end = time.perf_counter() + AGAIN
    while True:
        seconds: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(ROUNDS):
            for k in (1, 2):
                began = time.perf_counter()
                for X, y in batches:
                    step(k, X, y)
                if framework == 'mxnet':
                    importlib.import_module('mxnet').nd.waitall()
                else:
                    mgpu.synchronize(both)
                seconds[k].append(time.perf_counter() - began)
        ms = {k: statistics.median(seconds[k]) / len(batches) * 1000 for k in seconds}
        faster = ms[1] / ms[2] >= FASTER
        if faster or hopeless or time.perf_counter() > end:
            break
    about = {'devices': [str(device) for device in both], 'data': source}
    return {'losses': losses, 'ms': ms, 'faster': faster, **about}


def _batches(mgpu: ModuleType) -> tuple[list, str]:
    """Some batches of the real data, or of the digits; nothing is downloaded."""
    for name in FILES:
        if len(stock(name)[0]) == len(FILES[name]):
            break
    else:
        name = 'fashion-mnist'
        os.environ[STOOD_IN] = str(folder_of(name))
    load = getattr(mgpu, f'load_data_{name.replace("-", "_")}')
    batches, _ = load(BATCH, num_examples=STEPS * BATCH, seed=0)
    return list(batches), name if dataset(name).source == 'files' else "scikit-learn's digits"
