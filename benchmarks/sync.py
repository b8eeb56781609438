"""What the allreduces of chapter 3 cost: whole sets of gradients, against a plain memory copy."""

import statistics
import time
from functools import partial

BUCKET = (
    2**20
)  # bytes; LeNet's gradients fit in one, ResNet-18's larger ones have one to themselves
REPEATS = 9


def gradients(mgpu, name, devices):
    """Arrays of the shapes of a network's gradients, on each device."""
    from mgpu_helpers.gluon import nd  # MXNet only after our package

    if name == 'LeNet':
        shapes = [p.shape for p in mgpu.init_params(seed=0)]
    else:
        net = mgpu.gluon.resnet18_28(10)
        net.initialize()
        net(nd.zeros((1, 1, 28, 28)))
        shapes = [p.shape for p in net.collect_params().values() if p.grad_req != 'null']
    return [[nd.ones(shape, ctx=d) for shape in shapes] for d in devices]


def seconds(call, calls):
    """Time of one call, when many follow one another and the last one has ended."""
    from mgpu_helpers.gluon import nd

    nd.waitall()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    nd.waitall()
    return (time.perf_counter() - start) / calls


def measure():
    """Give a list of dictionaries, one for each network, number of devices and way to sum."""
    import mgpu_helpers as mgpu
    from mgpu_helpers import collectives
    from mgpu_helpers.gluon import nd

    ways = {'naive, each gradient': collectives.sync_with(collectives.allreduce_naive)}
    for name, algorithm in collectives.ALGORITHMS.items():
        ways[f'{name}, buckets'] = collectives.sync_with(algorithm, BUCKET)
    ways['kvstore, each gradient'] = collectives.sync_with(collectives.allreduce_kvstore)
    found = []
    for network in ('LeNet', 'ResNet-18'):
        for k in (2, 4):
            grads = gradients(mgpu, network, mgpu.devices(k))
            nbytes = sum(g.size * 4 for g in grads[0])
            one, other = (nd.ones(nbytes // 4) for _ in range(2))
            calls = {name: partial(way, grads) for name, way in ways.items()}
            calls['copy'] = partial(one.copyto, other)
            times = {name: [] for name in calls}
            for _ in range(REPEATS + 1):
                for name, call in calls.items():  # in turn: a slow moment hits all of them
                    times[name].append(seconds(call, 20 if network == 'LeNet' else 4))
            for name in ways:
                mine = times[name][1:]  # the first made the buckets
                ratios = [n / t for n, t in zip(times['naive, each gradient'][1:], mine)]
                shares = [c / t for c, t in zip(times['copy'][1:], mine)]
                found.append(
                    {
                        'what': f'{network}, {len(grads[0])} gradients, {k} devices',
                        'how': name,
                        'over_naive': statistics.median(ratios),
                        'lowest': min(ratios),
                        'highest': max(ratios),
                        'gigabytes_per_second': nbytes / statistics.median(mine) / 1e9,
                        'of_a_copy': statistics.median(shares),
                    }
                )
    return found


def table(found):
    """Lay it out: rows of ``measure``."""
    from mgpu_helpers.display import Table

    rows = [
        [
            one['what'],
            one['how'],
            f'{one["over_naive"]:.2f}',
            f'{one["lowest"]:.2f} to {one["highest"]:.2f}',
            f'{one["gigabytes_per_second"]:.2f}',
            f'{one["of_a_copy"]:.3f}',
        ]
        for one in found
    ]
    heads = ['summed', 'how', 'over naive', 'range', 'GB/s', 'of a memory copy']
    return Table(rows, heads)
