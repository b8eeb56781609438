"""Chapter 4: what workers on this machine reach, what they wait for, what they send."""

import statistics

VALUES = 129_068  # of LeNet
TWO_BIT = {'type': '2bit', 'threshold': 0.005}


def without_waits(batch_size, num_examples):
    """Do in a worker what ``train`` does, but hand out steps ahead, as chapters 1 and 2 do.

    Gives the seconds of each of two epochs. The engine itself makes a push wait for its gradient
    and a layer for its pull, so that layers whose gradients are ready are pushed while the others'
    are still computed.
    """
    import time

    import mgpu_helpers as mgpu

    part = mgpu.cluster.training
    store, devices, net, trainer = mgpu.cluster.join('dist_sync', 1, lr=0.3, seed=0)
    batches, _ = mgpu.load_data_fashion_mnist(batch_size, num_examples, seed=0)

    def step(X, y):
        losses = part.compute_gradients(X, y, net, devices, store.rank, store.num_workers)
        trainer.step(1, ignore_stale_grad=True)
        return losses

    seconds = []
    for _ in range(2):
        start = time.time()
        mgpu.train_epoch(batches, step, ahead=min(16, 2 + len(batches) // 16))
        seconds.append(time.time() - start)
    return seconds


def measure(num_workers, batch_size, num_examples, kind='dist_sync', compression=None, waits=True):
    """Train in a new cluster with one server; give what was measured in the second of two epochs.

    The first one warms up. Shares and bytes are means over the workers.
    """
    from mgpu_helpers import cluster

    with cluster.LocalCluster(num_workers, servers=1) as started:
        if not waits:
            found = started.run(without_waits, batch_size, num_examples, show=False)
            return {'seconds': max(seconds[1] for seconds in found)}
        histories = started.run(
            cluster.train,
            kind,
            batch_size=batch_size,
            num_epochs=2,
            num_examples=num_examples,
            compression=compression,
            show=False,
        )
    model = 4 * VALUES * -(-num_examples // batch_size)  # bytes, as often as there are steps
    return {
        'seconds': max(run.seconds[1] for run in histories),
        'computing': statistics.mean(run.computing[1] / run.seconds[1] for run in histories),
        'waiting': statistics.mean(run.waiting[1] / run.seconds[1] for run in histories),
        'sent': statistics.mean(run.sent[1] / model for run in histories),
        'received': statistics.mean(run.received[1] / model for run in histories),
    }


def table(rounds):
    """Lay out what ``measure`` gave, a row for each kind; None where no kind has it.

    Parameters
    ----------
    rounds : list of dict
        For each round, from the name of a kind to what its processes measured.
    """
    from mgpu_helpers.display import Table

    rows = []
    for name in rounds[0]:
        runs = [one[name][0] for one in rounds if 'waiting' in one.get(name, [{}])[0]]
        if runs:
            median = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
            waiting = [run['waiting'] for run in runs]
            rows.append(
                [
                    name,
                    f'{median["computing"]:.3f}',
                    f'{median["waiting"]:.3f}',
                    f'{min(waiting):.3f} to {max(waiting):.3f}',
                    f'{median["sent"]:.4f}',
                    f'{median["received"]:.4f}',
                ]
            )
    heads = ['a worker of', 'computes', 'waits', 'range', 'sends a step', 'receives a step']
    return Table(rows, heads) if rows else None
