"""Which phase of training each operator belongs to: noted when Python pushes it, matched later.

The profiler does not know it, so MXNet's functions that push are wrapped during a recording.
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
from typing import Any

import mxnet as mx
from mxnet import autograd, nd
from mxnet.base import _LIB, check_call, py_str
from mxnet.ndarray import register
from mxnet.ndarray._internal import NDArrayBase

from .. import gluon, scratch
from ..lanes import PYTHON, Span
from .profiler import check_known, known_lanes, wall_clock

Function = Callable[..., Any]
Wrapper = Callable[[Function], Function]

BACKWARD = '_backward_'
COPY = '_copyto'


class Step:
    """What Python pushed in a training step, and what it called that pushes operators itself."""

    def __init__(self) -> None:
        self.start = wall_clock()
        # Of each lane and operator, in the order of pushes: what we call it, and its phase.
        self.pushed = collections.defaultdict[tuple[str, str], list[tuple[str, str]]](list)
        self.backward = self.kvstore = self.updated = False


class Listener:
    """Notes what is pushed, step by step, and for which phase."""

    def __init__(self) -> None:
        self.steps = [Step()]
        self.noted: list[Span] = []  # what others saw (see ``recording.note``)
        self._asked: list[tuple[float, str]] = []  # when Python pushed, and for which phase
        self._lanes: set[str] = set()  # of the devices that are used
        self._phases: list[str] = []

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Wrap MXNet's functions, and restore them whatever happens."""
        with contextlib.ExitStack() as stack:
            for owner, name, wrapper in self._wrappers(stack):
                original = getattr(owner, name)
                stack.callback(setattr, owner, name, original)
                setattr(owner, name, functools.wraps(original)(wrapper(original)))
            yield

    def _wrappers(self, stack: contextlib.ExitStack) -> Iterator[tuple[object, str, Wrapper]]:
        yield register, '_imperative_invoke', before(self._note_operator)
        yield mx.gluon.HybridBlock, '_call_cached_op', before(self._note_network)
        yield _LIB, 'MXAutogradBackwardEx', before(self._note_backward)
        for name in ('broadcast', 'push', 'pull', 'pushpull'):
            yield mx.kv.KVStore, name, before(self._note_kvstore)
        yield mx.gluon.Trainer, '_allreduce_grads', self.phase('allreduce')
        yield mx.gluon.Trainer, '_update', self.phase('update')
        yield scratch, 'sgd', self.phase('update')
        for chapter in (scratch, gluon):
            yield chapter, 'split_and_load', self.phase('copy')
        yield NDArrayBase, '__del__', functools.partial(freed_later, stack)

    @contextlib.contextmanager
    def phase(self, kind: str) -> Iterator[None]:
        """Note what is pushed in this block, or in the function that it decorates, as ``kind``."""
        self._phases.append(kind)
        try:
            yield
        finally:
            self._phases.pop()

    def _kind(self, name: str) -> str:
        """Name the phase of an operator that is being pushed."""
        step = self.steps[-1]
        if '_update' in name:  # of an optimizer, also when the key-value store calls it
            return 'update'
        if self._phases:
            return self._phases[-1]
        if autograd.is_recording():
            return 'forward'
        if step.backward and not step.updated:
            return 'allreduce'
        return 'copy' if name == COPY else 'compute'

    def _add(self, name: str, lanes: Sequence[str]) -> None:
        """Note a push; first wait, if with it a new step begins."""
        kind, label, lane = self._kind(name), name, lanes[0]
        self._asked.append((wall_clock(), kind))
        if self.steps[-1].updated and (kind == 'forward' or 'copy' in self._phases):
            # Two steps at once, and operators of one name could no longer be told apart.
            nd.waitall()
            self.steps.append(Step())
        self._use(lanes)
        if name == COPY:
            source, target = lanes
            name = f'Copy{source[:3].upper()}2{target[:3].upper()}'
            label = f'copy to {target}'
            lane = target if name == 'CopyCPU2GPU' else source  # who copies
        self.steps[-1].updated |= kind == 'update'
        self.steps[-1].pushed[lane, name].append((label, kind))

    def _use(self, lanes: Iterable[str]) -> None:
        for lane in lanes:
            check_known(lane)
            self._lanes.add(lane)

    def _note_operator(
        self, handle: int, inputs: Any, keys: Any, values: Any, out: Any, *_: Any
    ) -> None:
        # The first array says where; an operator that creates one has the device as an option.
        options = dict(zip(keys, values))
        devices = [x.context for x in arrays_in([inputs, out])] or [options.get('ctx', 'cpu(0)')]
        self._add(operator_name(handle), [lane_of(device) for device in devices])

    def _note_network(self, block: mx.gluon.HybridBlock, *inputs: Any) -> None:
        if block._cached_graph:  # else this first call compiles it
            graph = json.loads(block._cached_graph[1].tojson())
            lane = lane_of(next(arrays_in(inputs)).context)
            for node in graph['nodes']:
                if node['op'] != 'null':  # a parameter
                    self._add(node['op'], [lane])

    def _note_backward(self, *_: Any) -> None:
        self.steps[-1].backward = True
        self._asked.append((wall_clock(), 'backward'))

    def _note_kvstore(self, *arguments: Any, **more: Any) -> None:
        self._use(lane_of(x.context) for x in arrays_in([arguments, *more.values()]))
        self.steps[-1].kvstore = True

    def python_lane(self, end: float) -> Iterator[Span]:
        """Give a span for each run of pushes of one phase, until the next one or the ``end``."""
        runs = [next(run) for _, run in itertools.groupby(self._asked, key=lambda push: push[1])]
        for (start, kind), (stop, _) in itertools.pairwise([*runs, (end, '')]):
            yield Span(PYTHON, 'python', kind, start, stop)

    def spans(self, ran: Iterable[Span]) -> Iterator[Span]:
        """Give each operator that ran, in order, the phase for which it was pushed.

        Operators of one name run on one device in the order of their pushes. What Python did not
        push came from the backward pass or the store: after the forward pass, before all else.
        """
        starts = [step.start for step in self.steps[1:]]
        alike = collections.defaultdict(list)
        for span in ran:
            # The store's pinned memory has the number of the first CPU after the cores.
            lane = span.lane if span.lane in self._lanes else 'cpu(0)'
            alike[bisect.bisect_right(starts, span.start), lane, span.name].append(span)
        for (i, lane, name), spans in alike.items():
            step = self.steps[i]
            known = step.pushed[lane, name]
            early = [push for push in known if push[1] in ('copy', 'forward')]
            late = [push for push in known if push[1] not in ('copy', 'forward')]
            own = [pushed_by_mxnet(step, name)] * (len(spans) - len(known))
            for span, (label, kind) in zip(spans, early + own + late):
                yield Span(lane, kind, label, span.start, span.end)
        yield from self.noted


