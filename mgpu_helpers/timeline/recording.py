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
from ..lanes import KINDS, Lanes
from ..scratch import get_params, init_params, sync_gradients, train_batch
from .events import Profiler, check_known
from .phases import spans
from .pushes import Watch

if TYPE_CHECKING:
    from ..scratch import Sync

_watch = None  # of the recording that is on


@contextlib.contextmanager
def record(title: str = '', devices: Sequence[mx.Context] | None = None) -> Iterator[Lanes]:
    """Record what every device does while a block of code runs.

    Parameters
    ----------
    title : str
        Of the timeline, for its picture.
    devices : list of mxnet.Context, optional
        Devices to show even if they do nothing.

    Yields
    ------
    Lanes
        Empty until the block has ended. A lane per device, a span per operator, its kind the phase
        of training:

        - ``forward``: what runs under ``autograd.record()``;
        - ``backward``: the backward pass, its operators called like those that they differentiate;
        - ``copy``: copies outside of these before the backward pass, such as shards of a batch;
        - ``allreduce``: all that comes between the backward pass and the update;
        - ``update``: chapter 1's ``sgd``, Gluon's ``Trainer``, and MXNet's optimizers;
        - ``compute``: the rest, such as a forward pass that no gradient is asked for.

        ``phase`` says it for code of your own. Copies are called by where they go to.

    Raises
    ------
    RuntimeError
        If recording is already on, or MXNet's profiler was switched on by somebody else.
    TypeError, ValueError
        If ``devices`` is no list of devices, or a stand-in's number is larger than MXNet's profiler
        can count (cores, plus GPUs, plus 1).

    Notes
    -----
    It begins when the devices are done with earlier work, and waits for them at the end, also when
    the block raises. Operators are handed out one by one. Several training steps are recorded one
    after the other: with each new one (its shards, or its forward pass, after an update) it waits
    for the last. Recorded steps take a little longer than others.

    Uses MXNet's profiler: settings of your own for it are lost, so make them anew afterwards. With
    ``MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN`` set to more than 1, operators appear together as
    ``ImperativeBulk``.

    Examples
    --------
    >>> with record('an example') as timeline:
    ...     _ = nd.dot(nd.ones((300, 300)), nd.ones((300, 300)))
    >>> timeline.lanes, timeline.kinds()
    (['cpu(0)'], ['compute'])
    """
    global _watch
    if _watch is not None:
        raise RuntimeError(
            'recording is already on: let the other `with record()` block end before this one '
            'begins'
        )
    if devices is not None:
        checks.device_list(devices)
        choose_devices(len(devices), devices)
        for device in devices:
            check_known(device.device_type, device.device_id)
    timeline = Lanes(title=title)
    with tempfile.TemporaryDirectory(prefix='mgpu-') as folder:
        profiler = Profiler(Path(folder))
        watch = Watch()
        profiler.start()
        try:
            _watch = watch
            with watch.watching(), mx.engine.bulk(0):
                yield timeline
                nd.waitall()
        except BaseException:
            with contextlib.suppress(MXNetError):  # the first error is the one to tell of
                nd.waitall()
            raise
        finally:
            _watch = None
            try:
                events = profiler.stop([*(devices or ()), *watch.devices])
            finally:
                watch.free_held()
            timeline.add(spans(events, watch.steps), map(str, devices or ()))


def phase(kind: str) -> contextlib._GeneratorContextManager[None]:
    """Say for which phase of training a block of code, or a function, is: for ``record``.

    Parameters
    ----------
    kind : str
        ``'forward'``, ``'backward'``, ``'copy'``, ``'allreduce'``, ``'update'`` or ``'compute'``.

    Returns
    -------
    context manager, also usable as decorator
        Does nothing while nothing is recorded.

    Raises
    ------
    ValueError
        If there is no such kind.

    Examples
    --------
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
    if kind not in KINDS:
        raise ValueError(f'kind must be one of {", ".join(KINDS)}, not {checks.shown(kind)}')
    return _phase(kind)


@contextlib.contextmanager
def _phase(kind: str) -> Iterator[None]:
    with _watch.phase(kind) if _watch else contextlib.nullcontext():
        yield


def one_batch(
    num_gpus: int = 2,
    batch_size: int = 256,
    title: str = '',
    sync: Sync = sync_gradients,
    tries: int = 5,
    devices: Sequence[mx.Context] | None = None,
) -> Lanes:
    """Record chapter 1's training step, on random images.

    Parameters
    ----------
    num_gpus : int
        How many devices, as in ``mgpu.train``.
    batch_size : int
        Images in the batch.
    title : str
        Of the timeline.
    sync : callable
        How gradients are summed; see ``mgpu.train_batch``.
    tries : int
        How many steps to record, after three that warm up. The fastest counts: one that something
        else on the machine held up says nothing about the devices.
    devices : list of mxnet.Context, optional
        Your own choice of ``num_gpus`` devices, such as stand-ins where there are GPUs.

    Returns
    -------
    Lanes

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    Examples
    --------
    >>> one_batch(num_gpus=1, batch_size=4, tries=1).kinds()
    ['forward', 'backward', 'update']
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
