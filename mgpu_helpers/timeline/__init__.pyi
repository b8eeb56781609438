from .recording import record as record
from .traces import RECORDED as RECORDED
from .traces import read_traces as read_traces
