"""The course in PyTorch: chapters 5, 7 and 9, a folder for each. Never imports MXNet.

``data_parallel`` is chapter 5: chapter 1's functions, ``OwnDDP``, ``DistributedDataParallel``.
``model_parallel`` is chapter 7, larger than one device: ZeRO, FSDP, tensor parallelism, pipelines.
``language`` is chapter 9: tokens, context parallelism, experts.
All take devices from ``stand_ins`` and processes from ``ranks``.
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

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
