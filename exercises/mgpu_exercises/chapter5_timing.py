"""Check exercise 5.15: the time of a step, on a simulated asynchronous device."""

from collections.abc import Callable

from .checking import expect, expect_value


class Played:
    """A simulated device, with a clock, that works through a queue while Python continues.

    The first ``slow`` steps take longer, as when a library is loaded and memory is allocated.
    """

    def __init__(self, asking: float, work: float, slow: int) -> None:
        self.asking, self.work, self.slow = asking, work, slow
        self.now = self.busy_until = 100.0
        self.steps = 0

    def step(self) -> None:
        """Queue a step."""
        self.now += self.asking
        work = self.work if self.steps >= self.slow else 40 * self.work
        self.busy_until, self.steps = max(self.busy_until, self.now) + work, self.steps + 1

    def synchronize(self) -> None:
        """Wait until all queued steps are done."""
        self.now = max(self.now, self.busy_until)

    def clock(self) -> float:
        """Return the current time in seconds."""
        return self.now


def exercise_15(seconds_per_step: Callable[..., float]) -> None:
    """Check a timing loop: warm up, wait, queue all steps, wait."""
    for asking, work, warmup, steps in ((0.001, 0.004, 3, 20), (0.004, 0.001, 2, 5)):

        def timed(
            *waits: str, slow: int = warmup, ask: float = asking, do: float = work, n: int = steps
        ) -> float:
            """Time the steps as students do, synchronizing only at the places in ``waits``."""
            device = Played(ask, do, slow)
            for _ in range(slow if 'all' not in waits else 0):
                device.step()
            if 'before' in waits:
                device.synchronize()
            begin = device.clock()
            for _ in range(n):
                device.step()
                if 'each' in waits:
                    device.synchronize()
            if 'after' in waits:
                device.synchronize()
            return (device.clock() - begin) / n

        device, right = Played(asking, work, warmup), timed('before', 'after')
        found = seconds_per_step(device.step, device.synchronize, device.clock, warmup, steps)
        case = f'queuing {1e3 * asking:g} ms, work {1e3 * work:g} ms, {warmup} + {steps} steps'
        hint = f'{device.steps} steps were run: run {warmup} for warm-up, and time {steps}'
        expect(device.steps == warmup + steps, hint, case)
        mistakes = {
            'this is the time to queue a step; you read the clock before the last one was done': (
                timed('before')
            ),
            'the warm-up steps were still running when you first read the clock': (timed('after')),
            'this waits after each step, so the device is idle while Python queues the next': (
                timed('before', 'each')
            ),
            'it includes the warm-up steps': timed('all', 'after', n=warmup + steps),
            'it includes the warm-up steps, but divides only by the timed ones': (
                timed('all', 'after', n=warmup + steps) * (warmup + steps) / steps
            ),
            'this is the time of all timed steps; divide by their number': right * steps,
            'divide only by the number of timed steps': right * steps / (warmup + steps),
        }
        hint = f'not {right:.6g}: no work may be running when you read the clock, before and after'
        expect_value(found, right, f'{case}: {{}} s', mistakes, hint, 1e-6)
