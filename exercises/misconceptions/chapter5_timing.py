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


def read_too_early(step, synchronize, clock, warmup, steps):
    for _ in range(warmup):
        step()
    begin = clock()
    synchronize()
    for _ in range(steps):
        step()
    synchronize()
    return (clock() - begin) / steps


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


def in_milliseconds(step, synchronize, clock, warmup, steps):
    [step() for _ in range(warmup)]
    synchronize()
    times = [clock()]
    while steps > len(times) - 1:
        step()
        times.append(clock())
    synchronize()
    times[-1] = clock()
    return sum(1e3 * (b - a) for a, b in zip(times, times[1:])) / (len(times) - 1) / 1e3


WRONG = [
    ('5.15', 'asked for alone', timed(after=False), 'so long it takes to ask'),
    ('5.15', 'the first steps under way', timed(before=False), 'still under way'),
    ('5.15', 'waits too late', read_too_early, 'nothing is under way when the clock'),
    ('5.15', 'waits after each', timed(each=True), 'nothing to do while Python asks'),
    ('5.15', 'no steps before', timed(warm=False), '20 steps were made'),
    (
        '5.15',
        'the first steps counted',
        timed(warm='counted', over=lambda warmup, steps: warmup + steps),
        'the first steps are in it',
    ),
    ('5.15', 'timed, not counted', timed(warm='counted'), 'divided by those that count alone'),
    ('5.15', 'not divided', timed(over=lambda warmup, steps: 1), 'the time of all steps'),
    ('5.15', 'by all steps', timed(over=lambda warmup, steps: warmup + steps), 'steps that count'),
]
RIGHT = [
    ('5.15', 'the same for both', in_a_helper),
    ('5.15', 'one loop', waits_while_warming_up),
    ('5.15', 'a clock after each, in milliseconds', in_milliseconds),
]
