"""Draw where the time of a step goes, on one device and on two."""

import draw as d

figure = d.Figure(
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
    figure.name(d.MARGIN, y + HEIGHT / 2, f'device {k}', k)
    x = START
    for width, name in parts:
        if name != 'allreduce':
            figure.rect(
                x, y, width, HEIGHT, d.SOLID[k] if name == 'update' else d.TINT[k], d.SOLID[k], r=0
            )
            if name != 'update':
                figure.label(x + width / 2, y + HEIGHT / 2, name)
        x += width
    return x


def note(x, y, name, anchor='middle'):
    """Name a part that is too narrow for its name, above it: the part's top is at `y`."""
    figure.line((x, y), (x, y - 9))
    figure.text(
        x + {'start': -6, 'middle': 0, 'end': 6}[anchor], y - 15, name, size=d.SMALL, anchor=anchor
    )


figure.headline('One device, 256 examples')
ONE = 80
end_one = lane(0, ONE, (FORWARD, 'forward'), (BACKWARD, 'backward'), (UPDATE, 'update'))
note(end_one - UPDATE / 2, ONE, 'update')

figure.headline('Two devices, 128 examples each', 178)
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
figure.rect(x, TWO, ALLREDUCE, STEP + HEIGHT, d.LINE, None, r=0)
figure.arrow(
    (x + ALLREDUCE / 2, TWO + 14), (x + ALLREDUCE / 2, BOTTOM - 14), both=True, color=d.WHITE
)
note(x + ALLREDUCE / 2, TWO, 'allreduce', 'end')
note(end_two - UPDATE / 2, TWO, 'update', 'start')

# --- what was saved, and the time axis
figure.moment(end_one, ONE + HEIGHT + 4, BOTTOM + 28)
figure.moment(end_two, BOTTOM + 4, BOTTOM + 28)
figure.arrow((end_two + 4, (TWO + BOTTOM) / 2), (end_one - 4, (TWO + BOTTOM) / 2), both=True)
figure.label((end_two + end_one) / 2, (TWO + BOTTOM) / 2 - 16, 'time saved', bold=True)
figure.time_axis(START, BOTTOM + 28)
figure.caption(
    'Schematic, not to scale. Half the examples take half the time. The allreduce is extra,',
    'and the update stays as long as it was: almost twice as fast, not quite.',
)
figure.save(__file__)
