"""Chapter 4: more than one machine - a cluster of a scheduler, servers and workers.

``local`` starts one on this machine, ``launch`` on any, ``joining`` is one process of it;
``training`` is what a worker does; ``checkpoint`` keeps what a run needs in order to resume;
``traffic`` counts bytes.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=[
        'checkpoint',
        'commands',
        'files',
        'gpus',
        'hosts',
        'joining',
        'launch',
        'local',
        'probe',
        'records',
        'resuming',
        'roles',
        'ssh',
        'terminal',
        'traffic',
        'training',
        'watch',
    ],
    submod_attrs={
        'checkpoint': [
            'BrokenCheckpoint',
            'Checkpoint',
            'latest_checkpoint',
            'load_checkpoint',
            'save_checkpoint',
        ],
        'local': ['LocalCluster'],
        'records': ['WorkerHistory'],
        'resuming': ['load_parameters', 'parameters', 'resume'],
        'traffic': ['Traffic', 'socket_bytes'],
        'training': [
            'PushPullTrainer',
            'compute_gradients',
            'join',
            'make_trainer',
            'shard',
            'train',
            'train_epoch',
        ],
    },
)
