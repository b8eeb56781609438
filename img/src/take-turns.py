"""Draw two devices whose operators wait for each other, and two that work together."""

import draw as d

figure = d.Figure(
    474,
    'Two devices that take turns, and two that work together',
    'Schematic, not measured. Above: the operators of the two devices share workspaces and run in '
    'the order in which Python asked for them, first all of device 0, then all of device 1, which '
    'waits until then. Four operators on each device take eight units of time. Below: every '
    'operator has a workspace of its own. Both devices work all the time, and the same eight '
    'operators take four units of time.',
)

START, UNIT, HEIGHT, STEP = 122, 74, 44, 54
OPERATORS = 4


def operator(x, y, k, n):
    figure.part(x, y, UNIT, HEIGHT, k, f'op {n + 1}')


def lanes(y, name):
    """Name both lanes."""
    figure.headline(name, y - 30)
    for k in range(2):
        middle = y + k * STEP + HEIGHT / 2
        figure.name(d.MARGIN, middle, f'device {k}', k)


TURNS, TOGETHER = 72, 262
lanes(TURNS, 'Taking turns: one works, one waits')
for k in range(2):
    y = TURNS + k * STEP
    for n in range(OPERATORS):
        operator(START + (k * OPERATORS + n) * UNIT, y, k, n)
    wait = START + (1 - k) * OPERATORS * UNIT
    figure.line(
        (wait + 8, y + HEIGHT / 2),
        (wait + OPERATORS * UNIT - 8, y + HEIGHT / 2),
        color=d.MUTED,
        dash='2 4',
    )
lanes(TOGETHER, 'Together: both work')
for n in range(OPERATORS):
    for k in range(2):
        operator(START + n * UNIT, TOGETHER + k * STEP, k, n)

BOTTOM = TOGETHER + STEP + HEIGHT
slow, fast = START + 2 * OPERATORS * UNIT, START + OPERATORS * UNIT
figure.moment(slow, TURNS + STEP + HEIGHT + 4, BOTTOM + 24)
figure.moment(fast, BOTTOM + 4, BOTTOM + 24)
figure.arrow((fast + 4, (TOGETHER + BOTTOM) / 2), (slow - 4, (TOGETHER + BOTTOM) / 2), both=True)
figure.label((fast + slow) / 2, (TOGETHER + BOTTOM) / 2 - 16, 'time saved', bold=True)
figure.time_axis(START, BOTTOM + 24, gap=14)

figure.caption(
    'Schematic, not measured. By default all mx.cpu(i) share four temporary workspaces. Operators',
    '(op) with the same one run in the order in which Python asked for them; dotted: waiting.',
)
figure.save(__file__)
