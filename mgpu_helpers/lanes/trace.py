"""A timeline as a trace for Chrome's and Perfetto's viewers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .spans import rows

if TYPE_CHECKING:
    from .core import Lanes

# The nearest that Chrome's viewer has names for (Perfetto's picks its own colours by name).
_CHROME = {
    'compute': 'vsync_highlight_color',
    'forward': 'rail_response',
    'backward': 'light_memory_dump',
    'copy': 'rail_load',
    'allreduce': 'rail_idle',
    'update': 'detailed_memory_dump',
}


def chrome_trace(timeline: Lanes) -> dict[str, Any]:
    """Lay a timeline out as the JSON object of Chrome's *Trace Event Format*.

    Parameters
    ----------
    timeline : Lanes
        Not an empty one.

    Returns
    -------
    dict

    Examples
    --------
    >>> from mgpu_helpers.lanes import Span, Lanes
    >>> trace = chrome_trace(Lanes([Span('cpu(0)', 'forward', 'dot', 0.0, 0.5)]))
    >>> trace['traceEvents'][-1]['dur']  # microseconds
    500000.0
    """
    start, _ = timeline.ends()
    return {
        'traceEvents': list(_events(timeline, start)),
        'displayTimeUnit': 'ms',
        'otherData': {'title': timeline.title},
    }


def _events(timeline: Lanes, start: float) -> Iterator[dict[str, Any]]:
    """Yield the events of a trace: names of processes and threads, then the spans."""
    for pid, lane in enumerate(timeline.lanes, 1):
        yield _name(pid, 0, 'process_name', name=lane)
        yield _name(pid, 0, 'process_sort_index', sort_index=pid)
        dealt = rows([s for s in timeline.spans if s.lane == lane])
        for tid, row in enumerate(dealt, 1):
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
                    'cname': _CHROME[s.kind],
                    'args': {'kind': s.kind},
                }


def _name(pid: int, tid: int, what: str, **args: object) -> dict[str, Any]:
    return {'ph': 'M', 'name': what, 'pid': pid, 'tid': tid, 'args': args}
