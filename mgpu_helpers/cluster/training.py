"""What each worker of a cluster does: its shard, its gradients, push and pull, a checkpoint.

Every function marked ``#@save`` in ``notebooks/04-multiple-machines.ipynb`` stands here, and a test
holds the two equal. Source 002, where chapter 2 comes from, ends by pointing this way.
"""

import time
from dataclasses import dataclass, field

from .. import checks
from ..devices import devices as give_devices
from ..display import progress
from ..gluon import (
    autograd,
    evaluate_accuracy_gpus,
    forward_backward,
    gluon,
    lenet,
    mx,
    nd,
    prepare,
    split_and_load,
)
from ..history import History
from ..scratch import load_data_fashion_mnist, loss
from .checkpoint import latest_checkpoint, save_checkpoint
from .traffic import socket_bytes
