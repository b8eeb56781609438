"""Which operators Python pushes to MXNet's engine, and for which phase of training.

The engine runs operators later than Python asks for them, and the profiler does not know what they
are for. So the library functions that push them are wrapped during a recording, and each operator
is noted with its phase.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from mxnet import Context, autograd, gluon, nd
from mxnet.base import _LIB, check_call, py_str

from .. import scratch
from ..lanes import Span
from .events import check_known, lane_of, unknown, wall_clock

if TYPE_CHECKING:
    Device = tuple[str, int]  # such as ('cpu', 0)
    Function = Callable[..., Any]
    Wrapper = Callable[[Function], Function]

COPY = '_copyto'


class Push(NamedTuple):
    """An operator that Python asked for: where it will run, under which names, for what."""

    lane: str
    name: str  # as the profiler will call it
    label: str  # as we call it
    kind: str
    compiled: bool = False  # part of a hybridized network


@dataclass
class Step:
    """A training step: what Python pushed, and where in that list MXNet pushed operators itself."""

    start: float
    pushes: list[Push] = field(default_factory=list)
    backward: dict[str, int] = field(default_factory=dict)  # lane -> place
    kvstore: int | None = None  # place


class Listener:
    """Notes what is pushed, step by step, and for which phase."""

    def __init__(self) -> None:
        self.steps = [Step(wall_clock())]
        self.devices: set[Context] = set()
        self.noted: list[Span] = []  # what others saw (see ``note``)
        self._phases: list[str] = []
        self._updated = False
        self._held: list[Any] = []  # handles of arrays that must not be freed yet
        # The handle of a compiled network -> the names of its operators.
        self._graphs: dict[int, list[str]] = {}

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Wrap MXNet's functions, and restore them whatever happens."""
        with contextlib.ExitStack() as stack:
            for owner, name, wrapper in self._wrappers():
                original = getattr(owner, name)
                stack.callback(setattr, owner, name, original)
                setattr(owner, name, functools.wraps(original)(wrapper(original)))
            yield

    def _wrappers(self) -> Iterator[tuple[object, str, Wrapper]]:
        yield _LIB, 'MXNDArrayFree', self._hold_back
        yield _LIB, 'MXImperativeInvokeEx', self._before(self._note_operator)
        yield _LIB, 'MXInvokeCachedOpEx', self._before(self._note_network)
        yield _LIB, 'MXAutogradBackwardEx', self._before(self._note_backward)
        for name in ('Broadcast', 'Push', 'PushPull', 'PullWithSparse'):
            for ending in ('', 'Ex'):
                yield _LIB, f'MXKVStore{name}{ending}', self._before(self._note_kvstore)
        yield gluon.HybridBlock, '_call_cached_op', self._before(self._note_graph)
        yield gluon.Trainer, '_allreduce_grads', self.phase('allreduce')
        yield gluon.Trainer, '_update', self.phase('update')
        yield scratch, 'sgd', self.phase('update')
        yield scratch, 'split_and_load', self.phase('copy')
        chapter_2 = sys.modules.get('mgpu_helpers.gluon')  # if it is in use; no need to load it
        if chapter_2:
            yield chapter_2, 'split_and_load', self.phase('copy')

    def _hold_back(self, free: Function) -> Function:
        """Make a wrapper that frees arrays later where the profiler does not know the device.

        Freeing is work for the device, too, and would end the process (see ``check_known``).
        """

        def wrapped(handle: Any) -> int:
            if unknown(*_device(_int(handle))):
                self._held.append(handle)
                return 0
            return free(handle)

        return wrapped

    def free_held(self) -> None:
        """Free what was held back, once the profiler is off."""
        while self._held:
            check_call(_LIB.MXNDArrayFree(self._held.pop()))

    def _before(self, note: Function) -> Wrapper:
        """Make a wrapper that calls ``note``, which gives nothing, with the arguments first."""
        return lambda original: lambda *args: note(*args) or original(*args)

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
        if '_update' in name:  # of an optimizer, also when the key-value store calls it
            return 'update'
        if self._phases:
            return self._phases[-1]
        if autograd.is_recording():
            return 'forward'
        if self.steps[-1].backward and not self._updated:
            return 'allreduce'
        return 'copy' if name == COPY else 'compute'

    def _add(self, name: str, devices: Sequence[Device], **more: Any) -> None:
        """Note a push; first wait, if with it a new step begins."""
        kind = self._kind(name)
        if self._updated and (kind == 'forward' or 'copy' in self._phases):
            # Two steps at once, and operators of one name could no longer be told apart.
            nd.waitall()
            self.steps.append(Step(wall_clock()))
            self._updated = False
        self._updated = self._updated or kind == 'update'
        for device_type, number in devices:
            check_known(device_type, number)
            if device_type in ('cpu', 'gpu'):  # not pinned memory
                self.devices.add(Context(device_type, number))
        lane, label = lane_of(*devices[0]), name.removeprefix('_backward_')
        if name == COPY and len(devices) > 1:
            lane, name, label = _copied(*devices)
        self.steps[-1].pushes.append(Push(lane, name, label, kind, **more))

    def _note_operator(self, *arguments: Any) -> None:
        creator, n_in, inputs, n_out, outputs, n_options, keys, values, *_ = arguments
        arrays = inputs[: _int(n_in)][:1]
        if n_out._obj.value:
            arrays = [*arrays, outputs._obj[0]]
        devices = [_device(handle) for handle in arrays]
        if not devices:  # it creates an array
            options = dict(zip(keys[: _int(n_options)], values[: _int(n_options)]))
            device_type, number = options.get(b'ctx', b'cpu(0)').decode().rstrip(')').split('(')
            devices = [(device_type, int(number))]
        name = _operator_name(creator.value)
        self._add(name, devices if name == COPY else devices[:1])

    def _note_graph(self, block: gluon.HybridBlock, *_: Any) -> None:
        if block._cached_op is not None:
            graph = json.loads(block._cached_graph[1].tojson())
            names = [node['op'] for node in graph['nodes'] if node['op'] != 'null']
            self._graphs[block._cached_op.handle.value] = names

    def _note_network(self, network: Any, n_in: Any, inputs: Any, *_: Any) -> None:
        devices = [_device(handle) for handle in inputs[: _int(n_in)][:1]]
        for name in self._graphs.get(network.value, ()):
            self._add(name, devices, compiled=True)

    def _note_backward(self, n: Any, heads: Any, *_: Any) -> None:
        step = self.steps[-1]
        for handle in heads[: _int(n)]:
            step.backward.setdefault(lane_of(*_device(handle)), len(step.pushes))

    def _note_kvstore(self, *arguments: Any) -> None:
        lists = (a for a in arguments if getattr(a, '_type_', None) is ctypes.c_void_p)
        arrays = (handles for handles in lists if isinstance(handles, ctypes.Array))
        for handle in itertools.chain.from_iterable(arrays):
            check_known(*_device(handle))
        if self.steps[-1].kvstore is None:
            self.steps[-1].kvstore = len(self.steps[-1].pushes)


def _copied(source: Device, target: Device) -> tuple[str, str, str]:
    """Tell where a copy runs, what the profiler calls it, and what we call it."""
    names = ['GPU' if device[0] == 'gpu' else 'CPU' for device in (source, target)]
    runs_on = target if names == ['CPU', 'GPU'] else source
    return lane_of(*runs_on), 'Copy{}2{}'.format(*names), f'copy to {lane_of(*target)}'


def _int(value: Any) -> int:
    """Take a number that MXNet's Python passes as C's or as its own."""
    return getattr(value, 'value', value)


def _device(handle: Any) -> Device:
    """Ask MXNet on which device an array is: type and number."""
    kind, number = ctypes.c_int(), ctypes.c_int()
    check_call(
        _LIB.MXNDArrayGetContext(ctypes.c_void_p(handle), ctypes.byref(kind), ctypes.byref(number))
    )
    return Context.devtype2str[kind.value], number.value


@functools.cache
def _operator_name(creator: Any) -> str:
    name = ctypes.c_char_p()
    check_call(_LIB.MXSymbolGetAtomicSymbolName(ctypes.c_void_p(creator), ctypes.byref(name)))
    return py_str(name.value)
