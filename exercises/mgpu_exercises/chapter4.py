"""Check the exercises of chapter 4: equal steps, push and pull, stale gradients, resuming.

Workers and servers are simulated in one process, in which mistakes show just as well.
"""

import random
import warnings
from collections import Counter
from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import numpy as np

from mgpu_helpers.cluster import shard

from .by_hand import by_hand
from .checking import expect, expect_value

Log = list[tuple[str, int]]  # the calls that a server saw: ('pull', worker), ('push', worker)


def exercise_1(rng: random.Random, my_steps: Callable[..., Any]) -> None:
    """Check one worker's examples in each step of an epoch."""
    for n, size, k in ((10, 4, 3), (23, 8, 3), (12, 4, 2)):
        order, case = rng.sample(range(n), n), f'{n} examples, joint batches of {size}, {k} workers'
        batches = [order[i : i + size] for i in range(0, n, size)]
        with by_hand(shard):
            steps_of = [my_steps(list(order), size, r, k) for r in range(k)]
            found = [[list(step) for step in steps] for steps in steps_of]
        for step, (batch, *parts) in enumerate(zip(batches, *found), 1):
            seen, where = Counter(sum(parts, [])), f'{case}: in step {step}'
            lengths, left = [len(part) for part in parts], set(batch) - set(seen)
            hint = f'{where} the workers have {sorted(seen)}, the joint batch is {sorted(batch)}: '
            hint += 'divide each batch, not the data set, or one worker takes an extra step'
            expect(not seen - Counter(batch * k), hint)
            expect(max(seen.values()) == 1, f'{where} some examples belong to several workers')
            expect(not left, f'{where} {len(left)} of {len(batch)} example(s) belong to no worker')
            where = f'{where} they have {lengths} examples'
            expect(
                max(lengths) - min(lengths) <= 1,
                f'{where}: all workers wait for the one with the longest shard',
            )
        steps = [len(worker) for worker in found]
        case = f'{case}: they take {steps} steps, not {len(batches)}'
        expect(
            max(steps) == len(batches),
            'the last batch takes the remainder; none may be empty',
            case,
        )
        hint = 'a worker without examples must take part, with an empty list, or all wait forever'
        expect(min(steps) == len(batches), hint, case)


