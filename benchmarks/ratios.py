"""Ratios of what cases measured: of speed, of waiting, of memory, of what is possible at all.

Every figure is such that more is better, and above 1 means that the first of the two does better.
It is taken within a round, of runs that followed one another; median and range are over the rounds.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass

from mgpu_helpers.scaling import MODELS

from .chapter3 import COPY, NAIVE


@dataclass(frozen=True)
class Figure:
    """A row of the table, measured: ``values`` are the ratios, one for each repeat."""

    group: str
    what: str
    over: str
    values: list
    aim: float | None
    brief: str

    @property
    def median(self):
        """The median of the repeats."""
        return statistics.median(self.values)

    @property
    def wanted(self):
        """Say what the median should be, at least."""
        return '' if self.aim is None else f'≥ {self.aim}'

    @property
    def range(self):
        """Say the smallest and the largest of the repeats."""
        return f'{min(self.values):.2f} to {max(self.values):.2f}'


def rate(processes):
    """Examples per second, of all processes together."""
    return sum(one['examples_per_second'] for one in processes)


def soonness(processes):
    """One over the seconds that one waits."""
    return 1 / processes[0]['waited']


def lightness(processes):
    """One over the gigabytes of the whole process tree."""
    return 1 / processes[0]['peak_gb']


def busy(processes):
    """Share of the time in which the stages of a pipeline compute."""
    return processes[0]['busy']


def busy_at_best(processes):
    """What the bubble leaves of it."""
    return processes[0]['formula']


def product(processes):
    """Billions of operations a second in the library's fastest matrix product, 2 stand-ins."""
    return max(rate for name, rate in processes[0]['2 at once'].items() if name != 'copy')


def training_flops(model):
    """Operations to train on one example.

    Forward, and backward twice that: the gradients of each layer's weights and of its inputs, of
    which the first layer does not need the second. A multiplication and an addition are two.
    """
    layers = [layer for layer in MODELS[model].layers if layer.flops]
    return 3 * sum(layer.flops for layer in layers) - layers[0].flops


def work_on(model):
    """Make a function that gives billions of operations a second in training."""
    flops = training_flops(model) / 1e9
    return lambda processes: rate(processes) * flops


@dataclass(frozen=True)
class Row:
    """A ratio of two cases, below the heading ``group``: more is better.

    ``of`` stands above the line; below it the one of ``over``, which do the same in several ways,
    that does best here. ``aim`` is what we want at least, ``brief`` what the book says of it (empty
    where it does not stand there); ``good`` and ``yard`` make a number of what a kind's processes
    measured, above and below; ``label`` stands below the line instead of the kind's name.
    """

    group: str
    of: str
    over: tuple
    aim: float | None = None
    brief: str = ''
    good: Callable = rate
    yard: Callable | None = None
    label: str = ''

    @property
    def cases(self):
        """All that must have been measured."""
        return self.of, *self.over

    def figure(self, measured):
        """Compute it from what ``measuring.measure`` gives; None where a case was not measured."""
        if not all(measured.get(name) for name in self.cases):
            return None
        yard = self.yard or self.good
        yards = {name: [yard(one) for one in measured[name]] for name in self.over}
        over = max(yards, key=lambda name: statistics.median(yards[name]))
        above = [self.good(one) for one in measured[self.of]]
        values = [a / b for a, b in zip(above, yards[over])]
        return Figure(self.group, self.of, self.label or over, values, self.aim, self.brief)


@dataclass(frozen=True)
class Sum(Row):
    """An allreduce, the best way of chapter 3, over another way or over a memory copy.

    It is measured in one process, which repeats by itself, all ways in turn.
    """

    way: str = NAIVE

    def figure(self, measured):
        """Compute it; see ``Row``."""
        if not measured.get(self.of):
            return None
        times = measured[self.of][0][0]['times']
        typical = {way: statistics.median(times[way]) for way in times if way != COPY}
        best = min(typical, key=typical.get)
        values = [other / mine for other, mine in zip(times[self.way], times[best])]
        over = 'a memory copy of the same size' if self.way == COPY else self.way
        return Figure(self.group, f'{self.of}: {best}', over, values, self.aim, self.brief)
