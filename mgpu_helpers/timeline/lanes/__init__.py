"""What ran when, on which lane: spans of time, their picture, tables and trace.

A lane is whatever works on its own: a device, a link, a process. The times may have been measured
or computed; nothing here asks which.
"""

from .core import Lanes
from .spans import KINDS, Span

__all__ = ['KINDS', 'Span', 'Lanes']
