"""Checks of what the user passes: one call each, so that they do not drown the lesson.

Each raises before anything is changed, and names the value, what was expected and the way out:
TypeError for a thing of another kind, ValueError for a wrong value. No framework is imported:
arrays, devices and networks are known by the library of their class, and by what they have.
"""

from .arrays import *  # noqa: F403
from .steps import *  # noqa: F403
from .values import *  # noqa: F403
