"""Chapter 4: more than one machine - a cluster of a scheduler, servers and workers.

``local`` starts one on this machine, ``launch`` on any; ``training`` is what a worker does;
``checkpoint`` keeps what a run needs in order to resume; ``traffic`` counts bytes.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=['checkpoint', 'local', 'roles', 'traffic', 'training', 'watch'],
    submod_attrs={
        'checkpoint': [
            'BrokenCheckpoint',
            'Checkpoint',
            'latest_checkpoint',
            'load_checkpoint',
            'save_checkpoint',
        ],
        'local': ['LocalCluster'],
        'traffic': ['Traffic', 'socket_bytes'],
        'training': [
            'PushPullTrainer',
            'WorkerHistory',
            'compute_gradients',
            'load_parameters',
            'make_trainer',
            'parameters',
            'resume',
            'shard',
            'train',
            'train_epoch',
        ],
    },
)
