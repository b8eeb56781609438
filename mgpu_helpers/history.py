"""What a training run leaves behind: times, losses and accuracies per epoch, as table and plot."""

from __future__ import annotations

import base64
import html
import itertools
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .display import Table, in_notebook, panels, png

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass
class History:
    """One training run, an entry per epoch: its table, its plot, its throughput."""

    label: str  # what the run is called in a table or plot, such as '2 devices, batch 256'
    num_examples: int  # training examples seen per epoch
    seconds: list[float] = field(default_factory=list)  # of training alone, without evaluation
    train_loss: list[float] = field(default_factory=list)  # per example, while parameters moved
    test_acc: list[float] = field(default_factory=list)  # share that is right after the epoch
    params: Any = field(default=None, repr=False, compare=False)  # what was trained, if it is kept
    _curve: LiveCurve | None = field(default=None, init=False, repr=False, compare=False)

    def add(self, seconds: float, train_loss: float, test_acc: float) -> None:
        """Append one epoch."""
        self.seconds.append(seconds)
        self.train_loss.append(train_loss)
        self.test_acc.append(test_acc)
        if self._curve:
            self._curve.draw()

    @property
    def examples_per_second(self) -> list[float]:
        """Throughput in training, per epoch."""
        return [self.num_examples / s for s in self.seconds]

    def table(self) -> Table:
        """Lay the epochs out, one per row."""
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
        """Draw training loss and test accuracy per epoch, this run's and others' in one picture.

        As a cell's last value it shows itself; in a script, ``.savefig('run.png')`` keeps it.
        """
        runs = (self, *others)
        empty = [run.label for run in runs if not run.seconds]
        if empty:
            raise ValueError(f'{empty[0]!r} has no epoch to plot yet: train for one epoch or more')
        figure, axes_of = panels(1, 2)
        # Marks shrink from run to run: where two agree, both can be seen.
        looks = [('o-', 9), ('s--', 6), ('^:', 4)]
        titles = {'train_loss': 'training loss', 'test_acc': 'test accuracy'}
        for axes, (name, title) in zip(axes_of, titles.items(), strict=True):
            for run, (style, size) in zip(runs, itertools.cycle(looks)):
                values = getattr(run, name)
                axes.plot(range(1, len(values) + 1), values, style, ms=size, label=run.label)
            axes.set(xlabel='epoch', title=title)
            axes.locator_params(axis='x', integer=True)
        lowest = min(min(run.test_acc) for run in runs)
        # Where all runs are good, what differs would be a line along the upper edge.
        axes.set_ylim(min(0.9, math.floor(10 * lowest) / 10) if lowest >= 0.8 else 0, 1)
        axes.legend(fontsize='small')
        return figure

    def live(self, num_epochs: int) -> None:
        """In a notebook, show a curve of the test accuracy that grows with every ``add``.

        One epoch would be a single dot, so it has none.
        """
        if in_notebook() and num_epochs > 1:
            self._curve = LiveCurve(self, num_epochs)


class LiveCurve:
    """A run's test accuracy per epoch in a notebook, drawn again whenever ``draw`` is called.

    Its text is the same from beginning to end, so that the stored output can be compared; the
    picture is what changes.
    """

    def __init__(self, history: History, num_epochs: int) -> None:
        self._history, self._num_epochs, self._handle = history, num_epochs, None
        self.draw()

    def draw(self) -> None:
        """Show what the history holds now."""
        from IPython.display import display

        shown = {
            'text/plain': f'test accuracy after each epoch, {self._history.label}',
            'image/png': self._png(),
        }
        if self._handle is None:
            self._handle = display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)

    def _png(self) -> str:
        figure, axes = panels(height=2.6, width=5)
        values = self._history.test_acc
        axes.plot(range(1, len(values) + 1), values, marker='o')
        axes.set(xlim=(0.8, self._num_epochs + 0.2), ylim=(0, 1))
        axes.set(xlabel='epoch', title=f'test accuracy, {self._history.label}')
        axes.locator_params(axis='x', integer=True)
        return base64.b64encode(png(figure)).decode()
