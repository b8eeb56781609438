"""Chapter 3's allreduces by themselves: whole sets of gradients, against a plain memory copy."""

import time
from functools import partial

from .protocol import wait_for_the_others

# Bytes; all of LeNet's gradients fit in one bucket, ResNet-18's larger ones get their own.
BUCKET = 2**20
REPEATS = 9
NAIVE, COPY = 'naive, each gradient', 'memory copy'


def gradients(mgpu, network, devices):
    """Make arrays of the shapes of a network's gradients, on each device."""
    nd = mgpu.gluon.nd
    if network == 'LeNet':
        shapes = [p.shape for p in mgpu.init_params(seed=0)]
    else:
        net = mgpu.gluon.resnet18_28(10)
        net.initialize()
        net(nd.zeros((1, 1, 28, 28)))
        shapes = [p.shape for p in net.collect_params().values() if p.grad_req != 'null']
    return [[nd.ones(shape, ctx=d) for shape in shapes] for d in devices]


def seconds(nd, call, calls):
    """Time one call, as the mean of many in a row, all of them waited for at the end."""
    nd.waitall()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    nd.waitall()
    return (time.perf_counter() - start) / calls


def measure(num_devices, batch_size, num_examples, network):
    """Time each way to sum a network's gradients over devices, in seconds per repeat.

    The ways and the copy take turns, so a slow moment affects all of them.
    """
    import mgpu_helpers as mgpu

    collectives, nd = mgpu.collectives, mgpu.gluon.nd
    ways = {NAIVE: collectives.sync_with(collectives.allreduce_naive)}
    for name, algorithm in (collectives.OURS | {'kvstore': collectives.allreduce_kvstore}).items():
        ways[f'{name}, buckets'] = collectives.sync_with(algorithm, BUCKET)
    ways['kvstore, each gradient'] = collectives.sync_with(collectives.allreduce_kvstore)
    grads = gradients(mgpu, network, mgpu.devices(num_devices))
    nbytes = sum(g.size * 4 for g in grads[0])
    one, other = (nd.ones(nbytes // 4) for _ in range(2))
    calls = {name: partial(way, grads) for name, way in ways.items()}
    calls[COPY] = partial(one.copyto, other)
    for call in calls.values():  # the first call makes the buckets
        call()
    wait_for_the_others()
    times = {name: [] for name in calls}
    for _ in range(REPEATS):
        for name, call in calls.items():
            times[name].append(seconds(nd, call, 20 if network == 'LeNet' else 4))
    return {'bytes': nbytes, 'gradients': len(grads[0]), 'times': times}
