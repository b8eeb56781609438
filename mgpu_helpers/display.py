"""What people see while they wait and afterwards: a progress bar, a small table.

Both work in a terminal and in a notebook, and leave in a notebook only what nbval can compare.
"""

import io
import sys

from tabulate import tabulate
from tqdm.std import tqdm


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

    def __init__(self, rows, headers):
        self.rows, self.headers = [list(row) for row in rows], list(headers)

    def __repr__(self):
        return tabulate(self.rows, self.headers, disable_numparse=True)

    def _repr_html_(self):
        return tabulate(self.rows, self.headers, tablefmt='html', disable_numparse=True)


class NotebookBar(tqdm):
    """tqdm's bar in one updated display.

    tqdm's own notebook bar is a widget: stored in a notebook, it comes back as an error message.
    This one begins and ends as an empty text, so that the stored output is the same in every run.
    """

    def __init__(self, *args, **kwargs):
        self.handle = None
        super().__init__(*args, file=io.StringIO(), mininterval=0.2, **kwargs)

    def display(self, msg=None, pos=None):
        from IPython.display import display

        if self.handle is None:
            self.handle = display({'text/plain': ''}, raw=True, display_id=True)
        else:
            self.handle.update({'text/plain': str(self) if msg is None else msg}, raw=True)


def in_notebook():
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


def progress(iterable, label, unit='batch'):
    """Yield from ``iterable`` and show how far it is, how fast and how long it will take.

    A bar in a notebook and on a terminal, nothing where output goes into a file; gone when done,
    also after an error or Ctrl-C.

    Parameters
    ----------
    iterable : iterable
        What to go through; with a length, the bar knows its end.
    label : str
        What stands before the bar.
    unit : str
        What one item is called.

    Examples
    --------
    >>> sum(progress([1, 2, 3], 'adding'))
    6
    """
    bar = NotebookBar if in_notebook() else tqdm
    options = {} if bar is NotebookBar else {'disable': None}  # None: off unless a terminal
    with bar(iterable, desc=label, unit=unit, leave=False, dynamic_ncols=True, **options) as items:
        yield from items
