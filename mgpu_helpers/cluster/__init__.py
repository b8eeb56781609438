"""Chapter 4: training on more than one machine.

``checkpoint`` keeps what a run needs in order to resume (``files`` is the format of its files);
``traffic`` asks the kernel how many bytes went over the network.

>>> from mgpu_helpers.cluster import latest_checkpoint
>>> latest_checkpoint('a-folder-that-is-not-there') is None
True
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        'checkpoint': [
            'BrokenCheckpoint',
            'Checkpoint',
            'latest_checkpoint',
            'load_checkpoint',
            'save_checkpoint',
        ],
        'traffic': ['Traffic', 'socket_bytes'],
    },
)
