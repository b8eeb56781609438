from . import lanes as lanes
from .recording import phase as phase
from .recording import record as record
