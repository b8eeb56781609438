"""The PyTorch chapters 5, 7 and 9, with a folder for each. Never imports MXNet.

``data_parallel`` is chapter 5: a step with ``DistributedDataParallel``, and the gain from a second
device. ``model_parallel`` is chapter 7, networks larger than one device: ZeRO, FSDP, tensor
parallelism, pipelines. ``language`` is chapter 9: tokens, context parallelism, experts. All get
their device and their group from ``ranks``.
"""

import lazy_loader

try:
    import torch  # noqa: F401  fail here with a helpful message
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "PyTorch is not installed in this Python. Run 'make setup TORCH=1' and use its "
        "environment, or install it: pip install 'mgpu-helpers[torch]'.",
        name='torch',
    ) from error

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
