"""Data parallelism: the whole network on every device, the batch cut into shards.

The batch is cut into two shards. Each device holds a replica of the whole network and runs its
shard forward through all four layers to a loss. The backward pass returns through the same layers
and computes a gradient for each, which is summed over both devices, once per step.

Solid: forward; dashed: backward, which computes each layer's gradient. Replicas that start
equal and apply the same sum stay equal; the devices wait for each other once per step.
"""

import draw as d
from layers import BATCH_W, END, LANE_H, H, W, X, lanes, layer, there_and_back

figure = d.Figure(412, __doc__, 'Data parallelism: each device holds the whole network')

TOP, GAP = 62, 66  # more space than in the other two figures, for the sum
rows = lanes(figure, TOP, GAP)
middle = TOP + LANE_H + GAP / 2
for k, y in enumerate(rows):
    figure.data(d.MARGIN, (TOP, middle)[k], BATCH_W, LANE_H + GAP / 2)
    figure.label(d.MARGIN + BATCH_W / 2, y, f'shard {k}')
    figure.arrow((d.MARGIN + BATCH_W, y - 9), (X[0], y - 9))
    for i in range(4):
        layer(figure, i, y, k)
        there_and_back(figure, i, y)
    figure.circle(END, y, 20)
    figure.small(END, y, 'loss')
figure.line((d.MARGIN - 8, middle), (d.MARGIN + BATCH_W + 8, middle), dash='5 4')

# every layer sends its gradient to the sum and receives the sum
figure.bar(X[0], middle - 15, X[3] + W - X[0], 30, 'gradients are summed, once per step', r=15)
for left in X:
    x = left + W - 18  # next to the name of device 1
    figure.arrow((x, rows[0] + H / 2), (x, middle - 15), both=True)
    figure.arrow((x, rows[1] - H / 2), (x, middle + 15), both=True)
