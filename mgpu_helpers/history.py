"""The record of a training run: times, losses and accuracies per epoch, as a table and a plot."""

from __future__ import annotations

import html
import itertools
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .display import Table, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass
class History:
    """The record of one training run, an entry per epoch, to be shown as a table or a plot."""

    label: str  # the run's name in a table or plot, such as '2 devices, batch 256'
    num_examples: int  # training examples seen per epoch
    seconds: list[float] = field(default_factory=list)  # of training alone, without evaluation
    train_loss: list[float] = field(default_factory=list)  # per example, during the epoch's updates
    test_acc: list[float] = field(default_factory=list)  # fraction correct after the epoch
    params: Any = field(default=None, repr=False, compare=False)  # the trained parameters, if saved

    def add(self, seconds: float, train_loss: float, test_acc: float) -> str:
        """Append one epoch and return a line to print; raise if the loss is NaN or infinite."""
        epoch = len(self.seconds) + 1
        if not math.isfinite(train_loss):
            raise FloatingPointError(
                f'epoch {epoch} ended with a mean loss of {train_loss}: training has diverged. '
                'Lower lr, or check the images for NaN'
            )
        self.seconds.append(seconds)
        self.train_loss.append(train_loss)
        self.test_acc.append(test_acc)
        return f'epoch {epoch}, time: {seconds:.1f} sec, test acc: {test_acc:.4f}'

    @property
    def examples_per_second(self) -> list[float]:
        """Return the training throughput in each epoch."""
        return [self.num_examples / s for s in self.seconds]

    def table(self) -> Table:
        """Tabulate the epochs, one per row."""
        columns = (self.seconds, self.train_loss, self.test_acc, self.examples_per_second)
        rows = [
            (i, f'{s:.1f} sec', f'{loss:.3f}', f'{acc:.2f}', f'{rate:,.0f}')
            for i, (s, loss, acc, rate) in enumerate(zip(*columns, strict=True), 1)
        ]
        return Table(rows, ['epoch', 'time', 'train loss', 'test acc', 'examples/sec'])

    def __repr__(self) -> str:
        return f'{self.label}\n{self.table()!r}'

    def _repr_html_(self) -> str:
        return f'<b>{html.escape(self.label)}</b>{self.table()._repr_html_()}'

    def plot(self, *others: History) -> Figure:
        """Plot training loss and test accuracy per epoch, for this run and others together.

        As a cell's last expression it is displayed; in a script, ``.savefig('run.png')`` saves it.
        """
        runs = (self, *others)
        empty = [run.label for run in runs if not run.seconds]
        if empty:
            raise ValueError(f'{empty[0]!r} has no epoch to plot yet: train for at least one epoch')
        figure, (losses, accuracies) = panels(1, 2)
        # Markers shrink from run to run, so that both are visible where two agree.
        for run, (style, size) in zip(runs, itertools.cycle([('o-', 9), ('s--', 6), ('^:', 4)])):
            epochs = range(1, len(run.seconds) + 1)
            losses.plot(epochs, run.train_loss, style, ms=size, label=run.label)
            accuracies.plot(epochs, run.test_acc, style, ms=size, label=run.label)
        for axes, title in ((losses, 'training loss'), (accuracies, 'test accuracy')):
            axes.set(xlabel='epoch', title=title)
            axes.locator_params(axis='x', integer=True)
        lowest = min(min(run.test_acc) for run in runs)
        # If all runs are accurate, an axis from 0 would squeeze their curves into one line.
        accuracies.set_ylim(min(0.9, math.floor(10 * lowest) / 10) if lowest >= 0.8 else 0, 1)
        accuracies.legend(fontsize='small')
        return figure
