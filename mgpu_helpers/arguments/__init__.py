"""Argument checks, a call or two per function, so that they do not drown a lesson.

They raise before anything is changed, and say what was passed, what was expected and what to do:
TypeError for a wrong kind of object, ValueError for a wrong value. No framework is imported:
arrays, devices and networks are recognized by their class's library and by their attributes.
"""

from .steps import *  # noqa: F403
from .values import *  # noqa: F403
