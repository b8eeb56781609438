"""What this machine can do at most, with the same library: a matrix product, a memory copy.

Each by one stand-in alone and by two at the same time. Billions of operations or bytes a second, of
the fastest of some repeats: a limit is what was reached once.
"""

import time

from .child import wait_for_the_others

# Sizes of the product, of which the faster counts. Billions of operations a second, oneDNN, on two
# cores that others used, too: one stand-in 149 with 512, 103 with 2048; two 123 and 208.
SIZES = (512, 2048)
# Bytes of the arrays that are copied: larger than the caches of two cores.
COPIED = 128 * 2**20
REPEATS = 3
SECONDS = 0.1  # of a repeat, about


def best(amount, hand_out, wait):
    """Give the highest amount per second, in billions, of calls that are waited for together."""

    def seconds(calls):
        start = time.perf_counter()
        for _ in range(calls):
            hand_out()
        wait()
        return time.perf_counter() - start

    seconds(1)
    calls = max(1, round(SECONDS / seconds(1)))
    return amount * calls / min(seconds(calls) for _ in range(REPEATS)) / 1e9


def mxnet(num_devices, batch_size, num_examples):
    """Measure MXNet: both of its matrix products, ``dot`` (OpenBLAS) and a dense layer (oneDNN)."""
    import mgpu_helpers as mgpu

    nd = mgpu.gluon.nd
    devices = mgpu.devices(num_devices)
    wait_for_the_others()
    found = {}
    for k in (1, num_devices):
        rates = {'dot': 0, 'dense': 0}
        for n in SIZES:
            arrays = [[nd.ones((n, n), ctx=d) for _ in range(3)] for d in devices[:k]]

            def dot(arrays=arrays):
                for a, b, out in arrays:
                    nd.dot(a, b, out=out)

            def dense(arrays=arrays, n=n):
                for a, b, out in arrays:
                    nd.FullyConnected(a, b, no_bias=True, num_hidden=n, flatten=False, out=out)

            for name, call in (('dot', dot), ('dense', dense)):
                rates[name] = max(rates[name], best(2 * n**3 * k, call, nd.waitall))
        large = [[nd.ones(COPIED // 4, ctx=d) for _ in range(2)] for d in devices[:k]]

        def copy(large=large):
            for source, target in large:
                source.copyto(target)

        found[f'{k} at once'] = rates | {'copy': best(COPIED * k, copy, nd.waitall)}
    return found


def torch(num_devices, batch_size, num_examples):
    """Measure PyTorch: ``torch.mm`` and ``copy_``."""
    import torch

    import mgpu_helpers as mgpu

    part = mgpu.pytorch
    devices = part.devices(num_devices)
    wait_for_the_others()
    found = {}
    for k in (1, num_devices):
        some, fastest = devices[:k], 0
        for n in SIZES:
            arrays = [[torch.ones(n, n) for _ in range(3)] for _ in some]

            def products(some=some, arrays=arrays):
                part.on_each(some, lambda three: torch.mm(*three[:2], out=three[2]), arrays)

            fastest = max(fastest, best(2 * n**3 * k, products, lambda: None))
        large = [[torch.ones(COPIED // 4) for _ in range(2)] for _ in some]

        def copy(some=some, large=large):
            part.on_each(some, lambda two: two[0].copy_(two[1]), large)

        found[f'{k} at once'] = {'mm': fastest, 'copy': best(COPIED * k, copy, lambda: None)}
    return found
