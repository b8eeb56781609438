"""``record`` a block of code, and name its phases with ``phase``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import mxnet as mx

from .. import arguments
from ..lanes import KINDS, Lanes, Span
from .phases import Listener
from .profiler import profiling, wall_clock

_listener: Listener | None = None  # of the recording that is on


@contextlib.contextmanager
def record(title: str = '', python: bool = False) -> Iterator[Lanes]:
    """Record what every device does while a block of code runs: give Lanes, empty until its end.

    A lane per device, and a span per operator, whose kind is the phase of training; ``python`` adds
    one for Python, with the phases for which it asks for operators. It waits for
    the devices when it begins, before each new training step (its shards, or its forward pass,
    after an update), and at the end. Settings of your own for MXNet's profiler are lost.
    """
    global _listener
    if _listener is not None:
        raise RuntimeError(
            'recording is already on: let the other `with record()` block end before this one '
            'begins'
        )
    lanes, listener, ran = Lanes(title=title), Listener(), list[Span]()
    try:
        with listener.listening(), profiling(ran), mx.engine.bulk(0):
            _listener = listener
            yield lanes
            if python:  # before it waits for the devices
                lanes.add(listener.python_lane(wall_clock()))
    finally:
        _listener = None
        lanes.add(listener.spans(ran))


@contextlib.contextmanager
def phase(kind: str) -> Iterator[None]:
    """Say for which phase of training a block of code, or a function, is: for ``record``.

    A context manager, and a decorator; it does nothing while nothing is recorded.
    """
    arguments.one_of('kind', kind, KINDS)
    with _listener.phase(kind) if _listener else contextlib.nullcontext():
        yield


def note(span: Span) -> None:
    """Put what MXNet's profiler cannot see into the recording that is on, if one is."""
    if _listener:
        _listener.noted.append(span)
