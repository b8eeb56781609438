"""Draw where the time of a step goes, on one device and on two."""

from draw import (
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
    432,
    'One training step on one device and on two: almost twice as fast',
    'Schematic, not to scale. One device with 256 examples: forward, backward, update, one after '
    'the other. Two devices with 128 examples each: forward and backward take half as long, on '
    'both devices at the same time; then a short allreduce and an update that takes as long as '
    'before. The step ends after a little more than half the time.',
)

START, HEIGHT = 118, 42
FORWARD, BACKWARD, UPDATE, ALLREDUCE = 192, 384, 30, 28


def lane(k, y, *parts):
    """Draw what device `k` does, `parts` being (width, label); return where the lane ends."""
    figure.label(MARGIN, y + HEIGHT / 2, f'device {k}', fill=SHADE[k], bold=True, anchor='start')
    x = START
    for width, name in parts:
        if name != 'allreduce':
            figure.rect(
                x, y, width, HEIGHT, SOLID[k] if name == 'update' else TINT[k], SOLID[k], r=0
            )
            if name != 'update':
                figure.label(x + width / 2, y + HEIGHT / 2, name)
        x += width
    return x


def note(x, y, name, anchor='middle'):
    """Name a part that is too narrow for its name, above it: the part's top is at `y`."""
    figure.line((x, y), (x, y - 9))
    figure.text(
        x + {'start': -6, 'middle': 0, 'end': 6}[anchor], y - 15, name, size=SMALL, anchor=anchor
    )


figure.text(MARGIN, 42, 'One device, 256 examples', size=LARGE, bold=True)
ONE = 80
end_one = lane(0, ONE, (FORWARD, 'forward'), (BACKWARD, 'backward'), (UPDATE, 'update'))
note(end_one - UPDATE / 2, ONE, 'update')

figure.text(MARGIN, 178, 'Two devices, 128 examples each', size=LARGE, bold=True)
TWO, STEP = 220, HEIGHT + 10
BOTTOM = TWO + STEP + HEIGHT
for k in range(2):
    end_two = lane(
        k,
        TWO + k * STEP,
        (FORWARD / 2, 'forward'),
        (BACKWARD / 2, 'backward'),
        (ALLREDUCE, 'allreduce'),
        (UPDATE, 'update'),
    )
x = end_two - UPDATE - ALLREDUCE
figure.rect(x, TWO, ALLREDUCE, STEP + HEIGHT, LINE, None, r=0)
figure.arrow(
    (x + ALLREDUCE / 2, TWO + 14), (x + ALLREDUCE / 2, BOTTOM - 14), both=True, color=WHITE
)
note(x + ALLREDUCE / 2, TWO, 'allreduce', 'end')
note(end_two - UPDATE / 2, TWO, 'update', 'start')

# --- what was saved, and the time axis
figure.line((end_one, ONE + HEIGHT + 4), (end_one, BOTTOM + 28), color=DATA_EDGE, dash='5 4')
figure.line((end_two, BOTTOM + 4), (end_two, BOTTOM + 28), color=DATA_EDGE, dash='5 4')
figure.arrow((end_two + 4, (TWO + BOTTOM) / 2), (end_one - 4, (TWO + BOTTOM) / 2), both=True)
figure.label((end_two + end_one) / 2, (TWO + BOTTOM) / 2 - 16, 'time saved', bold=True)
figure.arrow((START, BOTTOM + 28), (WIDTH - MARGIN, BOTTOM + 28))
figure.label(START - 12, BOTTOM + 28, 'time', fill=MUTED, anchor='end')
figure.caption(
    'Schematic, not to scale. Half the examples take half the time. The allreduce is extra,',
    'and the update stays as long as it was: almost twice as fast, not quite.',
)
figure.save(__file__)
