"""What people see while they wait and afterwards: a progress bar, a small table.

Both work in a terminal and in a notebook, and leave in a notebook only what nbval can compare.
"""

from __future__ import annotations

import contextlib
import functools
import io
import re
import sys
from collections.abc import Iterable, Iterator, Sized
from typing import Any, TypeVar

from tabulate import tabulate
from tqdm.std import tqdm

from .processes import worker

T = TypeVar('T')

NUMBER = re.compile(r'[-+−]?\d[\d,.]*(?:e[-+]?\d+)?(?: ?[^\W\d]\S{0,4}| ?%)?')
NONE = '-'  # in a cell: there is no value here


class Table:
    """A small table that prints as text and shows as HTML in a notebook.

    Parameters
    ----------
    rows : list of sequences
        The cells; numbers are already formatted.
    headers : list of str
        One title per column.

    Examples
    --------
    >>> Table([['cpu(0)', 'one core']], ['device', 'what it is'])
    device    what it is
    --------  ------------
    cpu(0)    one core
    """

    def __init__(self, rows: Iterable[Iterable[object]], headers: Iterable[str]) -> None:
        self.rows, self.headers = [list(row) for row in rows], list(headers)

    def __repr__(self) -> str:
        return tabulate(self.rows, self.headers, colalign=self._align(), disable_numparse=True)

    def _repr_html_(self) -> str:
        page = tabulate(
            self.rows, self.headers, 'html', colalign=self._align(), disable_numparse=True
        )
        # tabulate writes no style for columns on the left, and JupyterLab's own is on the right.
        return re.sub('<(t[hd])>', r'<\1 style="text-align: left;">', page)

    def _align(self) -> list[str]:
        """Columns of numbers, also with a sign or a unit, to the right; words to the left."""
        known = [[str(cell) for cell in cells if str(cell) != NONE] for cells in zip(*self.rows)]
        return [
            'right' if cells and all(map(NUMBER.fullmatch, cells)) else 'left' for cells in known
        ]


class Line:
    """One line that changes: in a notebook and on a terminal; elsewhere nothing.

    In a notebook it begins as an empty text. Left empty at the end, the stored output is the same
    in every run.

    Examples
    --------
    >>> Line().show('half of it')
    """

    def __init__(self) -> None:
        self._handle: Any = None
        self._shown = ''

    def show(self, text: str) -> None:
        """Put ``text`` in the place of what was shown before."""
        if not text and not self._shown:
            return
        self._shown = text
        if in_notebook():
            from IPython.display import display

            if self._handle is None:
                self._handle = display({'text/plain': ''}, raw=True, display_id=True)
            self._handle.update({'text/plain': text}, raw=True)
        elif sys.stderr.isatty():
            sys.stderr.write(f'\r\x1b[K{text}')  # to the line's beginning, clear it, write
            sys.stderr.flush()


class NotebookBar(tqdm):
    """tqdm's bar in one updated display.

    tqdm's own notebook bar is a widget: stored in a notebook, it comes back as an error message.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.show = Line().show
        super().__init__(*args, file=io.StringIO(), ascii=False, mininterval=0.2, **kwargs)

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        self.show(str(self) if msg is None else msg)


class WorkerBar(NotebookBar):
    """tqdm's bar in a process that ``processes.run_workers`` started: its starter shows it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.show = functools.partial(worker.send, 'bar')


def in_notebook() -> bool:
    """Tell whether this process is the kernel of a notebook.

    Returns
    -------
    bool

    Examples
    --------
    >>> in_notebook()
    False
    """
    ipython = sys.modules.get('IPython')  # a kernel has imported it; do not pay for it elsewhere
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and hasattr(shell, 'kernel')


def show_figures() -> None:
    """Let this kernel show matplotlib's figures as pictures, from the first one on.

    Matplotlib's inline backend registers itself only when the cell that loads it has ended, so the
    first figure would come out as ``<Figure size ...>``. Formats that are registered stay.

    Examples
    --------
    >>> show_figures()
    """
    if not in_notebook():
        return
    from IPython import get_ipython
    from IPython.core.pylabtools import select_figure_formats
    from matplotlib.figure import Figure

    formatters = get_ipython().display_formatter.formatters.values()
    if not any(Figure in formatter.type_printers for formatter in formatters):
        select_figure_formats(get_ipython(), {'png'})


@contextlib.contextmanager
def progress(iterable: Iterable[T], label: str, unit: str = 'batch') -> Iterator[Iterator[T]]:
    """Show how far a loop over ``iterable`` is, how fast, and how long it will take.

    A bar in a notebook and on a terminal, nothing where output goes into a file; a worker's bar is
    sent to the process that started it, as a message ``'bar'`` with the text. It is gone when
    the ``with`` block ends, also by an error or Ctrl-C.

    Parameters
    ----------
    iterable : iterable
        What to go through; with a length, the bar knows its end.
    label : str
        What stands before the bar.
    unit : str
        What one item is called.

    Yields
    ------
    iterator
        Over the items of ``iterable``.

    Examples
    --------
    >>> with progress([1, 2, 3], 'adding') as numbers:
    ...     print(sum(numbers))
    6
    """
    bar = NotebookBar if in_notebook() else WorkerBar if worker.started_as_worker() else tqdm
    options = {'disable': None} if bar is tqdm else {}  # None: off unless a terminal
    total = len(iterable) if isinstance(iterable, Sized) else None
    with bar(total=total, desc=label, unit=unit, leave=False, dynamic_ncols=True, **options) as bar:

        def counted() -> Iterator[T]:
            for item in iterable:
                yield item
                bar.update()

        yield counted()
