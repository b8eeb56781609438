"""Chapter 5: the same course in PyTorch; never imports MXNet.

``scratch`` has chapter 1's functions under chapter 1's names, ``devices`` the stand-ins, which
PyTorch has not got, ``ddp`` the same training with ``DistributedDataParallel``, ``group`` the
processes that this takes.
From the shell: ``torchrun --nproc-per-node=2 -m mgpu_helpers.pytorch``.
"""

import lazy_loader

try:
    import torch  # noqa: F401  the sentence below instead of an error somewhere inside
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "PyTorch is not installed in this Python. Run 'make setup TORCH=1' and use its "
        "environment, or install it: pip install 'mgpu-helpers[torch]'.",
        name='torch',
    ) from error

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        'ddp': [
            'build_lenet',
            'ddp_step',
            'evaluate_ddp',
            'lenet_params',
            'train_ddp',
            'train_rank',
        ],
        'devices': [
            'StandIn',
            'describe_devices',
            'devices',
            'num_gpus',
            'on_each',
            'place',
            'synchronize',
            'try_all_gpus',
            'try_gpu',
        ],
        'group': ['agree_on', 'launch', 'load_in_turn', 'process_group', 'this_device'],
        'scratch': [
            'TensorIter',
            'allreduce',
            'evaluate_accuracy',
            'forward_backward',
            'get_params',
            'init_params',
            'lenet',
            'load_data_fashion_mnist',
            'loss',
            'scatter',
            'sgd',
            'split_batch',
            'sync_gradients',
            'total_loss',
            'train',
            'train_batch',
            'train_epoch',
        ],
    },
)
