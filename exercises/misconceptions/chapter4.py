"""What students get wrong in the exercises of chapter 4, and a part of the hint that each gets."""

import numpy as np

from mgpu_helpers.cluster import shard

from .chapter4_idioms import RIGHT as RIGHT


def cut(order, size):
    return [order[i : i + size] for i in range(0, len(order), size)]


def of_the_data_set(order, batch_size, rank, num_workers):
    return cut(order[rank::num_workers], -(-batch_size // num_workers))


def without_empty_steps(order, batch_size, rank, num_workers):
    steps = [batch[rank::num_workers] for batch in cut(order, batch_size)]
    return [step for step in steps if step]


def full_batches_only(order, batch_size, rank, num_workers):
    whole = len(order) // batch_size * batch_size
    return [batch[rank::num_workers] for batch in cut(order[:whole], batch_size)]


def without_the_remainder(order, batch_size, rank, num_workers):
    batches = cut(order, batch_size)
    return [b[len(b) // num_workers * rank :][: len(b) // num_workers] for b in batches]


def remainder_to_the_last(order, batch_size, rank, num_workers):
    steps = without_the_remainder(order, batch_size, rank, num_workers)
    rests = [b[len(b) // num_workers * num_workers :] for b in cut(order, batch_size)]
    return [s + r if rank == num_workers - 1 else s for s, r in zip(steps, rests)]


def whole_batches(order, batch_size, rank, num_workers):
    return cut(order, batch_size)


def pushing(share, divisor='batch', empty='zeros'):
    """A push of what ``share`` takes, divided by the length of the batch, of the shard, or by 1."""

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


def only_who_is_stuck(scripts):
    longest = max(map(len, scripts))
    for heads in zip(*(s + ['end'] * (longest - len(s)) for s in scripts)):
        if len(set(heads)) > 1:
            return [head for head in heads if head != 'end']
    return []


def always_the_end(scripts):
    longest = max(map(len, scripts))
    for heads in zip(*(s + ['end'] * (1 + longest - len(s)) for s in scripts)):
        if len(set(heads)) > 1:
            break
    return list(heads)


def stale(own=0, this=0, pulls=0, reset='pull', versions=False):
    """A staleness that counts too much, or begins at the wrong event."""

    def staleness(log):
        since, ages = {}, []
        for what, worker in log:
            if what == 'push':
                ages.append(since.get(worker, 0) + this)
            if what == 'push' or pulls:
                for other in since:
                    since[other] += 1 if other != worker else own
            if what == reset:
                since[worker] = 0
            since.setdefault(worker, 0)
        return ages

    return staleness


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


def restore_nothing(training, state):
    w, velocity = state['w'], state['velocity']  # noqa: F841


def next_epoch(training):
    return save(training) | {'epoch': np.array(training.epoch + 1)}


WRONG = [
    ('4.1', 'the data set divided', of_the_data_set, 'not the data set'),
    ('4.1', 'no empty step', without_empty_steps, 'with an empty list'),
    ('4.1', 'full batches only', full_batches_only, 'the last batch has the rest'),
    (
        '4.1',
        'a batch too many',
        lambda o, b, r, k: [o[i : i + b][r::k] for i in range(0, len(o) + 1, b)],
        'none is empty',
    ),
    ('4.1', 'the remainder forgotten', without_the_remainder, 'belong to nobody'),
    ('4.1', 'the remainder to the last', remainder_to_the_last, 'wait for the longest'),
    (
        '4.1',
        "the course's function",
        lambda o, b, r, k: [shard(batch, r, k) for batch in cut(o, b)],
        "is the course's answer",
    ),
    ('4.1', 'all examples for all', whole_batches, 'belong to several workers'),
    ('4.2', 'a mean of means', pushing('own', 'workers'), 'in a mean of their means'),
    ('4.2', 'the mean of the shard', pushing('own', 'shard'), 'divides by its own shard'),
    ('4.2', 'a sum', pushing('own', 'nothing'), 'gradient of the sum'),
    ('4.2', 'the whole batch', pushing('all'), 'take its own shard'),
    ('4.2', 'the mean of nothing', pushing('own', 'batch', None), 'who has nothing pushes zeros'),
    ('4.2', 'a number for an array', pushing('own', 'batch', 0.0), 'pushes 0.0: the server waits'),
    ('4.3', 'to the shortest list', to_the_shortest, 'one waits when another'),
    ('4.3', 'lengths only', by_length, 'go through all lists at once'),
    ('4.3', 'numbers only', by_number, 'go through all lists at once'),
    ('4.3', 'the end is no meeting', only_who_is_stuck, 'tell of each worker'),
    ('4.3', 'always the end', always_the_end, 'all come to their end'),
    ('4.4', 'no copy', asynchronous('no copy'), 'change with those of the server'),
    ('4.4', 'the newest', asynchronous('new'), 'of the newest parameters'),
    ('4.4', 'from where it pulled', asynchronous('lost'), 'what others did is lost'),
    ('4.4', 'what anybody pulled', asynchronous('last'), 'not of what another did'),
    ('4.4', 'the start', asynchronous('start'), 'a pull brings newer'),
    ('4.4', 'uphill', asynchronous('uphill'), 'uphill'),
    ('4.5', 'no parameters', (without('w'), restore), 'the parameters'),
    ('4.5', 'no momentum', (without('velocity'), restore), "the optimizer's state"),
    ('4.5', 'no epoch', (without('epoch'), restore), 'the order of the next'),
    ('4.5', 'no learning rate', (without('lr'), restore), 'the learning rate has fallen'),
    ('4.5', 'the next epoch', (next_epoch, restore), 'that are *done*'),
    ('4.5', 'saved without a copy', (lambda t: save(t, keep=np.asarray), restore), 'keep copies'),
    ('4.5', 'restored without a copy', (save, restore_the_arrays_themselves), 'restore copies'),
    ('4.5', 'restored into local names', (save, restore_nothing), 'it begins anew'),
]
