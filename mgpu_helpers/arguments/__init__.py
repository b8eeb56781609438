"""Argument checks, one or two calls per function, so that they do not clutter a lesson.

They raise before anything is changed, and say what was passed, what was expected and what to do:
TypeError for a wrong kind of object, ValueError for a wrong value. They import no framework, and
recognize arrays, devices and networks by their class's library and attributes.
"""

from .steps import *  # noqa: F403
from .values import *  # noqa: F403
