"""Schedules played through for the puzzles: what ran when, and what it cost; no framework needed.

A schedule that cannot be played is a ``Hint``. Times are simulated: the same on every machine.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from mgpu_helpers.lanes import Lanes, Span
from mgpu_helpers.scaling import Link, ring

from .checking import expect
from .counting import counted

Order = list[tuple[str, int]]


class Played(NamedTuple):
    """What ran when, and the score, by its units."""

    lanes: Lanes
    score: dict[str, float]


class Work:
    """Lanes that do one thing at a time; times in seconds."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.free: dict[str, float] = {}

    def do(self, lane: str, kind: str, name: object, seconds: float, ready: float = 0.0) -> float:
        """Put a piece of work on a lane as soon as it is free and the work ready; give its end."""
        start = max(ready, self.free.get(lane, 0.0))
        self.free[lane] = start + seconds
        self.spans.append(Span(lane, kind, str(name), start, start + seconds))
        return start + seconds

    def played(self, score: dict[str, float]) -> Played:
        """Sum up, with the milliseconds until all is done."""
        return Played(Lanes(self.spans), {'ms': 1e3 * max(self.free.values()), **score})


def sends(
    algorithm: Callable[[Any], None], devices: int, size: int, link: Link,
    network: Link | None = None, per_server: int = 1,
) -> Played:  # fmt: skip
    """Play an allreduce: who sends when, within servers and, in lanes of their own, between."""
    found, work = counted(algorithm, devices, size), Work()
    crossing = 0
    for m in found.travel(link.seconds, network.seconds if network else None, per_server):
        here, there = m.source // per_server, m.target // per_server
        lane, name = f'device {m.source} sends', f'to {m.target}'
        if network and here != there:
            lane, name = f'server {here} to {there}', f'{m.source} to {m.target}'
            crossing += m.nbytes
        work.do(lane, 'allreduce', name, m.end - m.start, m.start)
    score = {'steps': found.steps, 'MB through the busiest port': found.busiest / 1e6}
    return work.played(score | {'MB between the servers': crossing / 1e6})


def accumulated(
    plan: Iterable[tuple[int, Sequence[int]]], megabytes: Sequence[float],
    examples: int, room: int, devices: int, link: Link,
) -> Played:  # fmt: skip
    """Play micro-batches on one of several devices alike, and the sums over the devices.

    A pass through a layer takes 0.1 ms and 0.05 ms an example, twice that an example backward.
    """
    plan, work, sent = [(n, [int(i) for i in layers]) for n, layers in plan], Work(), 0.0
    sizes, layers = [n for n, _ in plan], range(len(megabytes))
    expect(sum(sizes) == examples, f'{sizes} are {sum(sizes)} examples, not {examples}')
    expect(max(sizes) <= room, f'{max(sizes)} examples have no room: {room} have, at a time')
    expect(min(sizes) > 0, f'{sizes}: a micro-batch has at least one example')
    late = sorted(set(layers) - set(plan[-1][1]))
    expect(not late, f'the sums of layers {late} lack the examples of the last micro-batch')
    for n, summed in plan:
        expect(len(set(summed)) == len(summed), f'{summed}: a layer is there twice')
        for i in layers:
            work.do('device', 'forward', i, 1e-4 + 5e-5 * n)
        for i in reversed(layers):
            ready = work.do('device', 'backward', i, 1e-4 + 1e-4 * n)
            if i in summed:
                nbytes, sent = 1e6 * megabytes[i], sent + megabytes[i]
                work.do('network', 'allreduce', i, ring(devices, nbytes, link), ready)
    return work.played({'MB summed': sent})