def exercise_2(rng: random.Random, to_push: Callable[..., Any]) -> None:
    """Check what a worker pushes, so that the sum of all pushes is the mean gradient."""
    draw = np.random.default_rng(rng.randrange(2**32))
    for n, k in ((7, 2), (8, 2), (2, 3)):
        X, y, w = (draw.integers(1, 9, s).astype('float64') for s in ((n, 3), (n,), (3,)))
        slopes, bounds = 2 * X * (X @ w - y)[:, None], [n * r // k for r in range(k + 1)]
        means = sum(slopes[a:b].mean(axis=0) for a, b in zip(bounds, bounds[1:]) if a < b)
        right, total = slopes.mean(axis=0), np.zeros(3)
        for rank, m in enumerate(np.diff(bounds)):
            with warnings.catch_warnings():  # about the mean of an empty array; the hint is clearer
                warnings.simplefilter('ignore')
                pushed = to_push(X.copy(), y.copy(), w.copy(), rank, k)
            case = f'{n} examples, {k} workers: rank {rank}, which has {m}, pushes {pushed!r}'
            there = pushed is not None and np.shape(pushed) == w.shape
            expect(there, 'the server waits for all: one with no examples must push zeros', case)
            expect(np.isfinite(pushed).all(), 'was 0 divided by 0?', case)
            total += pushed
        mistakes = {
            'in a mean of means, an example in a short shard counts for more': means / k,
            'this divides by the size of each shard; divide by the size of the joint batch': means,
            f'this is the gradient of the sum of {n} losses, not of their mean': n * right,
            f'{k} times too large: does each worker use only its own shard?': k * right,
        }
        expect_value(total, right, f'{n} examples, {k} workers, {{}}', mistakes, f'not {right}')


def exercise_3(rng: random.Random, waits_for: Callable[..., Any]) -> None:
    """Check where workers that run different scripts get stuck."""
    for scripts in (
        [['push', 'push'], ['push', 'push']],
        [['push'], ['push', 'push', 'push']],
        [['push', 'barrier', 'push'], ['push', 'push']],
        [['push', 'barrier'], ['barrier', 'push']],
        [['push', *rng.choices(('push', 'barrier'), k=4)] for _ in range(3)],
    ):
        steps = zip_longest(*scripts, fillvalue='end')
        right = next((list(heads) for heads in steps if len(set(heads)) > 1), [])
        found = list(waits_for([list(s) for s in scripts]))
        case, alike = f'{scripts} gave {found}', len({tuple(sorted(s)) for s in scripts}) == 1
        expect(right or not found, 'all workers finish', case)
        expect(found or not (right and alike), 'a worker at a barrier does not push', case)
        expect(found or not right, 'a worker waits forever if another never makes that call', case)
        expect(len(found) == len(right), 'return one entry per worker: what it waits for', case)
        case = f'{case}, not {right}: go through all lists in parallel'
        expect(found == right, f'{case}, up to the first entry that differs')


def draw_logs(rng: random.Random) -> list[Log]:
    """Return logs of pulls and pushes: two fixed ones, and a random one of three workers."""
    short = [('pull', 0), ('pull', 1), ('push', 1), ('pull', 1), ('push', 0)]
    long = [('pull', worker) for worker in range(3)]
    for worker in rng.choices(range(3), k=12):  # a worker that has just pushed mostly pulls
        long += [('push', worker), ('pull', worker)][: 1 + (rng.random() < 0.7)]
    return [short, [*short, *short[2:], *short[4:], *short[2:3]], long]


def exercise_4(rng: random.Random, train_async: Callable[..., Any]) -> None:
    """Check asynchronous steps, replayed exactly from a log."""
    goals = np.array(rng.sample(range(1, 99), 6), float).reshape(3, 2)

    def play(source: str = '', sign: int = 1) -> Any:
        """Replay the log; ``source`` and ``sign`` reproduce the results of known mistakes."""
        pulled: dict[Any, Any] = {'start': (w := np.zeros(2))}
        for what, worker in log:
            if what == 'pull':
                pulled[worker] = pulled['last'] = w
                continue
            at = w if source == 'new' else pulled.get(source, pulled[worker])
            w = (at if source == 'lost' else w) - sign * 0.25 * (at - goals[worker])
        return w

    for log in draw_logs(rng)[1:]:
        mistakes = {
            'each gradient is taken at the newest parameters: do pulled parameters change with '
            'those of the server?': play('new'),
            "a step starts from the server's current parameters, or updates are lost": play('lost'),
            'a gradient is taken at the parameters that this worker pulled': play('last'),
            'all gradients are taken at the first values: a pull returns newer ones': play('start'),
            'the steps go uphill; to lower the loss, subtract the gradient': play(sign=-1),
        }
        found = train_async(list(log), lambda w, worker: w - goals[worker], np.zeros(2), 0.25)
        hint = f'not {play()}; a step is w - lr * gradient(the pulled parameters, worker)'
        expect_value(found, play(), f'{log[:6]} ... ends at {{}}', mistakes, hint)


class Training:
    """A miniature training run; its attributes (velocity, learning rate, ...) are its state."""

    BY_VALUE = True  # pickled with its class: a grader sends it to the answer, and back

    def __init__(self, seed: int = 0) -> None:
        self.seed, self.epoch, self.lr = seed, 0, 0.25
        self.w, self.velocity = np.zeros(2), np.zeros(2)

    def train_epoch(self) -> None:
        """Take one step per example, in this epoch's order."""
        for i in np.random.default_rng([self.seed, self.epoch]).permutation(8):
            self.velocity *= 0.5
            self.velocity += self.w - np.array([i, 2.0 * i])
            self.w -= self.lr * self.velocity
        self.lr /= 2
        self.epoch += 1


WHY = {
    'w': 'the parameters',
    'velocity': "momentum is the optimizer's state, and each step continues from it",
    'epoch': 'the number of completed epochs determines the order of the next',
    'lr': 'the learning rate has decayed by then',
}


def exercise_5(rng: random.Random, save: Callable[..., Any], restore: Callable[..., None]) -> None:
    """Check that a run, resumed twice from one checkpoint, continues bit for bit both times."""
    first = Training(rng.randrange(99))
    for _epoch in range(2):
        first.train_epoch()
    state, there = save(first), {name: np.copy(value) for name, value in vars(first).items()}
    first.train_epoch()  # after the checkpoint, before it is killed
    for turn in ('', ' after the second restore'):
        again, fresh = Training(first.seed), vars(Training(first.seed))
        restore(again, state)
        for name, why in WHY.items():
            mistakes = {f'it starts over; {why}': fresh[name]}
            if name in ('w', 'velocity'):
                why = 'training writes into its arrays: keep copies, and restore copies'
            case = f'{name} is {{}}{turn}, not {there[name]}'
            expect_value(getattr(again, name), there[name], case, mistakes, why, 0)
        again.train_epoch()
        expect(np.array_equal(again.w, first.w), f'an epoch later, w is {again.w}, not {first.w}')
