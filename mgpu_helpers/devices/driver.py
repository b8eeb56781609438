"""What NVIDIA's driver says of this machine: which GPUs there are, usable by anybody or not.

Asked through ``libcuda.so.1`` itself, which comes with the driver: no toolkit, no framework.
"""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass

# mxnet-cu112 1.9.1 carries machine code for compute capability 5.0, 6.0, 7.0, 8.0 and 8.6 and no
# PTX: code runs on its own major version only, so Ada (8.9) is the last that works.
CAPABILITIES = ((5, 0), (9, 0))
OLDEST_CUDA = (11, 0)  # a driver that knows less cannot serve libraries of CUDA 11


@dataclass(frozen=True)
class GPU:
    """A GPU as the driver describes it: its number, name, memory in bytes, compute capability."""

    index: int
    name: str
    memory: int
    capability: tuple[int, ...]

    def __str__(self) -> str:
        major, minor = self.capability
        return f'GPU {self.index} ({self.name}, compute capability {major}.{minor})'


def has_code(gpu: GPU) -> bool:
    """Tell whether MXNet's machine code runs on a GPU.

    Parameters
    ----------
    gpu : GPU

    Returns
    -------
    bool

    Examples
    --------
    >>> has_code(GPU(0, 'NVIDIA H200', 141 * 2**30, (9, 0)))
    False
    """
    return CAPABILITIES[0] <= gpu.capability < CAPABILITIES[1]


@functools.cache
def ask_driver() -> tuple[tuple[int, int], int]:
    """Ask the NVIDIA driver whether it works.

    Returns
    -------
    tuple
        The newest CUDA version that it knows, as ``(major, minor)``, and the code with which it
        refuses to begin (0: it does not; 100: there is no GPU that this process may use).

    Raises
    ------
    OSError
        If there is no driver, or its library does not load.

    Examples
    --------
    >>> if driver_gpus():
    ...     version, refusal = ask_driver()
    ...     assert version >= (10, 0) and refusal == 0
    """
    cuda, version = ctypes.CDLL('libcuda.so.1'), ctypes.c_int()
    cuda.cuDriverGetVersion(ctypes.byref(version))
    return (version.value // 1000, version.value % 1000 // 10), cuda.cuInit(0)


@functools.cache
def driver_gpus() -> tuple[GPU, ...]:
    """Ask the NVIDIA driver which GPUs there are, usable or not.

    Returns
    -------
    tuple of GPU
        In the order of MXNet's ``gpu(i)``; empty without a driver. ``CUDA_VISIBLE_DEVICES`` holds.

    Examples
    --------
    >>> isinstance(driver_gpus(), tuple)
    True
    """
    try:
        cuda = ctypes.CDLL('libcuda.so.1')
    except OSError:
        return ()
    count = ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)):
        return ()  # a driver without a device, or one that this container may not use
    return tuple(_describe_gpu(cuda, i) for i in range(count.value))


def _describe_gpu(cuda: ctypes.CDLL, index: int) -> GPU:
    device, memory = ctypes.c_int(), ctypes.c_size_t()
    name, number = ctypes.create_string_buffer(128), ctypes.c_int()
    cuda.cuDeviceGet(ctypes.byref(device), index)
    cuda.cuDeviceGetName(name, len(name), device)
    cuda.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    capability = []
    for attribute in (75, 76):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR
        cuda.cuDeviceGetAttribute(ctypes.byref(number), attribute, device)
        capability.append(number.value)
    return GPU(index, name.value.decode(errors='replace'), memory.value, tuple(capability))
