"""Find the usable CPU cores, and the GPUs that NVIDIA's driver reports, usable or not.

It calls the driver's own ``libcuda.so.1``, which needs no toolkit and no framework.
"""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass
from typing import Any

# mxnet-cu112 1.9.1 carries machine code for compute capability 5.0, 6.0, 7.0, 8.0 and 8.6 and no
# PTX: code runs only on GPUs of its own major version, so Ada (8.9) is the last that works.
CAPABILITIES = ((5, 0), (9, 0))
OLDEST_CUDA = (11, 0)  # an older driver cannot run CUDA 11 libraries


@functools.cache
def usable_cores() -> int:
    """Count the CPU cores that this process may use, within its affinity and container limits."""
    from joblib import cpu_count

    return cpu_count()


@dataclass(frozen=True)
class GPU:
    """A GPU as the driver describes it."""

    index: int  # as in MXNet's gpu(i) and PyTorch's cuda:i
    name: str
    memory: int  # bytes
    capability: tuple[int, ...]

    @property
    def version(self) -> str:
        """Return the compute capability as NVIDIA writes it, such as ``8.6``."""
        return '.'.join(map(str, self.capability))

    def __str__(self) -> str:
        return f'GPU {self.index} ({self.name}, compute capability {self.version})'


def has_code(gpu: GPU) -> bool:
    """Return whether MXNet has machine code for a GPU."""
    return CAPABILITIES[0] <= gpu.capability < CAPABILITIES[1]


@functools.cache
def ask_driver() -> tuple[tuple[int, int], int]:
    """Return the driver's CUDA version and the error code of ``cuInit``.

    Code 0 is success; 100 means that no GPU is visible. Raises ``OSError`` without a driver.
    """
    cuda = ctypes.CDLL('libcuda.so.1')
    version = _number(cuda.cuDriverGetVersion)
    return (version // 1000, version % 1000 // 10), cuda.cuInit(0)


@functools.cache
def driver_gpus() -> tuple[GPU, ...]:
    """List the GPUs that the NVIDIA driver reports, usable or not; none without a driver.

    It respects ``CUDA_VISIBLE_DEVICES``.
    """
    try:
        refusal = ask_driver()[1]
    except OSError:
        return ()
    if refusal:
        return ()  # no device, or none that this container may use
    cuda = ctypes.CDLL('libcuda.so.1')
    return tuple(_describe_gpu(cuda, i) for i in range(_number(cuda.cuDeviceGetCount)))


def _describe_gpu(cuda: ctypes.CDLL, index: int) -> GPU:
    device = _number(cuda.cuDeviceGet, index)
    name, memory = ctypes.create_string_buffer(128), ctypes.c_size_t()
    cuda.cuDeviceGetName(name, len(name), device)
    cuda.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR
    capability = tuple(_number(cuda.cuDeviceGetAttribute, code, device) for code in (75, 76))
    return GPU(index, name.value.decode(errors='replace'), memory.value, capability)


def _number(function: Any, *args: int) -> int:
    number = ctypes.c_int()
    function(ctypes.byref(number), *args)
    return number.value
