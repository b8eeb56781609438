"""Ratios between cases: of speed, waiting time, memory, and of what the machine can do at most.

More is always better: above 1, the first of the two does better. A ratio is taken within a round,
between runs that followed one another; median and range are over the rounds.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass

from mgpu_helpers.scaling import MODELS

from .chapter3 import COPY, NAIVE


@dataclass(frozen=True)
class Figure:
    """A measured row of the table; ``values`` are the ratios, one for each repeat."""

    group: str
    what: str
    over: str
    values: list
    aim: float | None
    brief: str

    @property
    def median(self):
        return statistics.median(self.values)

    @property
    def wanted(self):
        return '' if self.aim is None else f'≥ {self.aim}'

    @property
    def met(self):
        """Whether the median is what is wanted, in the two digits that are printed."""
        return '' if self.aim is None else 'yes' if round(self.median, 2) >= self.aim else 'no'

    @property
    def range(self):
        return f'{min(self.values):.2f} to {max(self.values):.2f}'


def rate(processes):
    """Examples per second, of all processes together."""
    return sum(one['examples_per_second'] for one in processes)


def inverse_wait(processes):
    """One over the seconds waited: more is better."""
    return 1 / processes[0]['waited']


def inverse_memory(processes):
    """One over the peak gigabytes of the whole process tree: more is better."""
    return 1 / processes[0]['peak_gb']


def busy(processes):
    """Share of the time in which the stages of a pipeline compute."""
    return processes[0]['busy']


def busy_by_formula(processes):
    """The same share by the formula of the bubble."""
    return processes[0]['formula']


def fastest_product(processes):
    """Billions of operations a second in the library's fastest matrix product, 2 stand-ins."""
    return max(rate for name, rate in processes[0]['2 at once'].items() if name != 'copy')


def training_flops(model):
    """Count the operations to train on one example; a multiplication and an addition are two.

    The backward pass takes twice the forward pass, for the gradients of each layer's weights and
    of its inputs; the first layer needs no gradient of its inputs.
    """
    layers = [layer for layer in MODELS[model].layers if layer.flops]
    return 3 * sum(layer.flops for layer in layers) - layers[0].flops


def training_speed(model):
    """Make a function that returns billions of operations a second in training."""
    flops = training_flops(model) / 1e9
    return lambda processes: rate(processes) * flops


@dataclass(frozen=True)
class Row:
    """A ratio of two cases, under the heading ``group``: more is better.

    The numerator is ``of``, the denominator the best of the cases in ``over``, several ways to do
    the same. ``aim`` is the least that we want, ``brief`` the row's text in the book (empty: not in
    the book); ``score`` and ``baseline`` turn what a case's processes measured into the numerator
    and the denominator (as the numerator, if None); ``label`` replaces the denominator's name.
    """

    group: str
    of: str
    over: tuple
    aim: float | None = None
    brief: str = ''
    score: Callable = rate
    baseline: Callable | None = None
    label: str = ''

    @property
    def cases(self):
        return self.of, *self.over

    def figure(self, measured):
        """Compute the row from ``measuring.measure``'s result; None if a case is missing there."""
        if not all(measured.get(name) for name in self.cases):
            return None
        baseline = self.baseline or self.score
        baselines = {name: [baseline(one) for one in measured[name]] for name in self.over}
        over = max(baselines, key=lambda name: statistics.median(baselines[name]))
        scores = [self.score(one) for one in measured[self.of]]
        values = [a / b for a, b in zip(scores, baselines[over])]
        return Figure(self.group, self.of, self.label or over, values, self.aim, self.brief)


@dataclass(frozen=True)
class Sum(Row):
    """Chapter 3's best way to allreduce, over another way or over a memory copy.

    One process measures all ways in turn, several times.
    """

    way: str = NAIVE

    def figure(self, measured):
        if not measured.get(self.of):
            return None
        times = measured[self.of][0][0]['times']
        medians = {way: statistics.median(times[way]) for way in times if way != COPY}
        best = min(medians, key=medians.get)
        values = [other / mine for other, mine in zip(times[self.way], times[best])]
        over = 'a memory copy of the same size' if self.way == COPY else self.way
        return Figure(self.group, f'{self.of}: {best}', over, values, self.aim, self.brief)
