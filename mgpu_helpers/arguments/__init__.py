"""Check arguments, with one or two calls per function, so that checks do not clutter a lesson.

The checks raise before anything is changed, and say what was passed, what was expected and what to
do: TypeError for a wrong kind of object, ValueError for a wrong value. They import no framework;
they recognize arrays, devices and networks by their attributes and their class's library.
"""

from .steps import *  # noqa: F403
from .values import *  # noqa: F403
