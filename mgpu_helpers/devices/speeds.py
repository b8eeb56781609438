"""What a second device is worth: the rates of one and two devices, as a table."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from ..display import Table
from .cores import free_cores

ONE, BOTH, TWO = 'one device, one core', 'one device, both cores', 'two devices, a core each'


class Speeds:
    """Examples per second of each setting, a list of measurements; prints as a table."""

    def __init__(self, title: str, measure: Callable[[], dict[str, list[float]]]) -> None:
        self.title, self._measure, self.rates = title, measure, measure()

    def table(self) -> Table:
        """Lay out the median of each setting, its range, and how many times as fast two are."""
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

    def two_beat_one(self, by: float = 1.2) -> bool:
        """Tell whether two stand-ins train ``by`` times as fast as one with one core.

        Other work only makes slower, so the best of each counts; if they do not suffice, all is
        measured again, three times at most. Where no two cores are free nobody can tell, and GPUs
        may gain less: the answer is yes.
        """
        for _ in range(3):
            one, two = (max(self.rates.get(name, [0])) for name in (ONE, TWO))
            if two >= by * one or free_cores() <= 1.5:
                return True
            self.rates = self._measure()
        return False
