from .engines import leashed as leashed
from .launching import RankFailed as RankFailed
from .launching import launch as launch
from .pythons import python_with as python_with

__all__ = ['RankFailed', 'launch', 'leashed', 'python_with']
