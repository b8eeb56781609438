"""Record each device's work in a block of code, by phase of training, with ``record``.

While it records, it wraps MXNet's functions that push operators, and notes each push's phase.
"""

from __future__ import annotations

import bisect
import collections
import contextlib
import ctypes
import functools
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import mxnet as mx
from mxnet import autograd, nd
from mxnet.base import _LIB, check_call, py_str
from mxnet.ndarray import CachedOp, register
from mxnet.ndarray._internal import NDArrayBase

from ..lanes import PYTHON, Lanes, Span
from .profiler import check_known, known_lanes, profiling, wall_clock

Function = Callable[..., Any]

BACKWARD = '_backward_'
COPY = '_copyto'

_listener: Listener | None = None  # that of the running recording


@contextlib.contextmanager
def record(title: str = '', python: bool = False) -> Iterator[Lanes]:
    """Record each device's work while a block of code runs; yield Lanes, filled when it ends.

    Each device has a lane with a span per operator; ``python`` adds one for Python, with the phases
    in which it queues operators. Recording waits for the devices at both ends and before each new
    training step (the first copy or forward pass after an update), and resets MXNet's profiler.
    """
    global _listener
    if _listener is not None:
        raise RuntimeError('a recording is already running: end its `with record()` block first')
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


def note(span: Span) -> None:
    """Add a span that MXNet's profiler cannot see to the current recording, if any."""
    if _listener:
        _listener.noted.append(span)


@dataclass
class Push:
    """An operator that Python queued."""

    name: str
    kind: str  # the phase of training


class Pushes:
    """The operators that Python pushed in a training step, directly or through a call."""

    def __init__(self) -> None:
        self.start = wall_clock()
        self.of = collections.defaultdict[tuple[str, str], list[Push]](list)  # lane, operator
        self.backward = self.updated = False


class Listener:
    """A recording's log of each push, by training step and phase."""

    def __init__(self) -> None:
        self.steps = [Pushes()]
        self.noted: list[Span] = []  # spans added by note()
        self._asked: list[tuple[float, Push]] = []  # the time of each push
        # Operators on each lane that have just created arrays.
        self._made = collections.defaultdict[str, list[Push]](list)
        self._lanes: set[str] = set()  # of the devices in use

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Wrap MXNet's functions during a block, and restore them even after an error."""
        with contextlib.ExitStack() as stack:
            wrapped: list[tuple[object, str, Callable[[Function], Function]]] = [
                (register, '_imperative_invoke', before(self._note_operator)),
                (mx.gluon.HybridBlock, '_call_cached_op', before(self._note_network)),
                (_LIB, 'MXAutogradBackwardEx', before(self._note_backward)),
                (NDArrayBase, '__del__', functools.partial(freed_later, stack)),
                (CachedOp, '__del__', functools.partial(freed_later, stack)),
            ]
            for owner, name, wrapper in wrapped:
                original = getattr(owner, name)
                stack.callback(setattr, owner, name, original)
                setattr(owner, name, functools.wraps(original)(wrapper(original)))
            yield

    def _note_operator(
        self, handle: int, inputs: Any, keys: Any, values: Any, out: Any, *_: Any
    ) -> None:
        # The first array is on the operator's device; without arrays, the device is an option.
        written = list(arrays_in(out))
        devices = [x.context for x in (*arrays_in(inputs), *written)]
        devices = devices or [dict(zip(keys, values)).get('ctx', 'cpu(0)')]
        name = operator_name(handle)
        writes = self.steps[-1].backward and any(x.grad is not None for x in written)
        updates = '_update' in name or writes
        push = self._add(name, [lane_of(device) for device in devices], updates)
        made = self._made[lane_of(devices[0])]
        if push.kind == 'update':  # lr * p.grad, just before, belongs to it
            for one in made:
                one.kind = 'update'
        if written or name == COPY or push.kind == 'forward':
            made.clear()
        else:
            made.append(push)

    def _add(self, name: str, lanes: Sequence[str], updates: bool = False) -> Push:
        """Record a push; if it begins a new step, wait first."""
        step = self.steps[-1]
        if updates:
            kind = 'update'
        elif autograd.is_recording():
            kind = 'forward'
        elif step.backward and not step.updated:
            kind = 'allreduce'
        else:
            kind = 'copy' if name == COPY else 'compute'
        if step.updated and kind in ('copy', 'forward'):
            # If two steps ran at once, operators of the same name would be indistinguishable.
            nd.waitall()
            self.steps.append(step := Pushes())
        for lane in lanes:
            check_known(lane)
            self._lanes.add(lane)
        label, lane = name, lanes[0]
        if name == COPY:
            source, target = lanes
            name = f'Copy{source[:3].upper()}2{target[:3].upper()}'
            label = f'copy to {target}'
            lane = target if name == 'CopyCPU2GPU' else source  # the device that copies
        step.updated |= kind == 'update'
        push = Push(label, kind)
        step.of[lane, name].append(push)
        self._asked.append((wall_clock(), push))
        return push

    def _note_network(self, block: mx.gluon.HybridBlock, *inputs: Any) -> None:
        if block._cached_graph:  # otherwise this first call compiles it
            graph = json.loads(block._cached_graph[1].tojson())
            lane = lane_of(next(arrays_in(inputs)).context)
            for node in graph['nodes']:
                if node['op'] != 'null':  # a parameter
                    self._add(node['op'], [lane])

    def _note_backward(self, *_: Any) -> None:
        self.steps[-1].backward = True
        self._asked.append((wall_clock(), Push('', 'backward')))

    def python_lane(self, end: float) -> Iterator[Span]:
        """Yield a span per run of pushes in one phase, lasting until the next run or ``end``."""
        runs = [next(run) for _, run in itertools.groupby(self._asked, key=lambda a: a[1].kind)]
        ends = [start for start, _ in runs[1:]] + [end]
        for (start, push), stop in zip(runs, ends):
            yield Span(PYTHON, 'python', push.kind, start, stop)

    def spans(self, ran: Iterable[Span]) -> Iterator[Span]:
        """Return, for each operator that ran, in order, the phase in which it was pushed.

        A device runs operators of the same name in the order of their pushes. Operators without a
        push are from the backward pass or the store, so they come after the forward pass.
        """
        starts = [step.start for step in self.steps[1:]]
        alike = collections.defaultdict(list)
        for span in ran:
            # The store's pinned memory is numbered like the first CPU after the cores.
            lane = span.lane if span.lane in self._lanes else 'cpu(0)'
            alike[bisect.bisect_right(starts, span.start), lane, span.name].append(span)
        for (i, lane, name), spans in alike.items():
            known = self.steps[i].of[lane, name]
            early = [push for push in known if push.kind in ('copy', 'forward')]
            late = [push for push in known if push.kind not in ('copy', 'forward')]
            own = [pushed_by_mxnet(self.steps[i], name)] * (len(spans) - len(known))
            for span, push in zip(spans, early + own + late):
                yield Span(lane, push.kind, push.name, span.start, span.end)
        yield from self.noted


