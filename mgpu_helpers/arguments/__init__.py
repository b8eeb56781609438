"""Checks of arguments: one call each, so that they do not drown the lesson.

Each raises before anything is changed, and names the value, what was expected and the way out:
TypeError for a wrong kind of object, ValueError for a wrong value. No framework is imported:
arrays, devices and networks are recognized by their class's library and by their attributes.
"""

from .arrays import *  # noqa: F403
from .steps import *  # noqa: F403
from .values import *  # noqa: F403
