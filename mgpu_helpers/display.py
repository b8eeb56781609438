"""Output for readers: progress bars, tables, numbers, one style for all plots."""

from __future__ import annotations

import contextlib
import math
import os
import re
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = TypeVar('T')

NUMBER = re.compile(r'[-+−]?\d[\d,.]*(?:e[-+]?\d+)?(?: ?[^\W\d]\S{0,4}| ?%)?')
NONE = '-'  # a cell without a value

# Plots have the background of the drawn figures, readable on light and dark pages.
LOOK: dict[str, Any] = {'facecolor': '#FBFAF7', 'layout': 'constrained'}
# Colours that colour-blind readers can distinguish (Okabe and Ito), for lines and letters.
BLUE, ORANGE, GREEN, PINK = '#0072B2', '#E69F00', '#009E73', '#CC79A7'
RED, SKY, DEEP = '#D55E00', '#56B4E9', '#004F7C'
CYCLE = BLUE, ORANGE, GREEN, PINK, SKY, RED  # of devices in figures, of lines in plots
WHITE, EDGE, GREY, SOFT, INK = '#FFFFFF', '#C9C7C1', '#85837E', '#4A4A4A', '#1F1F1F'


class Table:
    """A small table of formatted cells; prints as text and renders as HTML in a notebook."""

    def __init__(self, rows: Iterable[Iterable[object]], headers: Iterable[str]) -> None:
        self.rows, self.headers = [list(row) for row in rows], list(headers)

    def __repr__(self) -> str:
        return self._text('simple')

    def _repr_html_(self) -> str:
        page = self._text('html')
        # tabulate sets no style for left-aligned columns, which JupyterLab would right-align.
        return re.sub('<(t[hd])>', r'<\1 style="text-align: left;">', page)

    def _text(self, form: str) -> str:
        from tabulate import tabulate  # takes 0.15 s, and a worker's start needs no table

        # Align numbers, also with a sign or a unit, to the right; words to the left.
        columns = [{str(cell) for cell in column} - {NONE} for column in zip(*self.rows)]
        align = ['right' if c and all(map(NUMBER.fullmatch, c)) else 'left' for c in columns]
        return tabulate(self.rows, self.headers, form, colalign=align, disable_numparse=True)


def in_notebook() -> bool:
    """Return whether this process is a notebook's kernel."""
    ipython = sys.modules.get('IPython')  # a kernel has imported it; do not pay for it elsewhere
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and hasattr(shell, 'kernel')


def show_figures() -> None:
    """Make this kernel show matplotlib's figures as pictures, including the first one.

    Matplotlib's inline backend registers itself only when the cell that loads it has ended, so the
    first figure would appear as ``<Figure size ...>``. Formats already registered are kept.
    """
    if not in_notebook():
        return
    from IPython import get_ipython
    from IPython.core.pylabtools import select_figure_formats
    from matplotlib.figure import Figure

    formatters = get_ipython().display_formatter.formatters.values()
    if not any(Figure in formatter.type_printers for formatter in formatters):
        select_figure_formats(get_ipython(), {'png'})


def panels(
    rows: int = 1, columns: int = 1, height: float = 3, width: float = 8, **options: Any
) -> tuple[Figure, Any]:
    """Return a figure, sized in inches, and its axes (``Figure.subplots``) with a light grid.

    pyplot does not know this figure, so a cell that ends with it shows it once, not twice.
    """
    from matplotlib.figure import Figure

    show_figures()
    figure = Figure(figsize=(width, height), **LOOK)
    axes = figure.subplots(rows, columns, **options)
    for one in figure.axes:
        one.set_prop_cycle(color=CYCLE)
        one.grid(alpha=0.3)
        one.set_axisbelow(True)
        one.tick_params(labelsize='small')
    return figure, axes


def quantity(value: float, unit: str) -> str:
    """Format a quantity with three digits and a decimal prefix.

    >>> quantity(138e6, 'B'), quantity(0.00123, 's'), quantity(4.5e-5, 's'), quantity(0, 's')
    ('138 MB', '1.23 ms', '45 µs', '0 s')
    """
    # Matplotlib's EngFormatter writes 1.23456 M, and the book, which uses this, has no matplotlib.
    power = min(max(math.floor(math.log10(abs(value)) / 3), -2), 4) if value else 0
    return f'{value / 1000**power:.3g} {("", "k", "M", "G", "T", "µ", "m")[power]}{unit}'


def percent(share: float) -> str:
    """Format a share as a percentage; a small one does not round to 0%.

    >>> percent(0.45), percent(0.004), percent(0)
    ('45%', '0.4%', '0%')
    """
    return f'{share:.0%}' if not 0 < share < 0.095 else f'{share:.1%}'


@contextlib.contextmanager
def progress(
    iterable: Iterable[T], label: str | None, unit: str = 'batch', total: int | None = None
) -> Iterator[Iterator[T]]:
    """Show a progress bar for a loop, with its speed and the time left; yield its iterator.

    The bar appears after half a second, in a notebook or on a terminal; there is none without a
    label, or if output goes to a file. It disappears when the block or the cell ends, even after an
    error.
    """
    if label is None:
        yield iter(iterable)
        return
    from tqdm import tqdm  # tqdm.auto's widget shows an error in a reopened notebook

    options: dict[str, Any] = {'disable': None}  # shown only on a terminal
    if in_notebook() and os.environ.get('TQDM_DISABLE') != '1' and 'RANK' not in os.environ:
        options = {'file': sys.stdout}  # stderr is shown on red
    bar = tqdm(iterable, label, total, unit=unit, leave=False, delay=0.5, **options)

    def close(*_: object) -> None:
        bar.close()

    # After an error the traceback keeps a comprehension's iterator; so close it after the cell.
    events = sys.modules['IPython'].get_ipython().events if in_notebook() else None
    if events:
        events.register('post_run_cell', close)
    try:
        yield iter(bar)
    finally:
        close()
        if events and close in events.callbacks['post_run_cell']:
            events.unregister('post_run_cell', close)
