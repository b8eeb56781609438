from . import lanes as lanes
from .recording import one_batch as one_batch
from .recording import phase as phase
from .recording import record as record
