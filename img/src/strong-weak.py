"""Draw strong scaling, the same batch in ever smaller shards, and weak scaling, equal shards."""

import draw as d

figure = d.Figure(
    604,
    'Strong scaling and weak scaling, with 1, 2 and 4 devices',
    'Schematic. Strong scaling: the batch stays 256 examples. 1 device computes 256 of them, 2 '
    'devices 128 each, 4 devices 64 each: a step takes 1/2 and 1/4 of the time, plus an allreduce, '
    'which does not get shorter. Weak scaling: every device computes 128 examples, and the batch '
    'grows from 128 to 256 to 512: a step takes as long as before, plus the allreduce.',
)

COUNTS = (1, 2, 4)
LEFT, COLUMN, WIDE = 24, 248, 216  # of the columns; of 256 examples
BAR, PITCH, ALLREDUCE = 30, 37, 20


def scaling(top, name, shard, batch, result):
    """Draw one kind of scaling: a column for each number of devices, a bar for each device."""
    figure.headline(name, top)
    for i, count in enumerate(COUNTS):
        x = LEFT + i * COLUMN
        devices = f'{count} device{"s" if count > 1 else ""}'
        figure.text(x, top + 32, devices, bold=True)
        figure.text(
            x + WIDE, top + 32, f'batch {batch(count)}', fill=d.MUTED, size=d.SMALL, anchor='end'
        )
        width, height = WIDE * shard(count) / 256, count * PITCH - PITCH + BAR
        for k in range(count):
            y = top + 48 + k * PITCH
            figure.part(x, y, width, BAR, k, str(shard(count)), fill=d.SHADE[k], bold=True)
        if count > 1:
            middle, y = x + width + ALLREDUCE / 2, top + 48
            figure.rect(x + width, y, ALLREDUCE, height, d.LINE, None, r=0)
            figure.arrow((middle, y + 8), (middle, y + height - 8), both=True, color=d.WHITE)
        figure.text(x, top + 48 + 4 * PITCH + 14, f'time: {result(count)}', size=d.SMALL)


scaling(
    42,
    'Strong scaling: the same batch in ever smaller shards',
    lambda count: 256 // count,
    lambda count: 256,
    lambda count: f'1/{count} + allreduce' if count > 1 else '1',
)
scaling(
    304,
    'Weak scaling: the same shard for every device, the batch grows',
    lambda count: 128,
    lambda count: 128 * count,
    lambda count: '1 + allreduce' if count > 1 else '1',
)
figure.caption(
    'Schematic: a bar is as long as its shard takes, and the dark one is the allreduce.',
    'The smaller the shards, the larger its share of a step.',
)
figure.save(__file__)
