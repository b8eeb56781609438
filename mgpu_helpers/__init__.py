"""Helpers of the course: training a neural network on several GPUs by data parallelism.

``import mgpu_helpers as mgpu`` offers chapter 1's names and the shared ones directly; the other
chapters live in modules of their own. Nothing heavy is imported until it is used (SPEC 1): what
runs at once is only what must be true before MXNet loads.
"""

import lazy_loader

from . import runtime

runtime.prepare()

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=[
        'checks',
        'cluster',
        'collectives',
        'cores',
        'data',
        'display',
        'doctor',
        'driver',
        'failing',
        'gluon',
        'history',
        'lanes',
        'processes',
        'pytorch',
        'replicas',
        'runtime',
        'scaling',
        'scratch',
        'timeline',
        'worker',
    ],
    submod_attrs={
        'cores': ['usable_cores'],
        'devices': [
            'describe_devices',
            'devices',
            'num_gpus',
            'try_all_gpus',
            'try_gpu',
        ],
        'history': ['History'],
        'scratch': [
            'allreduce',
            'evaluate_accuracy',
            'get_params',
            'init_params',
            'lenet',
            'load_data_fashion_mnist',
            'load_data_mnist',
            'loss',
            'sgd',
            'split_and_load',
            'split_batch',
            'sync_gradients',
            'total_loss',
            'train',
            'train_batch',
            'train_epoch',
        ],
    },
)
