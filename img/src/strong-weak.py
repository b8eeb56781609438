"""Strong scaling and weak scaling, with 1, 2 and 4 devices.

Schematic. Strong scaling: the batch stays 256 examples. 1 device computes 256 of them, 2 devices
128 each, 4 devices 64 each: a step takes 1/2 and 1/4 of the time, plus an allreduce, which does not
get shorter. Weak scaling: every device computes 128 examples, and the batch grows from 128 to 256
to 512: a step takes 1/2 for each number of devices, plus the allreduce.

Schematic: a light bar is a shard's time, a dark bar the exposed part of the allreduce.
The smaller the shards, the larger the allreduce's share of a step.
"""

import draw as d

figure = d.Figure(604, __doc__)

COUNTS = (1, 2, 4)
LEFT, COLUMN, WIDE = 24, 248, 216  # of the columns; WIDE: of 256 examples
BAR, PITCH, ALLREDUCE = 30, 37, 20


def scaling(top, name, shard, batch, unit):
    figure.headline(name, top)
    for i, count in enumerate(COUNTS):
        x = LEFT + i * COLUMN
        figure.text(x, top + 32, f'{count} device{"s" if count > 1 else ""}', bold=True)
        style = {'fill': d.MUTED, 'size': d.SMALL, 'anchor': 'end'}
        figure.text(x + WIDE, top + 32, f'batch {batch(count)}', **style)
        width, height = WIDE * shard(count) / 256, count * PITCH - PITCH + BAR
        y = top + 48
        for k in range(count):
            words = str(shard(count))
            figure.part(x, y + k * PITCH, width, BAR, k, words, fill=d.SHADE[k], bold=True)
        if count > 1:
            figure.bar(x + width, y, ALLREDUCE, height)
            figure.exchange(x + width + ALLREDUCE / 2, y + 8, y + height - 8)
        time = f'time: {unit(count)}' + (' + allreduce' if count > 1 else '')
        figure.text(x, y + 4 * PITCH + 14, time, size=d.SMALL)


name = 'Strong scaling: the same batch in ever smaller shards'
scaling(
    42,
    name,
    lambda count: 256 // count,
    lambda count: 256,
    lambda count: f'1/{count}'.removesuffix('/1'),
)
name = 'Weak scaling: the same shard for every device, the batch grows'
scaling(304, name, lambda count: 128, lambda count: 128 * count, lambda count: '1/2')
