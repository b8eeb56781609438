"""Wrong answers to the exercises of chapter 4, each with a part of the hint that it gets."""

import numpy as np

from .chapter4_idioms import RIGHT as RIGHT


def cut(order, size):
    return [order[i : i + size] for i in range(0, len(order), size)]


def of_the_data_set(order, batch_size, rank, num_workers):
    return cut(order[rank::num_workers], -(-batch_size // num_workers))


def without_empty_steps(order, batch_size, rank, num_workers):
    steps = [batch[rank::num_workers] for batch in cut(order, batch_size)]
    return [step for step in steps if step]


def without_the_remainder(order, batch_size, rank, num_workers):
    batches = cut(order, batch_size)
    return [b[len(b) // num_workers * rank :][: len(b) // num_workers] for b in batches]


def pushing(share, divisor='batch', empty='zeros'):
    """Return a push of the shard's gradient, divided by the batch's length, the shard's, or 1."""

    def to_push(X, y, w, rank, num_workers):
        a, b = (len(X) * r // num_workers for r in (rank, rank + 1))
        mine, labels = (X[a:b], y[a:b]) if share == 'own' else (X, y)
        if not len(mine) and empty != 'divide':
            return np.zeros_like(w) if empty == 'zeros' else empty
        slopes = 2 * (mine @ w - labels) @ mine
        by = {'batch': len(X), 'shard': np.float64(len(mine)), 'nothing': 1}
        by['workers'] = by['shard'] * num_workers
        return slopes / by[divisor]

    return to_push


def to_the_shortest(scripts):
    return next((list(heads) for heads in zip(*scripts) if len(set(heads)) > 1), [])


def by_length(scripts):
    lengths = [len(s) for s in scripts]
    return (
        [] if len(set(lengths)) == 1 else ['push' if n > min(lengths) else 'end' for n in lengths]
    )


def by_number(scripts):
    alike = len({tuple(sorted(s)) for s in scripts}) == 1
    return [] if alike else [s[-1] for s in scripts]


def asynchronous(kind):
    def train_async(log, gradient, w, lr):
        start, pulled = w.copy(), {}
        for what, worker in log:
            if what == 'pull':
                pulled[worker] = pulled['last'] = w if kind == 'no copy' else w.copy()
                continue
            at = {'start': start, 'new': w.copy(), 'last': pulled['last']}.get(kind, pulled[worker])
            if kind == 'lost':
                w = at - lr * gradient(at, worker)
            else:
                w -= (-lr if kind == 'uphill' else lr) * gradient(at, worker)
        return w

    return train_async


NAMES = ('w', 'velocity', 'epoch', 'lr')


def save(training, names=NAMES, keep=np.copy):
    return {name: keep(getattr(training, name)) for name in names}


def restore(training, state):
    for name, value in state.items():
        setattr(training, name, np.copy(value) if np.ndim(value) else value[()])


def without(name):
    return lambda training: save(training, [n for n in NAMES if n != name])


def restore_the_arrays_themselves(training, state):
    vars(training).update(state, epoch=int(state['epoch']))


WRONG = [
    ('4.1', 'the data set is divided', of_the_data_set, 'not the data set'),
    ('4.1', 'no empty step', without_empty_steps, 'with an empty list'),
    ('4.1', 'the remainder forgotten', without_the_remainder, 'belong to no worker'),
    ('4.2', 'a mean of means', pushing('own', 'workers'), 'in a mean of means'),
    ('4.2', 'a sum', pushing('own', 'nothing'), 'gradient of the sum'),
    (
        '4.2',
        'the mean of nothing',
        pushing('own', 'batch', None),
        'one with no examples must push zeros',
    ),
    ('4.3', 'stops at the shortest list', to_the_shortest, 'a worker waits forever if another'),
    ('4.3', 'compares lengths only', by_length, 'go through all lists in parallel'),
    ('4.3', 'compares counts only', by_number, 'go through all lists in parallel'),
    ('4.4', 'no copy', asynchronous('no copy'), 'change with those of the server'),
    ('4.4', 'the newest parameters', asynchronous('new'), 'at the newest parameters'),
    ('4.4', 'the initial parameters', asynchronous('start'), 'a pull returns newer'),
    ('4.5', 'no momentum', (without('velocity'), restore), "the optimizer's state"),
    ('4.5', 'saved without a copy', (lambda t: save(t, keep=np.asarray), restore), 'keep copies'),
    ('4.5', 'restored without a copy', (save, restore_the_arrays_themselves), 'restore copies'),
]
