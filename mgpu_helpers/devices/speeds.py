"""The gain from a second device: the rates of one and two devices, as a table."""

from __future__ import annotations

from statistics import median

from ..display import Table

ONE, BOTH, TWO = 'one device, one core', 'one device, both cores', 'two devices, a core each'


class Speeds:
    """Examples per second of each setting, a list of measurements; prints as a table."""

    def __init__(self, title: str, rates: dict[str, list[float]]) -> None:
        self.title, self.rates = title, rates

    def table(self) -> Table:
        """Tabulate each setting's median, its range, and the speed-up of two devices."""
        rows = []
        for name, rates in self.rates.items():
            gain = median(list(self.rates.values())[-1]) / median(rates)
            span = f'{min(rates):,.0f} to {max(rates):,.0f}'
            rows.append([name, f'{median(rates):,.0f}', span, f'{gain:.2f}'])
        return Table(rows, [self.title, 'median', 'range', 'two devices, over this'])

    def __repr__(self) -> str:
        return repr(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()
