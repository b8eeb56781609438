from .calls import run_workers as run_workers
from .calls import start_workers as start_workers
from .group import SETTLE as SETTLE
from .group import Group as Group
from .group import Member as Member
from .group import ProcessFailed as ProcessFailed

__all__ = ['SETTLE', 'Group', 'Member', 'ProcessFailed', 'run_workers', 'start_workers']
