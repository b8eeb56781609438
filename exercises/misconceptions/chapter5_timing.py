"""Wrong answers to exercise 5.15, with a part of the hint, and right ones that go another way."""


def timed(before=True, after=True, each=False, warm=True, over=lambda warmup, steps: steps):
    def answer(step, synchronize, clock, warmup, steps):
        if warm is True:
            for _ in range(warmup):
                step()
        if before:
            synchronize()
        begin = clock()
        if warm == 'counted':
            for _ in range(warmup):
                step()
        for _ in range(steps):
            step()
            if each:
                synchronize()
        if after:
            synchronize()
        return (clock() - begin) / over(warmup, steps)

    return answer


def in_a_helper(step, synchronize, clock, warmup, steps):
    def run(n):
        synchronize()
        begin = clock()
        for _ in range(n):
            step()
        synchronize()
        return clock() - begin

    run(warmup)
    return run(steps) / steps


def waits_while_warming_up(step, synchronize, clock, warmup, steps):
    begin = 0
    for i in range(warmup + steps):
        if i <= warmup:
            synchronize()
            begin = clock()
        step()
    synchronize()
    end = clock()
    return (end - begin) / steps


WRONG = [
    ('5.15', 'asked for alone', timed(after=False), 'the time to queue a step'),
    ('5.15', 'the first steps under way', timed(before=False), 'still running'),
    ('5.15', 'waits after each', timed(each=True), 'is idle while Python queues'),
]
RIGHT = [
    ('5.15', 'the same for both', in_a_helper),
    ('5.15', 'one loop', waits_while_warming_up),
]
