"""Argument checks: one or two calls per function, so that they do not clutter a lesson.

A check raises before anything is changed; the message says what was passed, what was expected and
what to do. TypeError is for a wrong type, ValueError for a wrong value. No framework is imported:
attributes and a class's library identify arrays, devices and networks.
"""

from .steps import *  # noqa: F403
from .values import *  # noqa: F403
