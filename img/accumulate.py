"""Draw gradient accumulation: three backward passes, one allreduce, against three allreduces."""

from draw import (
    CARD,
    DATA_EDGE,
    LARGE,
    LINE,
    MARGIN,
    MUTED,
    SHADE,
    SMALL,
    SOLID,
    TINT,
    WHITE,
    WIDTH,
    Figure,
)

figure = Figure(
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
    figure.rect(x, y, PASS, HEIGHT, TINT[k], SOLID[k], r=0)
    figure.label(x + 42, y + HEIGHT / 2, 'backward', size=SMALL)
    figure.circle(x + PASS - 20, y + HEIGHT / 2, 15, WHITE, SOLID[k], width=2)
    figure.label(x + PASS - 20, y + HEIGHT / 2, str(value), bold=True)


def allreduce(x, y, value):
    """Draw an allreduce over both lanes, and the sum that it gives."""
    figure.rect(x, y, ALLREDUCE, STEP + HEIGHT, LINE, CARD, r=0)
    figure.label(x + ALLREDUCE / 2, y + 18, 'allreduce', size=SMALL, fill=WHITE)
    figure.label(
        x + ALLREDUCE / 2, y + (STEP + HEIGHT) / 2, value, size=LARGE, fill=WHITE, bold=True
    )


def lanes(y, name):
    figure.text(MARGIN, y - 36, name, size=LARGE, bold=True)
    for k in range(2):
        middle = y + k * STEP + HEIGHT / 2
        figure.label(MARGIN, middle, f'device {k}', fill=SHADE[k], bold=True, anchor='start')


def update(x, y):
    for k in range(2):
        figure.rect(x, y + k * STEP, UPDATE, HEIGHT, SOLID[k], SOLID[k], r=0)
    figure.line((x + UPDATE / 2, y), (x + UPDATE / 2, y - 9))
    figure.label(x + UPDATE / 2, y - 20, 'update', size=SMALL)


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
figure.line((END, THREE + STEP + HEIGHT + 4), (END, BOTTOM + 24), color=DATA_EDGE, dash='5 4')
figure.line((saved, BOTTOM + 4), (saved, BOTTOM + 24), color=DATA_EDGE, dash='5 4')
figure.arrow((saved + 4, (ONE + BOTTOM) / 2), (END - 4, (ONE + BOTTOM) / 2), both=True)
figure.label((saved + END) / 2, (ONE + BOTTOM) / 2 - 16, 'time saved', bold=True)
figure.arrow((START, BOTTOM + 24), (WIDTH - MARGIN, BOTTOM + 24))
figure.label(START - 14, BOTTOM + 24, 'time', fill=MUTED, anchor='end')

figure.caption(
    'Schematic, not to scale. In the circles: above, the gradient of each pass; below, what has',
    'added up on the device so far (1, then 1 + 2 = 3, then 3 + 1 = 4), before anything is sent.',
)
figure.save(__file__)
