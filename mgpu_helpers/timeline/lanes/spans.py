"""A piece of work: on which lane, of which kind, from when to when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...display import BLUE, DEEP, GREEN, ORANGE, PINK, SKY

# Work is blue: `forward` and `backward` where the two are known apart, else `compute`.
KINDS = {
    'compute': BLUE,
    'forward': SKY,
    'backward': DEEP,
    'copy': GREEN,
    'allreduce': ORANGE,
    'update': PINK,
}
MOVING = ('copy', 'allreduce')  # what a device can do beside its computing


@dataclass(frozen=True)
class Span:
    """One piece of work on one lane."""

    lane: str  # who worked, such as 'cpu(0)'
    kind: str  # one of KINDS
    name: str  # what was done, such as 'Convolution'
    start: float  # seconds, from any moment that all spans beside it share
    end: float

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.end - self.start


def ends(spans: Iterable[Span], title: str = '') -> tuple[float, float]:
    """Tell when the first span starts and the last one ends; ``title`` is for the error message."""
    spans = list(spans)
    start = min((s.start for s in spans), default=0)
    end = max((s.end for s in spans), default=0)
    if end <= start:
        name = f' in {title!r}' if title else ''
        raise ValueError(
            f'nothing was recorded{name}: no device did anything that took time; put the '
            'training step inside the recorded block'
        )
    return start, end


def rows(spans: Iterable[Span]) -> list[list[Span]]:
    """Deal a lane's spans out to rows in which none overlaps another: one row if one will do.

    Else computing comes first and moving below it, so that it is seen what is hidden behind what.
    """
    spans = sorted(spans, key=lambda s: (s.start, s.end))
    together = _deal(spans)
    if len(together) < 2:
        return together
    moving = [s for s in spans if s.kind in MOVING]
    return _deal([s for s in spans if s.kind not in MOVING]) + _deal(moving)


def _deal(spans: Iterable[Span]) -> list[list[Span]]:
    rows: list[list[Span]] = []
    nanosecond = 1e-9  # below that, an overlap is rounding
    for span in spans:
        free = next((row for row in rows if row[-1].end <= span.start + nanosecond), None)
        if free is None:
            rows.append(free := [])
        free.append(span)
    return rows
