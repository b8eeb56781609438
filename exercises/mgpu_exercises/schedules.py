"""Simulate schedules for the puzzles: when each piece runs, and the cost; needs no framework.

A schedule that cannot run raises a ``Hint``. Times are simulated: the same on every machine.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mgpu_helpers.lanes import Lanes, Span
from mgpu_helpers.scaling import Link

from .checking import expect
from .counting import counted

Order = list[tuple[str, int]]


class Played(NamedTuple):
    """A simulated schedule: its lanes, and its scores by unit."""

    lanes: Lanes
    score: dict[str, float]


class Work:
    """Lanes that each do one thing at a time; times in seconds."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.free: dict[str, float] = {}

    def do(self, lane: str, kind: str, name: object, seconds: float, ready: float = 0.0) -> float:
        """Run work on a lane as soon as the lane is free and the work is ready; return its end."""
        start = max(ready, self.free.get(lane, 0.0))
        self.free[lane] = start + seconds
        self.spans.append(Span(lane, kind, str(name), start, start + seconds))
        return start + seconds

    def played(self, score: dict[str, float]) -> Played:
        """Return the schedule, with its total time in milliseconds added to the score."""
        return Played(Lanes(self.spans), {'ms': 1e3 * max(self.free.values()), **score})


def sends(
    algorithm: Callable[[Any], None], devices: int, size: int, link: Link,
    network: Link | None = None, per_server: int = 1,
) -> Played:  # fmt: skip
    """Simulate the sends of an allreduce, within servers and, in separate lanes, between them."""
    found, work = counted(algorithm, devices, size), Work()
    crossing = 0
    for m in found.travel(link.seconds, network.seconds if network else None, per_server):
        here, there = m.source // per_server, m.target // per_server
        lane, name = f'device {m.source} sends', f'to {m.target}'
        if network and here != there:
            lane, name = f'server {here} to {there}', f'{m.source} to {m.target}'
            crossing += m.nbytes
        work.do(lane, 'allreduce', name, m.end - m.start, m.start)
    score = {'rounds': found.rounds, 'MB through the busiest port': found.busiest / 1e6}
    return work.played(score | {'MB between the servers': crossing / 1e6})


PASSES = {'forward': 'forward', 'inputs': 'backward', 'weights': 'compute'}  # and their colours


def pipelined(orders: Sequence[Order], micro_batches: int) -> Played:
    """Simulate a pipeline whose passes take 1 ms each; the backward pass is split in two.

    ``inputs`` computes the gradient that the previous stage waits for, ``weights`` the rest.
    """
    orders = [list(order) for order in orders]
    work, last, kept = Work(), len(orders) - 1, [0] * len(orders)
    for stage, order in enumerate(orders):
        for kind in PASSES:
            made = sorted(i for k, i in order if k == kind)
            hint = f'stage {stage}: {kind} passes {made}, not one for each of {micro_batches}'
            expect(made == list(range(micro_batches)), hint)
    ends: dict[tuple[str, int, int], float] = {}
    waiting = [[(str(kind), int(i)) for kind, i in order] for order in orders]
    held = list(kept)
    while any(waiting):
        before = len(ends)
        for stage, order in enumerate(waiting):
            if not order:
                continue
            kind, i = order[0]
            needs = {
                'forward': [('forward', i, stage - 1)] if stage else [],
                'inputs': [('forward', i, stage), *[('inputs', i, stage + 1)] * (stage < last)],
                'weights': [('inputs', i, stage)],
            }[kind]
            if all(need in ends for need in needs):
                ready = max((ends[need] for need in needs), default=0.0)
                ends[kind, i, stage] = work.do(f'stage {stage}', PASSES[kind], i, 1e-3, ready)
                held[stage] += (kind == 'forward') - (kind == 'weights')
                kept[stage] = max(kept[stage], held[stage])
                order.pop(0)
        stuck = [f'{o[0][0]} {o[0][1]} of stage {s}' for s, o in enumerate(waiting) if o]
        expect(len(ends) > before, f'deadlock: {", ".join(stuck)} can never run')
    return work.played({'micro-batches kept at a time': max(kept)})
