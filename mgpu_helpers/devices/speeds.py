"""Tabulate the gain from a second device: the examples per second of one and of two."""

from __future__ import annotations

from statistics import median

from ..display import Table

ONE, BOTH, TWO = 'one device, one core', 'one device, both cores', 'two devices, a core each'


class Speeds(Table):
    """A table of each setting's examples per second; ``rates`` lists all measurements."""

    def __init__(self, title: str, rates: dict[str, list[float]]) -> None:
        self.rates = rates
        two = [*rates.values()][-1]
        rows = []
        for name, of in rates.items():
            if of:  # empty for a setting that another rank measured
                span, gain = f'{min(of):,.0f} to {max(of):,.0f}', median(two) / median(of)
                rows.append([name, f'{median(of):,.0f}', span, f'{gain:.2f}'])
        super().__init__(rows, [title, 'median', 'range', 'two devices, over this'])
