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
    return {
        'traceEvents': list(_events(lanes, start)),
        'displayTimeUnit': 'ms',
        'otherData': {'title': title},
    }


def _events(lanes: Mapping[str, Sequence[Span]], start: float) -> Iterator[dict[str, Any]]:
    """Yield the events of a trace: names of processes and threads, then the spans."""
    for pid, (lane, spans) in enumerate(lanes.items(), 1):
        yield _name(pid, 0, 'process_name', name=lane)
        yield _name(pid, 0, 'process_sort_index', sort_index=pid)
        for tid, row in enumerate(rows(spans), 1):
            # Events of one thread must not overlap, unless one lies within the other.
            yield _name(pid, tid, 'thread_name', name='operators')
            for s in row:
                yield {
                    'ph': 'X',
                    'name': s.name,
                    'cat': s.kind,
                    'pid': pid,
                    'tid': tid,
                    'ts': round(1e6 * (s.start - start), 3),
                    'dur': round(1e6 * s.seconds, 3),
                    'args': {'kind': s.kind},
                }


def _name(pid: int, tid: int, what: str, **args: object) -> dict[str, Any]:
    return {'ph': 'M', 'name': what, 'pid': pid, 'tid': tid, 'args': args}
