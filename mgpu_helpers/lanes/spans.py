"""A piece of work: on which lane, of which kind, from when to when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .. import checks

# Okabe and Ito's colours, told apart with any colour vision. Work is blue: `forward` and `backward`
# where the two are known apart, else `compute`.
KINDS = {
    'compute': '#0072B2',
    'forward': '#56B4E9',
    'backward': '#004F7C',
    'copy': '#009E73',
    'allreduce': '#E69F00',
    'update': '#CC79A7',
}
MOVING = ('copy', 'allreduce')  # what a device can do beside its computing


@dataclass(frozen=True)
class Span:
    """One piece of work on one lane.

    Parameters
    ----------
    lane : str
        Who worked, for example ``'cpu(0)'``.
    kind : str
        One of ``KINDS``.
    name : str
        What was done, for example ``'Convolution'``.
    start, end : float
        Seconds, from any moment that all spans of a timeline share.

    Raises
    ------
    TypeError
        If lane or name is no text, or a time no number.
    ValueError
        If the kind is unknown, a time is not finite, or the end lies before the start.

    Examples
    --------
    >>> Span('cpu(0)', 'forward', 'Convolution', 0.25, 1.0).seconds
    0.75
    """

    lane: str
    kind: str
    name: str
    start: float
    end: float

    def __post_init__(self) -> None:
        for what in ('lane', 'name'):
            if not isinstance(getattr(self, what), str):
                raise TypeError(f'{what} must be a text, not {checks.shown(getattr(self, what))}')
        if self.kind not in KINDS:
            raise ValueError(f'kind must be one of {", ".join(KINDS)}, not {self.kind!r}')
        for what in ('start', 'end'):
            checks.finite_number(what, getattr(self, what))
        if self.end < self.start:
            raise ValueError(
                f'{self.name} on {self.lane} ends at {self.end} s, before it starts at '
                f'{self.start} s: swap the two'
            )

    @property
    def seconds(self) -> float:
        """float: how long it took."""
        return self.end - self.start


def rows(spans: Iterable[Span]) -> list[list[Span]]:
    """Deal a lane's spans out to rows in which none overlaps another: one row if one will do.

    Else computing comes first and moving below it, so that it is seen what is hidden behind what.

    Examples
    --------
    >>> ring = Span('gpu(0)', 'allreduce', 'ring', 1.0, 3.0)
    >>> layer = Span('gpu(0)', 'backward', 'layer 1', 0.0, 2.0)
    >>> [[span.name for span in row] for row in rows([ring, layer])]
    [['layer 1'], ['ring']]
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
