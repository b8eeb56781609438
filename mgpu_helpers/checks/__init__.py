"""Checks of what the user passes: one call each, so that they do not drown the lesson.

Each raises before anything is changed, and names the value, what was expected and the way out:
TypeError for a thing of another kind, ValueError for a wrong value.
"""

from .arrays import *  # noqa: F403
from .replicas import *  # noqa: F403
from .values import *  # noqa: F403
