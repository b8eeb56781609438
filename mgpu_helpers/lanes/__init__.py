"""What ran when, on which lane: spans of time, their picture, tables and trace.

A lane is whatever works on its own: a device, a link, a process. The times may have been measured
(``mgpu_helpers.timeline``) or computed (``mgpu_helpers.scaling``); nothing here asks which.

>>> from mgpu_helpers.lanes import Span, Lanes
>>> Lanes([Span('cpu(0)', 'forward', 'dot', 0.0, 0.5)]).seconds
0.5
"""

from .core import Lanes
from .spans import KINDS, Span

__all__ = ['KINDS', 'Span', 'Lanes']
