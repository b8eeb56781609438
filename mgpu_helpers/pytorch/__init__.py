"""Chapter 5: the same course in PyTorch; never imports MXNet.

``scratch`` has chapter 1's functions under chapter 1's names, ``devices`` the stand-ins, which
PyTorch lacks, ``ddp`` the same training with ``DistributedDataParallel``, ``group`` the
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

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
