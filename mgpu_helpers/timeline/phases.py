"""Which phase of training each recorded operator belongs to: match events with pushes."""

from __future__ import annotations

import bisect
import collections
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..lanes import Span

if TYPE_CHECKING:
    from .events import Event
    from .pushes import Step

BACKWARD = '_backward_'
BULK = 'ImperativeBulk'
SEVERAL = 'several operators'


def spans(events: Iterable[Event], steps: Sequence[Step]) -> list[Span]:
    """Give each operator that ran the phase for which it was pushed; events are sorted by start.

    Operators of one name run on one device in the order in which they were pushed. What MXNet
    pushed on its own is not among the pushes: its place in that order is where the backward pass
    or the key-value store was called.
    """
    starts = [step.start for step in steps[1:]]
    by_name = collections.defaultdict(list)
    for event in events:
        by_name[bisect.bisect_right(starts, event.start), event.lane, event.name].append(event)
    result = []
    for (i, lane, name), ran in by_name.items():
        kinds = _expected(steps[i], lane, name, len(ran))
        result += [
            Span(lane, kind, label, event.start, event.end)
            for event, (label, kind) in zip(ran, kinds)
        ]
    return result


def _expected(step: Step, lane: str, name: str, count: int) -> list[tuple[str, str]]:
    """List label and kind of each of ``count`` operators of one name that ran on a lane."""
    if ',' in name:  # a part of a compiled network, by the names of its operators
        return [(SEVERAL, 'backward' if BACKWARD in name else 'forward')] * count
    if name.startswith(BACKWARD):
        return [(name.removeprefix(BACKWARD), 'backward')] * count
    if '_update' in name:
        return [(name, 'update')] * count
    pushed = [(i, p) for i, p in enumerate(step.pushes) if (p.lane, p.name) == (lane, name)]
    place, kind = _own(step, lane, name)
    cut = sum(i < place for i, _ in pushed)
    known = [(p.label, p.kind) for _, p in pushed]
    label = SEVERAL if name == BULK else name
    return known[:cut] + [(label, kind)] * (count - len(known)) + known[cut:]


def _own(step: Step, lane: str, name: str) -> tuple[int, str]:
    """Say where in the step, and for which phase, MXNet itself pushed operators of this name."""
    summed = name.startswith('KVStore') or name == 'ElementwiseSum'
    if step.kvstore is not None and (summed or name.startswith('Copy')):
        return step.kvstore, 'allreduce'
    if name == BULK and any(p.compiled for p in step.pushes):
        return len(step.pushes), 'compute'  # of the forward or of the backward pass
    if step.backward:
        return step.backward.get(lane, min(step.backward.values())), 'backward'
    return len(step.pushes), 'copy' if name.startswith('Copy') else 'compute'
