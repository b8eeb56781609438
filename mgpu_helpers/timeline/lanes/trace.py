"""Spans as a trace for Chrome's and Perfetto's viewers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .spans import Span, ends, rows


def chrome_trace(title: str, lanes: Mapping[str, Sequence[Span]]) -> dict[str, Any]:
    """Lay the spans of each lane out as the JSON object of Chrome's *Trace Event Format*.

    A process per lane, an event of phase ``X`` per span with its kind as category, times in
    microseconds from the first start.
    """
    start, _ = ends(itertools.chain(*lanes.values()), title)
    events = list(_events(lanes, start))
    return {'traceEvents': events, 'displayTimeUnit': 'ms', 'otherData': {'title': title}}


def _events(lanes: Mapping[str, Sequence[Span]], start: float) -> Iterator[dict[str, Any]]:
    """Yield the names of processes, then the spans; those of one thread must not overlap."""
    for pid, (lane, spans) in enumerate(lanes.items(), 1):
        for what, value in (('name', lane), ('sort_index', pid)):
            yield {'ph': 'M', 'name': f'process_{what}', 'pid': pid, 'args': {what: value}}
        for tid, row in enumerate(rows(spans), 1):
            for s in row:
                where = {'pid': pid, 'tid': tid, 'ts': round(1e6 * (s.start - start), 3)}
                took = {'dur': round(1e6 * s.seconds, 3)}
                yield {'ph': 'X', 'name': s.name, 'cat': s.kind, **where, **took}
