"""What this machine can do at most with the same library: a matrix product, a memory copy.

Each by one stand-in alone and by two at the same time, in billions of operations or bytes a second.
The fastest of a few repeats counts: a limit is what was reached once.
"""

import time
from functools import partial

from .protocol import wait_for_the_others

# Sizes of the matrices; the faster one counts. With oneDNN on two busy cores, in billions of
# operations a second: one stand-in 149 for 512 and 103 for 2048, two stand-ins 123 and 208.
SIZES = (512, 2048)
# Bytes to copy: more than the caches of two cores hold.
COPIED = 128 * 2**20
REPEATS = 3
SECONDS = 0.1  # of one repeat, about


def best(amount, issue, wait):
    """Return the highest rate, in billions of ``amount`` a second, of calls waited for together."""

    def seconds(calls):
        start = time.perf_counter()
        for _ in range(calls):
            issue()
        wait()
        return time.perf_counter() - start

    seconds(1)
    calls = max(1, round(SECONDS / seconds(1)))
    return amount * calls / min(seconds(calls) for _ in range(REPEATS)) / 1e9


def highest(num_devices, ones, products, copy, each, wait=lambda: None):
    """Measure one stand-in alone, and all at the same time.

    ``ones(i, *shape)`` makes an array on stand-in ``i``; ``products`` (by name) and ``copy`` take
    such arrays; ``each(call, arrays)`` makes the call on every stand-in.
    """
    limits = {}
    for k in (1, num_devices):
        rates = dict.fromkeys(products, 0)
        for n in SIZES:
            three = [[ones(i, n, n) for _ in range(3)] for i in range(k)]
            for name, call in products.items():
                rate = best(2 * n**3 * k, partial(each, call, three), wait)
                rates[name] = max(rates[name], rate)
        two = [[ones(i, COPIED // 4) for _ in range(2)] for i in range(k)]
        limits[f'{k} at once'] = rates | {'copy': best(COPIED * k, partial(each, copy, two), wait)}
    return limits


def mxnet(num_devices, batch_size, num_examples):
    """Measure MXNet: both of its matrix products, ``dot`` (OpenBLAS) and a dense layer (oneDNN)."""
    import mgpu_helpers as mgpu

    nd, devices = mgpu.gluon.nd, mgpu.devices(num_devices)

    def ones(i, *shape):
        return nd.ones(shape, ctx=devices[i])

    def dot(a, b, out):
        nd.dot(a, b, out=out)

    def dense(a, b, out):
        nd.FullyConnected(a, b, no_bias=True, num_hidden=len(b), flatten=False, out=out)

    def each(call, arrays):
        for some in arrays:
            call(*some)

    wait_for_the_others()
    products = {'dot': dot, 'dense': dense}
    return highest(num_devices, ones, products, nd.NDArray.copyto, each, nd.waitall)


def torch(num_devices, batch_size, num_examples):
    """Measure PyTorch: ``torch.mm`` and ``copy_``."""
    import torch

    import mgpu_helpers as mgpu

    part = mgpu.pytorch
    devices = part.devices(num_devices)

    def ones(i, *shape):
        return torch.ones(shape)

    def mm(a, b, out):
        torch.mm(a, b, out=out)

    def each(call, arrays):
        part.on_each(devices[: len(arrays)], lambda some: call(*some), arrays)

    wait_for_the_others()
    return highest(num_devices, ones, {'mm': mm}, torch.Tensor.copy_, each)
