"""DistributedDataParallel: two processes, and gradients that travel in buckets.

Above: two processes, rank 0 and rank 1, each with its own Python, parameters, device and shard;
during a step, gradients travel between them. Below, schematic: one backward pass on both ranks,
from the last layer to the first: dense 2, dense 1, conv 2, conv 1. Bucket 1, the gradients of dense
2 and dense 1, is summed over the ranks while conv 2 and conv 1 are computed. Bucket 2, the
gradients of conv 2 and conv 1, is summed after that. Then both ranks update.

Schematic, not to scale. Both ranks sum the same bucket at the same time.
If a network has buffers, such as running statistics, DDP also broadcasts rank 0's buffers.
Two buckets are drawn; the gradients of LeNet (0.5 MB) fit in one. DDP divides by 2, then sums.
"""

import draw as d

figure = d.Figure(632, __doc__, 'Two processes, and in a step gradients travel')

# --- two processes, mirrored so that the gradients face each other
PANEL, TOP, HEIGHT = 300, 62, 160
DEVICE, DEVICE_H = TOP + 38, 110
ROW = DEVICE + 66
for k in range(2):
    x = (d.MARGIN, d.RIGHT - PANEL)[k]
    figure.panel(x, TOP, PANEL, HEIGHT)
    figure.text(x + 12, TOP + 25, f'rank {k}', bold=True)
    style = {'size': d.SMALL, 'fill': d.MUTED, 'anchor': 'end'}
    figure.text(x + PANEL - 12, TOP + 25, 'a process with its own Python', **style)
    figure.device(x + 12, DEVICE, PANEL - 24, DEVICE_H, k)
    side = (1, -1)[k]
    outer = x + (0, PANEL)[k]
    shard, w, g = outer + side * 64, outer + side * 158, outer + side * 252
    figure.data(shard - 36, ROW - 18, 72, 36, f'shard {k}')
    figure.parameters(w, ROW, k=k, side=34)
    figure.gradient(g, ROW, f'g_{k}', k, r=20)
    figure.arrow((shard + side * 36, ROW), (w - side * 17, ROW))
    figure.arrow((w + side * 17, ROW), (g - side * 20, ROW))
    figure.small(w, ROW + 32, 'parameters')
inner = d.MARGIN + 252 + 20, d.RIGHT - 252 - 20
figure.arrow((inner[0], ROW), (inner[1], ROW), both=True, width=2)
figure.label(d.WIDTH / 2, ROW - 16, 'gradients', bold=True)

# --- one backward pass: two lanes of computation, with the messages between them
START, LANE, SPACE, BUS = 92, 36, 30, 46
LAYERS = (('dense 2', 78), ('dense 1', 84), ('conv 2', 142), ('conv 1', 104))
HEAD = 272
figure.headline('Backward: a full bucket travels while the rest is computed', HEAD)
ROWS = (HEAD + 48, HEAD + 48 + LANE + BUS + 2 * SPACE)
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
figure.text(START, ROWS[0] - 15, 'from the last layer to the first', size=d.SMALL, fill=d.MUTED)
figure.time_axis(START, ROWS[1] + LANE + 24)
