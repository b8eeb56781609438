from .calls import run_workers as run_workers
from .calls import start_workers as start_workers
from .engines import leashed as leashed
from .group import SETTLE as SETTLE
from .group import Group as Group
from .group import Member as Member
from .group import ProcessFailed as ProcessFailed
from .launching import RankFailed as RankFailed
from .launching import launch as launch
from .pythons import python_with as python_with

__all__ = [
    'SETTLE',
    'Group',
    'Member',
    'ProcessFailed',
    'RankFailed',
    'launch',
    'leashed',
    'python_with',
    'run_workers',
    'start_workers',
]
