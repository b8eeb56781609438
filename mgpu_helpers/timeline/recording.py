"""``record`` a block of code, name its phases with ``phase``; ``one_batch`` is an example."""

from __future__ import annotations

import contextlib
import functools
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import mxnet as mx
import numpy as np
from mxnet import nd
from mxnet.base import MXNetError

from .. import checks
from ..devices import choose_devices
from ..scratch import get_params, init_params, sync_gradients, train_batch
from .events import Profiler, check_known
from .lanes import KINDS, Lanes
from .phases import spans
from .pushes import Listener

if TYPE_CHECKING:
    from ..scratch import Sync

_listener: Listener | None = None  # of the recording that is on


@contextlib.contextmanager
def record(title: str = '', devices: Sequence[mx.Context] | None = None) -> Iterator[Lanes]:
    """Record what every device does while a block of code runs: give Lanes, empty until its end.

    A lane per device, also for those of ``devices`` that do nothing, and a span per operator. Its
    kind is the phase of training: see the room's own text. It waits for the devices when it begins,
    before each new training step (its shards, or its forward pass, after an update), and at the
    end. Settings of your own for MXNet's profiler are lost.
    """
    global _listener
    if _listener is not None:
        raise RuntimeError(
            'recording is already on: let the other `with record()` block end before this one '
            'begins'
        )
    if devices is not None:
        checks.device_list(devices)
        choose_devices(len(devices), devices)
        for device in devices:
            check_known(device.device_type, device.device_id)
    lanes = Lanes(title=title)
    with tempfile.TemporaryDirectory(prefix='mgpu-') as folder:
        profiler = Profiler(Path(folder))
        listener = Listener()
        profiler.start()
        try:
            _listener = listener
            with listener.listening(), mx.engine.bulk(0):
                yield lanes
                nd.waitall()
        except BaseException:
            with contextlib.suppress(MXNetError):  # the first error is the one to tell of
                nd.waitall()
            raise
        finally:
            _listener = None
            try:
                events = profiler.stop([*(devices or ()), *listener.devices])
            finally:
                listener.free_held()
            lanes.add(spans(events, listener.steps), map(str, devices or ()))


def phase(kind: str) -> contextlib._GeneratorContextManager[None]:
    """Say for which phase of training a block of code, or a function, is: for ``record``.

    A context manager, and a decorator; it does nothing while nothing is recorded.

    >>> @phase('update')
    ... def my_sgd(params, lr):
    ...     for p in params:
    ...         p -= lr * p.grad
    >>> w = nd.ones(1000)
    >>> w.attach_grad()
    >>> with record() as timeline:
    ...     my_sgd([w], lr=0.1)
    >>> timeline.kinds()
    ['update']
    """
    checks.one_of('kind', kind, KINDS)
    return _phase(kind)


@contextlib.contextmanager
def _phase(kind: str) -> Iterator[None]:
    with _listener.phase(kind) if _listener else contextlib.nullcontext():
        yield


def one_batch(
    num_gpus: int = 2,
    batch_size: int = 256,
    title: str = '',
    sync: Sync = sync_gradients,
    tries: int = 5,
    devices: Sequence[mx.Context] | None = None,
) -> Lanes:
    """Record chapter 1's training step on random images, the fastest of ``tries``, after a warm-up.

    A step that something else on the machine held up says nothing about the devices. ``sync`` says
    how gradients are summed; see ``mgpu.train_batch``. ``devices`` is your own choice of
    ``num_gpus`` devices, such as stand-ins where there are GPUs.
    """
    devices = choose_devices(num_gpus, devices)
    checks.positive_int('batch_size', batch_size)
    checks.positive_int('tries', tries)
    rng = np.random.default_rng(0)
    X, y = nd.array(rng.random((batch_size, 1, 28, 28))), nd.array(rng.integers(0, 10, batch_size))
    replicas = [get_params(init_params(seed=0), device) for device in devices]
    step = functools.partial(train_batch, X, y, replicas, devices, lr=0.1, sync=sync)
    for _ in range(3):
        step()
    timelines = []
    for _ in range(tries):
        with record(title, devices) as timeline:
            step()
        timelines.append(timeline)
    return min(timelines, key=lambda timeline: timeline.seconds)
