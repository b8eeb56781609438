"""``record`` a block of code, and name its phases with ``phase``."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import mxnet as mx
from mxnet import nd
from mxnet.base import MXNetError

from .. import checks
from ..lanes import KINDS, Lanes, Span
from .events import Profiler
from .phases import spans
from .pushes import Listener

_listener: Listener | None = None  # of the recording that is on


@contextlib.contextmanager
def record(title: str = '') -> Iterator[Lanes]:
    """Record what every device does while a block of code runs: give Lanes, empty until its end.

    A lane per device, and a span per operator. Its kind is the phase of training: see the room's
    own text. It waits for the devices when it begins, before each new training step (its shards, or
    its forward pass, after an update), and at the end. Settings of your own for MXNet's profiler
    are lost.
    """
    global _listener
    if _listener is not None:
        raise RuntimeError(
            'recording is already on: let the other `with record()` block end before this one '
            'begins'
        )
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
                events = profiler.stop(listener.devices)
            finally:
                listener.free_held()
            lanes.add([*spans(events, listener.steps), *listener.noted])


@contextlib.contextmanager
def phase(kind: str) -> Iterator[None]:
    """Say for which phase of training a block of code, or a function, is: for ``record``.

    A context manager, and a decorator; it does nothing while nothing is recorded.
    """
    checks.one_of('kind', kind, KINDS)
    with _listener.phase(kind) if _listener else contextlib.nullcontext():
        yield


def note(span: Span) -> None:
    """Put what MXNet's profiler cannot see into the recording that is on, if one is."""
    if _listener:
        _listener.noted.append(span)
