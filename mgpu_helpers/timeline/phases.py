"""Which phase of training each operator belongs to: noted when Python asks for it, matched later.

The engine runs operators later than Python asks for them, and the profiler does not know what they
are for. So the functions of MXNet that push them are wrapped during a recording.
"""

from __future__ import annotations

import bisect
import collections
import contextlib
import ctypes
import functools
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mxnet import Context, autograd, gluon, kvstore, nd
from mxnet.base import _LIB, check_call, py_str
from mxnet.ndarray import register
from mxnet.ndarray._internal import NDArrayBase

from .. import scratch
from ..lanes import Span
from .profiler import Event, check_known, known_lanes, wall_clock

Function = Callable[..., Any]
Wrapper = Callable[[Function], Function]

BACKWARD = '_backward_'
BULK = 'ImperativeBulk'
COPY = '_copyto'
SEVERAL = 'several operators'


class Push(NamedTuple):
    """An operator that Python asked for: where it will run, under which names, for what."""

    lane: str
    name: str  # as the profiler will call it
    label: str  # as we call it
    kind: str


@dataclass
class Step:
    """A training step: what Python pushed, and what was called that pushes operators itself."""

    start: float
    pushes: list[Push] = field(default_factory=list)
    compiled: bool = False  # a hybridized network
    backward: bool = False
    kvstore: bool = False
    updated: bool = False


class Listener:
    """Notes what is pushed, step by step, and for which phase."""

    def __init__(self) -> None:
        self.steps = [Step(wall_clock())]
        self.noted: list[Span] = []  # what others saw (see ``recording.note``)
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
        yield _LIB, 'MXAutogradBackwardEx', before(self._note_backward)
        yield register, '_imperative_invoke', before(self._note_operator)
        yield gluon.HybridBlock, '_call_cached_op', before(self._note_network)
        for name in ('broadcast', 'push', 'pull', 'pushpull'):
            yield kvstore.KVStore, name, before(self._note_kvstore)
        yield gluon.Trainer, '_allreduce_grads', self.phase('allreduce')
        yield gluon.Trainer, '_update', self.phase('update')
        yield scratch, 'sgd', self.phase('update')
        yield scratch, 'split_and_load', self.phase('copy')
        chapter_2 = sys.modules.get('mgpu_helpers.gluon')  # if it is in use; no need to load it
        if chapter_2:
            yield chapter_2, 'split_and_load', self.phase('copy')
        yield NDArrayBase, '__del__', functools.partial(held_back, stack)

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

    def _add(self, name: str, lane: str, target: str | None = None) -> None:
        """Note a push; first wait, if with it a new step begins."""
        kind, label = self._kind(name), name.removeprefix(BACKWARD)
        if self.steps[-1].updated and (kind == 'forward' or 'copy' in self._phases):
            # Two steps at once, and operators of one name could no longer be told apart.
            nd.waitall()
            self.steps.append(Step(wall_clock()))
        step = self.steps[-1]
        step.updated = step.updated or kind == 'update'
        self._use(lane)
        if target:
            self._use(target)
            name, label = f'Copy{lane[:3].upper()}2{target[:3].upper()}', f'copy to {target}'
            lane = target if name == 'CopyCPU2GPU' else lane  # the GPU does it, else the source
        step.pushes.append(Push(lane, name, label, kind))

    def _use(self, lane: str) -> None:
        check_known(lane)
        self._lanes.add(lane)

    def _note_operator(
        self, handle: int, inputs: Sequence[Any], keys: Any, values: Any, out: Any, *_: Any
    ) -> None:
        name, lanes = operator_name(handle), [lane_of(x.context) for x in arrays_in([inputs, out])]
        if not lanes:  # it creates an array
            lanes = [lane_of(dict(zip(keys, values)).get('ctx', 'cpu(0)'))]
        self._add(name, lanes[0], lanes[1] if name == COPY else None)

    def _note_network(self, block: gluon.HybridBlock, *inputs: Any) -> None:
        if block._cached_op is not None:  # else this first call compiles it
            lane = lane_of(next(arrays_in(inputs)).context)
            graph = json.loads(block._cached_graph[1].tojson())
            for node in graph['nodes']:
                if node['op'] != 'null':  # a parameter
                    self._add(node['op'], lane)
            self.steps[-1].compiled = True

    def _note_backward(self, *_: Any) -> None:
        self.steps[-1].backward = True

    def _note_kvstore(self, *arguments: Any, **more: Any) -> None:
        for array in arrays_in([arguments, list(more.values())]):
            self._use(lane_of(array.context))
        self.steps[-1].kvstore = True

    def spans(self, events: Iterable[Event]) -> Iterator[Span]:
        """Give each operator that ran the phase for which it was pushed; events are by their start.

        Operators of one name run on one device in the order in which they were pushed. What Python
        did not push came from the backward pass or the key-value store: after the forward pass, and
        before all else.
        """
        starts = [step.start for step in self.steps[1:]]
        ran = collections.defaultdict(list)
        for event in events:
            # The store's pinned memory has the number of the first CPU after the cores.
            lane = event.lane if event.lane in self._lanes else 'cpu(0)'
            ran[bisect.bisect_right(starts, event.start), lane, event.name].append(event)
        for (i, lane, name), alike in ran.items():
            pushed = [p for p in self.steps[i].pushes if (p.lane, p.name) == (lane, name)]
            early = [p for p in pushed if p.kind in ('copy', 'forward')]
            late = [p for p in pushed if p.kind not in ('copy', 'forward')]
            own = [pushed_by_mxnet(self.steps[i], lane, name)] * (len(alike) - len(pushed))
            for event, push in zip(alike, early + own + late):
                yield Span(lane, push.kind, push.label, event.start, event.end)
        yield from self.noted


def before(note: Function) -> Wrapper:
    """Make a wrapper that calls ``note``, which gives nothing, with the arguments first."""
    return lambda original: lambda *args, **more: note(*args, **more) or original(*args, **more)


def held_back(stack: contextlib.ExitStack, delete: Function) -> Function:
    """Make a wrapper that frees arrays of devices unknown to the profiler when ``stack`` ends.

    Freeing is work for the device, too, and would end the process (see ``check_known``).
    """

    def wrapped(array: nd.NDArray) -> None:
        if lane_of(array.context) in known_lanes():
            delete(array)
        else:
            stack.callback(delete, array)

    return wrapped


def lane_of(device: Context | str) -> str:
    """Name the lane on which a device's work is done; pinned memory is filled by the first CPU."""
    name = str(device)
    return name if name.startswith(('cpu(', 'gpu(')) else 'cpu(0)'


def arrays_in(value: Any) -> Iterator[nd.NDArray]:
    """Yield the arrays of a list of lists."""
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


def pushed_by_mxnet(step: Step, lane: str, name: str) -> Push:
    """Describe an operator of this name that Python did not push itself."""
    label, kind = name.removeprefix(BACKWARD), 'copy' if name.startswith('Copy') else 'compute'
    if name == BULK or ',' in name:  # some, or a part of a compiled network by all their names
        label = SEVERAL
    if step.kvstore and name.startswith(('KVStore', 'ElementwiseSum', 'Copy')):
        kind = 'allreduce'
    elif ',' in name and BACKWARD not in name:
        kind = 'forward'
    elif step.backward and not (name == BULK and step.compiled):  # else of either pass
        kind = 'backward'
    return Push(lane, name, label, kind)
