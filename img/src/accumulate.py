"""Draw gradient accumulation: three backward passes, one allreduce, against three allreduces."""

import draw as d

figure = d.Figure(
    478,
    'Gradient accumulation: three backward passes and one allreduce',
    'Two devices, three backward passes each. Their gradients are 1, 2 and 1 on device 0 and 2, 1 '
    'and 3 on device 1. Above, an allreduce after every pass: the sums are 3, 3 and 4, together '
    '10. Below, each device adds its own gradients up, 1, 3, 4 and 2, 3, 6, and one allreduce '
    'sums 4 and 6: 10. Then one update. The same sum with one allreduce in place of three.',
)

START, HEIGHT, STEP = 122, 44, 54
PASS, ALLREDUCE, UPDATE = 112, 78, 30
GRADIENTS = ((1, 2, 1), (2, 1, 3))
END = START + 3 * (PASS + ALLREDUCE) + UPDATE


def backward(x, y, k, value):
    """Draw a backward pass and the gradient that it gives, or that has added up."""
    figure.part(x, y, PASS, HEIGHT, k)
    figure.label(x + 42, y + HEIGHT / 2, 'backward', size=d.SMALL)
    figure.circle(x + PASS - 20, y + HEIGHT / 2, 15, d.WHITE, d.SOLID[k], width=2)
    figure.label(x + PASS - 20, y + HEIGHT / 2, str(value), bold=True)


def allreduce(x, y, value):
    """Draw an allreduce over both lanes, and the sum that it gives."""
    figure.rect(x, y, ALLREDUCE, STEP + HEIGHT, d.LINE, d.CARD, r=0)
    figure.label(x + ALLREDUCE / 2, y + 18, 'allreduce', size=d.SMALL, fill=d.WHITE)
    figure.label(
        x + ALLREDUCE / 2, y + (STEP + HEIGHT) / 2, value, size=d.LARGE, fill=d.WHITE, bold=True
    )


def lanes(y, name):
    figure.headline(name, y - 36)
    for k in range(2):
        middle = y + k * STEP + HEIGHT / 2
        figure.name(d.MARGIN, middle, f'device {k}', k)


def update(x, y):
    for k in range(2):
        figure.rect(x, y + k * STEP, UPDATE, HEIGHT, d.SOLID[k], d.SOLID[k], r=0)
    figure.line((x + UPDATE / 2, y), (x + UPDATE / 2, y - 9))
    figure.label(x + UPDATE / 2, y - 20, 'update', size=d.SMALL)


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
figure.arrow((saved + 4, (ONE + BOTTOM) / 2), (END - 4, (ONE + BOTTOM) / 2), both=True)
figure.label((saved + END) / 2, (ONE + BOTTOM) / 2 - 16, 'time saved', bold=True)
figure.time_axis(START, BOTTOM + 24, gap=14)

figure.caption(
    'Schematic, not to scale. In the circles: above, the gradient of each pass; below, what has',
    'added up on the device so far (1, then 1 + 2 = 3, then 3 + 1 = 4), before anything is sent.',
)
figure.save(__file__)
