"""Exercises that check themselves: each answer is right, or gets one sentence with a hint.

The tasks stand in ``exercises/``, a notebook a chapter. Here is what checks them: never by time,
always by what holds on any machine: bits, float64, counts.
"""

from .checking import check as check
from .checking import given as given
