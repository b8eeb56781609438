"""Two devices that take turns, and two that work together.

Schematic, not measured. Above: the operators of the two devices share workspaces and run in the
order in which Python asked for them, first all of device 0, then all of device 1, which waits until
then. Four operators on each device take eight units of time. Below: every operator has a workspace
of its own. Both devices work all the time, and the same eight operators take four units of time.

Shortened: a forward pass has many more operators (op) than there are workspaces, four for all
mx.cpu(i). Those with the same one run in the order in which Python asked for them; dotted: waiting.
"""

import draw as d

figure = d.Figure(474, __doc__)

START, UNIT, HEIGHT, STEP = 122, 74, 44, 54
OPERATORS = 4


def lanes(y, name):
    figure.headline(name, y - 30)
    for k in range(2):
        figure.name(d.MARGIN, y + k * STEP + HEIGHT / 2, f'device {k}', k)


TURNS, TOGETHER = 72, 262
lanes(TURNS, 'Taking turns: one works, one waits')
for k in range(2):
    y = TURNS + k * STEP
    for n in range(OPERATORS):
        figure.part(START + (k * OPERATORS + n) * UNIT, y, UNIT, HEIGHT, k, f'op {n + 1}')
    wait, middle = START + (1 - k) * OPERATORS * UNIT, y + HEIGHT / 2
    ends = (wait + 8, middle), (wait + OPERATORS * UNIT - 8, middle)
    figure.line(*ends, color=d.MUTED, dash='2 4')
lanes(TOGETHER, 'Together: both work')
for n in range(OPERATORS):
    for k in range(2):
        figure.part(START + n * UNIT, TOGETHER + k * STEP, UNIT, HEIGHT, k, f'op {n + 1}')

BOTTOM = TOGETHER + STEP + HEIGHT
slow, fast = START + 2 * OPERATORS * UNIT, START + OPERATORS * UNIT
figure.moment(slow, TURNS + STEP + HEIGHT + 4, BOTTOM + 24)
figure.moment(fast, BOTTOM + 4, BOTTOM + 24)
figure.time_saved(fast, slow, (TOGETHER + BOTTOM) / 2)
figure.time_axis(START, BOTTOM + 24, gap=14)
