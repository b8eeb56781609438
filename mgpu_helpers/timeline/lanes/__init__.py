"""What ran when, on which lane: spans of time, their picture, tables and trace.

A lane is whatever works on its own: a device, a link, a process. The times may have been measured
or computed; nothing here asks which.

>>> from mgpu_helpers.timeline.lanes import Lanes, Span
>>> spans = [Span('cpu(0)', 'forward', 'dot', 0.0, 0.75), Span('cpu(1)', 'update', 'sgd', 0.5, 1.0)]
>>> Lanes(spans).seconds, Lanes(spans).overlap
(1.0, 0.25)
"""

from .core import Lanes
from .spans import KINDS, Span

__all__ = ['KINDS', 'Span', 'Lanes']