def sharded(
    turns: Iterable[tuple[int, int]], megabytes: Sequence[float], ranks: int, link: Link
) -> Played:
    """Play an optimizer whose ranks own whole tensors: sums, updates, and what is sent to all.

    A backward pass takes 1 ms a tensor, an update 1.25 ms a MB; a message at a time travels.
    """
    work, queue = Work(), [(int(i), int(r)) for i, r in turns]
    tensors = [i for i, _ in queue]
    hint = f'tensors {sorted(tensors)}: each of the {len(megabytes)} has one turn'
    expect(sorted(tensors) == list(range(len(megabytes))), hint)
    expect(all(0 <= r < ranks for _, r in queue), f'there are ranks 0 to {ranks - 1}')
    ready = {}
    for i in reversed(range(len(megabytes))):
        for r in range(ranks):
            ready[i] = work.do(f'rank {r}', 'backward', i, 1e-3)
    moved: list[tuple[float, int]] = []
    while queue or moved:
        free = work.free.get('network', 0.0)
        starts = [max(free, ready[queue[0][0]])] if queue else []
        if moved and (not starts or max(free, min(moved)[0]) < starts[0]):
            at, i = min(moved)
            moved.remove((at, i))
            work.do('network', 'copy', i, link.seconds(1e6 * megabytes[i]), at)
        else:
            i, r = queue.pop(0)
            here = work.do('network', 'allreduce', i, link.seconds(1e6 * megabytes[i]), ready[i])
            moved.append((work.do(f'rank {r}', 'update', i, 1.25e-3 * megabytes[i], here), i))
    held = [sum(s.seconds for s in work.spans if (s.lane, s.kind) == (f'rank {r}', 'update'))
            for r in range(ranks)]  # fmt: skip
    return work.played({'MB of state on the fullest rank': round(max(held) / 1.25e-3, 6)})


def in_buckets(
    buckets: Iterable[Iterable[int]], ms: Sequence[float], megabytes: Sequence[float], link: Link
) -> Played:
    """Play a backward pass, buckets on their way, and the next forward pass, which needs them.

    A layer takes its ``ms`` forward and twice that back.
    """
    work, layers = Work(), range(len(ms))
    ready: dict[int, float] = {}
    arrived: dict[int, float] = {}
    buckets = [[int(i) for i in bucket] for bucket in buckets]
    sent = sorted(i for bucket in buckets for i in bucket)
    hint = f'{buckets}: each of the layers 0 to {len(ms) - 1} is in one bucket'
    expect(sent == list(layers), hint)
    for i in reversed(layers):
        ready[i] = work.do('device', 'backward', i, 2e-3 * ms[i])
    for bucket in filter(None, buckets):
        seconds = link.seconds(1e6 * sum(megabytes[i] for i in bucket))
        name, full = ' '.join(map(str, bucket)), max(ready[i] for i in bucket)
        arrived |= dict.fromkeys(bucket, work.do('network', 'allreduce', name, seconds, full))
    for i in layers:
        work.do('device', 'forward', i, 1e-3 * ms[i], arrived[i])
    return work.played({})


PASSES = {'forward': 'forward', 'inputs': 'backward', 'weights': 'compute'}  # and their colours


def pipelined(orders: Sequence[Order], micro_batches: int) -> Played:
    """Play a pipeline whose passes take 1 ms each; backward is cut in two.

    ``inputs`` gives the gradient that the stage before waits for, ``weights`` that of the weights.
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
        stuck = [f'stage {s} to {o[0][0]} {o[0][1]}' for s, o in enumerate(waiting) if o]
        expect(len(ends) > before, f'nothing goes on: {", ".join(stuck)} cannot come yet')
    return work.played({'micro-batches kept at a time': max(kept)})


def packed(
    ranks: Iterable[Iterable[int]], lengths: Sequence[int], size: int, receive: float
) -> Played:
    """Play causal attention within documents of so many pieces, laid end to end, on some ranks.

    A piece of queries takes 1 ms with a piece of keys, 0.5 ms with its own. A rank receives keys
    that it lacks one piece at a time, in the order in which its queries need them.
    """
    owned, work, received = [[int(i) for i in mine] for mine in ranks], Work(), 0
    begins = [sum(lengths[:d]) for d, n in enumerate(lengths) for _ in range(n)]
    there = sorted(i for mine in owned for i in mine)
    hint = f'pieces {there}: each of 0 to {len(begins) - 1} is on one rank'
    expect(there == list(range(len(begins))), hint)
    counts = [len(mine) for mine in owned]
    room = len(begins) // size
    hint = f'{counts} pieces on {len(counts)} ranks: each of {size} has memory for {room}'
    expect(counts == [room] * size, hint)
    for r, mine in enumerate(owned):
        arrived = dict.fromkeys(mine, 0.0)
        keys = {query: range(begins[query], query + 1) for query in mine}
        for key in [key for query in mine for key in keys[query] if key not in mine]:
            if key not in arrived:
                arrived[key] = work.do(f'rank {r} receives', 'copy', key, receive)
                received += 1
        for query in mine:
            for key in sorted(keys[query], key=lambda key: arrived[key]):  # noqa: B023
                seconds = 5e-4 if key == query else 1e-3
                work.do(f'rank {r}', 'compute', query, seconds, arrived[key])
    return work.played({'pieces received': received})
