"""Exercises that check themselves: each answer is right, or gets one sentence with a hint.

The tasks are in ``exercises/``, one notebook per chapter. The checks are here. They never depend on
time, only on results that are the same on any machine: bits, float64 values, counts.
"""

from .checking import check as check
from .checking import given as given