def pushed_by_mxnet(step: Step, name: str) -> tuple[str, str]:
    """Name an operator that Python did not push, and its phase."""
    if step.kvstore and name.startswith(('KVStore', 'ElementwiseSum', 'Copy')):
        return name, 'allreduce'
    # Some together are called so, or, in a compiled network, by all their names.
    label = 'several operators' if name == 'ImperativeBulk' or ',' in name else name
    if ',' in name and BACKWARD not in name:
        return label, 'forward'
    if step.backward:
        return label.removeprefix(BACKWARD), 'backward'
    return label, 'copy' if name.startswith('Copy') else 'compute'


def before(note: Function) -> Wrapper:
    """Make a wrapper that first calls ``note``, which returns None."""
    return lambda original: lambda *args, **more: note(*args, **more) or original(*args, **more)


def freed_later(stack: contextlib.ExitStack, free: Function) -> Function:
    """Make a wrapper that frees arrays of devices unknown to the profiler when ``stack`` ends.

    Freeing is work for the device, too, and would end the process (see ``check_known``).
    """

    def wrapped(array: nd.NDArray) -> None:
        if lane_of(array.context) in known_lanes():
            free(array)
        else:
            stack.callback(free, array)

    return wrapped


def lane_of(device: mx.Context | str) -> str:
    """Name the lane on which a device's work is done; pinned memory is filled by the first CPU."""
    name = str(device)
    return name if name.startswith(('cpu(', 'gpu(')) else 'cpu(0)'


def arrays_in(value: Any) -> Iterator[nd.NDArray]:
    """Yield the arrays of lists in lists."""
    if isinstance(value, nd.NDArray):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from arrays_in(part)


@functools.cache
def operator_name(handle: int) -> str:
    """Ask MXNet for the name that the profiler will use."""
    name = ctypes.c_char_p()
    check_call(_LIB.MXSymbolGetAtomicSymbolName(ctypes.c_void_p(handle), ctypes.byref(name)))
    return py_str(name.value)
