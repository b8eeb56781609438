"""What functions may be called with: a call or two each, so that checks do not drown a lesson.

They raise before anything is changed, and name the value, what was expected and the way out:
TypeError for a wrong kind of object, ValueError for a wrong value. No framework is imported:
arrays, devices and networks are recognized by their class's library and by their attributes.
"""

from .steps import *  # noqa: F403
from .values import *  # noqa: F403
