"""A real training step on one device and on two: the same losses, and how much faster?"""

from __future__ import annotations

import importlib
import os
import statistics
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from ..devices.cores import usable_cores
from . import fixes
from .asking import Questions
from .report import FAILED, NOT_NEEDED, OK, WARNING, Row

BATCH, LEARNING_RATE = 256, 0.2
FIRST = 4  # steps from the start whose losses are compared; they also warm up
# In turn, so that a machine that slows down slows both; 4 s a try at 85 and 46 ms a batch.
ROUNDS, STEPS = 5, 6
# Measured: relative differences up to 4e-10 in these steps, with MXNet and with PyTorch; where each
# device keeps its own gradients, 1e-4 to 2e-4 from the second step on.
CLOSE = 1e-5
# A moment of somebody else on one of two cores: one run of ten said 0.96, and the next one 1.8.
TRIES = 2
FASTER = 1.3  # `make bench` gives 1.8 on two quiet cores


def measure(framework: str) -> dict[str, Any]:
    """Train LeNet on one device and on two, in turn; called in a process of its own.

    Parameters
    ----------
    framework : {'mxnet', 'torch'}

    Returns
    -------
    dict
        ``losses`` of the first steps and ``ms`` a batch (the median of the rounds), each by number
        of devices; the ``devices`` and the ``data``.
    """
    names = {'mxnet': 'mgpu_helpers', 'torch': 'mgpu_helpers.pytorch'}
    mgpu = importlib.import_module(names[framework])
    batches, source = _batches(mgpu)
    both = mgpu.devices(2)
    replicas: dict[int, list] = {}
    losses: dict[int, list[float]] = {}

    def wait() -> None:
        if framework == 'mxnet':
            import mxnet

            mxnet.nd.waitall()
        else:
            mgpu.synchronize(both)

    def step(k: int, X: Any, y: Any) -> list:
        return mgpu.train_batch(X, y, replicas[k], both[:k], LEARNING_RATE)

    for k in (1, 2):
        replicas[k] = [mgpu.get_params(mgpu.init_params(seed=0), d) for d in both[:k]]
        losses[k] = [float(mgpu.total_loss([step(k, X, y)])) / BATCH for X, y in batches[:FIRST]]
    alone = usable_cores() < 2 or os.environ.get('OMP_NUM_THREADS') != '1'
    hopeless = alone or 'cpu' not in str(both[0])  # where a second try would say the same
    for _ in range(1 if hopeless else TRIES):
        seconds: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(ROUNDS):
            for k in (1, 2):
                began = time.perf_counter()
                for X, y in batches:
                    step(k, X, y)
                wait()
                seconds[k].append(time.perf_counter() - began)
        ms = {k: statistics.median(seconds[k]) / len(batches) * 1000 for k in seconds}
        if ms[1] / ms[2] >= FASTER:
            break
    return {
        'losses': losses,
        'ms': ms,
        'devices': [str(device) for device in both],
        'data': source,
    }


def _batches(mgpu: ModuleType) -> tuple[list, str]:
    """Some batches of the real data, or of the digits; nothing is downloaded."""
    from .. import data
    from ..data.catalogue import FILES, folder_of, stock
    from ..data.sets import STOOD_IN

    for name in FILES:
        if len(stock(name)[0]) == len(FILES[name]):
            break
    else:
        name = 'fashion-mnist'
        os.environ[STOOD_IN] = str(folder_of(name))
    load = getattr(mgpu, f'load_data_{name.replace("-", "_")}')
    batches, _ = load(BATCH, num_examples=STEPS * BATCH, seed=0)
    return list(batches), name if data.dataset(name).source == 'files' else "scikit-learn's digits"


def training(ask: Questions) -> Iterator[Row]:
    """Look at what a second device brings."""
    name = 'two devices'
    framework = next((f for f in ('mxnet', 'torch') if 'error' not in ask(f)[f]), None)
    if framework is None:
        yield Row(name, NOT_NEEDED, 'neither MXNet nor PyTorch loads, so there is nothing to try')
        return
    facts = ask(f'training-{framework}')['training']
    if 'error' in facts:
        why = f'. {_cause(ask)}' * bool(_likely_fix())
        yield Row(name, FAILED, f'the training {facts["error"]}{why}', _likely_fix())
        return
    one, two = facts['losses']['1'], facts['losses']['2']
    label = {'mxnet': 'MXNet', 'torch': 'PyTorch'}[framework]
    if not all(abs(a - b) <= CLOSE * abs(a) for a, b in zip(one, two)):
        said = ['/'.join(f'{loss:.6f}' for loss in losses) for losses in (one, two)]
        found = f'{label}: the losses on one device and on two differ: {said[0]} and {said[1]}'
        yield Row(name, FAILED, found, fixes.setup(anew=True))
        return
    ratio = facts['ms']['1'] / facts['ms']['2']
    found = (
        f'{label} trains {ratio:.2f} times as fast on {" and ".join(facts["devices"])} as on one '
        f'({facts["ms"]["1"]:.0f} and {facts["ms"]["2"]:.0f} ms a batch, LeNet, {facts["data"]}), '
        'with the same losses'
    )
    stand_ins = all('cpu' in device for device in facts['devices'])
    if ratio >= FASTER:
        yield Row(name, OK, found)
    elif not stand_ins:
        yield Row(name, OK, f'{found}. LeNet is too small for GPUs to gain by it')
    else:
        yield Row(name, WARNING, f'{found}. {_cause(ask)}', _likely_fix())


def _cause(ask: Questions) -> str:
    """What most probably keeps two stand-ins from being faster than one."""
    usable = ask('cores')['cores'].get('usable')
    if usable == 1:
        return 'There is one usable core, which both share'
    threads = os.environ.get('OMP_NUM_THREADS')
    if threads != '1':
        return f'OMP_NUM_THREADS is {threads}: they take turns, or wait for each other'
    load = os.getloadavg()[0] if hasattr(os, 'getloadavg') else 0.0
    if usable and load > usable:
        return f'The machine is busy (load {load:.1f} on {usable} cores): try again when it is not'
    return 'Another program, or a processor that slows down when it is warm, may be the cause'


def _likely_fix() -> str:
    return 'unset OMP_NUM_THREADS' if os.environ.get('OMP_NUM_THREADS', '1') != '1' else ''
