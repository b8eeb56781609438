"""Buckets: gradients that travel together, while the backward pass goes on.

Schematic: one backward pass on two ranks, from the last layer to the first: dense 2, dense 1, conv
2, conv 1. When the gradients of dense 2 and dense 1 are ready on both ranks, bucket 1 is full, and
is summed over the ranks while conv 2 and conv 1 are computed. Bucket 2, the gradients of conv 2 and
conv 1, is summed after that. Then both ranks update.

Schematic, not to scale. During the last bucket's sum, there is nothing left to compute.
"""

import draw as d

figure = d.Figure(356, __doc__, 'A full bucket travels while the rest is computed')

START, LANE, SPACE, BUS = 92, 36, 30, 46
LAYERS = (('dense 2', 78), ('dense 1', 84), ('conv 2', 142), ('conv 1', 104))
ROWS = (90, 90 + LANE + BUS + 2 * SPACE)
TRAVEL = ROWS[0] + LANE + SPACE
MIDDLE = TRAVEL + BUS / 2
INNER = (ROWS[0] + LANE, ROWS[1])  # the edges of the lanes next to the messages
edges = [START + sum(width for _, width in LAYERS[:i]) for i in range(5)]
for k, y in enumerate(ROWS):
    figure.name(d.MARGIN, y + LANE / 2, f'rank {k}', k)
    for (name, width), x in zip(LAYERS, edges):
        figure.part(x, y, width, LANE, k, name)
figure.name(d.MARGIN, MIDDLE, 'sum')
for i, width in enumerate((162, 116)):
    first, last = edges[2 * i], edges[2 * i + 2]
    x = last + 20
    for edge, out in zip(INNER, (8, -8)):
        left, right = first + 4, last - 4  # a bucket leaves when its last gradient is ready
        figure.line((left, edge + out / 2), (left, edge + out), (right, edge + out), r=4)
        figure.arrow((right, edge + out / 2), (right, MIDDLE), (x, MIDDLE))
    figure.bar(x, TRAVEL, width, BUS)
    layers = ', '.join(name for name, _ in LAYERS[2 * i : 2 * i + 2])
    figure.label(x + width / 2, MIDDLE - 10, f'bucket {i + 1}', fill=d.WHITE, bold=True)
    figure.small(x + width / 2, MIDDLE + 10, layers, fill=d.WHITE)
x += width
UPDATE = 46
for k, y in enumerate(ROWS):
    left = x + 14
    figure.solid(left, y, UPDATE, LANE, k)
    figure.arrow((x, MIDDLE), (left + UPDATE / 2, MIDDLE), (left + UPDATE / 2, INNER[k]))
figure.flag(left + UPDATE / 2, ROWS[0], 'update')
figure.text(START, ROWS[0] - 15, 'backward pass', size=d.SMALL, fill=d.MUTED)
figure.time_axis(START, ROWS[1] + LANE + 24)
