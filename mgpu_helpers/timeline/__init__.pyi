from .recording import phase as phase
from .recording import record as record