def pushed_by_mxnet(step: Pushes, name: str) -> Push:
    """Return a push, with name and phase, for an operator that Python did not push."""
    if step.backward and name.startswith(('KVStore', 'ElementwiseSum', 'Copy')):  # by a store
        return Push(name, 'allreduce')
    # Fused operators have this name or, in a compiled network, all their names joined.
    label = 'several operators' if name == 'ImperativeBulk' or ',' in name else name
    if ',' in name and BACKWARD not in name:
        return Push(label, 'forward')
    if step.backward:
        return Push(label.removeprefix(BACKWARD), 'backward')
    return Push(label, 'copy' if name.startswith('Copy') else 'compute')


def before(note: Function) -> Callable[[Function], Function]:
    """Return a wrapper that first calls ``note`` (which must return None), then the original."""
    return lambda original: lambda *args, **more: note(*args, **more) or original(*args, **more)


def freed_later(stack: contextlib.ExitStack, free: Function) -> Function:
    """Keep arrays on unknown devices, and all compiled networks, until ``stack`` closes."""

    def wrapped(it: nd.NDArray | CachedOp) -> None:
        if isinstance(it, NDArrayBase) and lane_of(it.context) in known_lanes():
            free(it)
        else:
            stack.callback(free, it)

    return wrapped


def lane_of(device: mx.Context | str) -> str:
    """Return the lane of a device; pinned memory is on the first CPU's."""
    name = str(device)
    return name if name.startswith(('cpu(', 'gpu(')) else 'cpu(0)'


def arrays_in(value: Any) -> Iterator[nd.NDArray]:
    """Yield the arrays in nested lists."""
    if isinstance(value, nd.NDArray):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from arrays_in(part)


@functools.cache
def operator_name(handle: int) -> str:
    """Ask MXNet for the operator name that the profiler will use."""
    name = ctypes.c_char_p()
    check_call(_LIB.MXSymbolGetAtomicSymbolName(ctypes.c_void_p(handle), ctypes.byref(name)))
    return py_str(name.value)
