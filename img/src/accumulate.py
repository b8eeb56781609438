"""Gradient accumulation: three backward passes and one allreduce.

Two devices, three backward passes each. Their gradients are 1, 2 and 1 on device 0 and 2, 1 and 3
on device 1. Above, an allreduce follows every pass: the sums are 3, 3 and 4, in total 10. Below,
each device accumulates its own gradients, 1, 3, 4 and 2, 3, 6, and one allreduce sums 4 and 6 to
10. Then one update. The sum is the same, with one allreduce instead of three.

Schematic, not to scale. In the circles: above, the gradient of each pass; below, the
device's running sum (1, then 1 + 2 = 3, then 3 + 1 = 4), before anything is sent.
"""

import draw as d

figure = d.Figure(478, __doc__)

START, HEIGHT, STEP = 122, 44, 54
PASS, ALLREDUCE, UPDATE = 112, 78, 30
GRADIENTS = ((1, 2, 1), (2, 1, 3))
END = START + 3 * (PASS + ALLREDUCE) + UPDATE


def backward(x, y, k, value):
    figure.part(x, y, PASS, HEIGHT, k)
    figure.small(x + 42, y + HEIGHT / 2, 'backward')
    figure.circle(x + PASS - 20, y + HEIGHT / 2, 15, d.WHITE, d.SOLID[k], width=2)
    figure.label(x + PASS - 20, y + HEIGHT / 2, str(value), bold=True)


def allreduce(x, y, value):
    figure.bar(x, y, ALLREDUCE, STEP + HEIGHT, edge=d.CARD)
    figure.small(x + ALLREDUCE / 2, y + 18, 'allreduce', fill=d.WHITE)
    style = {'size': d.LARGE, 'fill': d.WHITE, 'bold': True}
    figure.label(x + ALLREDUCE / 2, y + (STEP + HEIGHT) / 2, value, **style)


def lanes(y, name):
    figure.headline(name, y - 36)
    for k in range(2):
        figure.name(d.MARGIN, y + k * STEP + HEIGHT / 2, f'device {k}', k)


def update(x, y):
    for k in range(2):
        figure.solid(x, y + k * STEP, UPDATE, HEIGHT, k)
    figure.flag(x + UPDATE / 2, y, 'update')


THREE, ONE = 78, 266
lanes(THREE, 'Three allreduces: 3 + 3 + 4 = 10')
for i in range(3):
    x = START + i * (PASS + ALLREDUCE)
    for k in range(2):
        backward(x, THREE + k * STEP, k, GRADIENTS[k][i])
    allreduce(x + PASS, THREE, str(GRADIENTS[0][i] + GRADIENTS[1][i]))
update(END - UPDATE, THREE)

lanes(ONE, 'One allreduce: 4 + 6 = 10')
for i in range(3):
    for k in range(2):
        backward(START + i * PASS, ONE + k * STEP, k, sum(GRADIENTS[k][: i + 1]))
x = START + 3 * PASS
allreduce(x, ONE, str(sum(map(sum, GRADIENTS))))
update(x + ALLREDUCE, ONE)

BOTTOM = ONE + STEP + HEIGHT
saved = x + ALLREDUCE + UPDATE
figure.moment(END, THREE + STEP + HEIGHT + 4, BOTTOM + 24)
figure.moment(saved, BOTTOM + 4, BOTTOM + 24)
figure.time_saved(saved, END, (ONE + BOTTOM) / 2)
figure.time_axis(START, BOTTOM + 24, gap=14)
