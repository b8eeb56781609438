"""Exercises that check themselves: a wrong answer gets a hint of one sentence.

The tasks are in ``exercises/``, one notebook per chapter. The checks are here. They never depend on
timing, only on results that are the same on every machine: bits, float64 values, counts.
"""

from .checking import check as check
from .checking import given as given
