"""Tensor parallelism: every layer's channels are split across the two devices.

Four layers with 20 channels, 50 channels, 128 outputs and 10 outputs. Device 0 computes the first
half of each, device 1 the second half. Both need the whole batch, and after each of the four layers
the halves are exchanged before the next layer can start.

The next layer needs all channels, so both devices stop after every layer and exchange
their halves: four exchanges forward, three backward.
"""

import draw as d
from layers import BATCH_W, END, GAP, LANE_H, H, W, X, lanes, layer

figure = d.Figure(464, __doc__, 'Tensor parallelism: each device computes a part of every layer')

TOP = 106
rows = lanes(figure, TOP)
middle = TOP + LANE_H + GAP / 2
figure.data(d.MARGIN, middle - 29, BATCH_W, 58, 'whole', 'batch')
for k in range(2):
    y = middle + (k - 0.5) * 36
    figure.arrow((d.MARGIN + BATCH_W, y), (107, y), (107, rows[k]), (X[0], rows[k]))

parts = (
    ('layer 1', '20 channels', '0 to 9', '10 to 19'),
    ('layer 2', '50 channels', '0 to 24', '25 to 49'),
    ('layer 3', '128 outputs', '0 to 63', '64 to 127'),
    ('layer 4', '10 outputs', '0 to 4', '5 to 9'),
)
for i, (name, size, first, second) in enumerate(parts):
    figure.label(X[i] + W / 2, TOP - 36, name, bold=True)
    figure.hint(X[i] + W / 2, TOP - 17, size)
    layer(figure, i, rows[0], 0, first)
    layer(figure, i, rows[1], 1, second)

# an exchange after every layer: a bar across both devices, which both write to and read from
for i in range(4):
    centre = X[i] + W + 23 if i < 3 else END - 22
    for y in rows:
        figure.arrow((X[i] + W, y), (centre - 6, y))
        if i < 3:
            figure.arrow((centre + 6, y), (X[i + 1], y))
    figure.bar(centre - 6, rows[0] - H / 2, 12, rows[1] - rows[0] + H, r=6)
    figure.exchange(centre, rows[0] + 8, rows[1] - 8)
    bottom = TOP + 2 * LANE_H + GAP
    figure.line((centre, rows[1] + H / 2), (centre, bottom + 20))
    figure.small(centre, bottom + 32, 'exchange')
