"""Wrong answers to exercise 5.15, each with a part of its hint, and other right answers."""


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
    ('5.15', 'only queuing is timed', timed(after=False), 'the time to queue a step'),
    ('5.15', 'warm-up steps still running', timed(before=False), 'still running'),
    ('5.15', 'waits after each step', timed(each=True), 'is idle while Python queues'),
]
RIGHT = [
    ('5.15', 'the same for both', in_a_helper),
    ('5.15', 'one loop', waits_while_warming_up),
]
