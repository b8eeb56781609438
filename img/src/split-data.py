"""Draw data parallelism: the whole network on every device, the batch cut in shards."""

import draw as d
from layers import BATCH_W, END, GAP, LANE_H, W, X, lanes, layer

figure = d.Figure(
    370,
    'Data parallelism: the whole network on every device, the batch cut in shards',
    'The batch is cut in two shards. Each device holds a replica of the whole network, sends its '
    'shard through all four layers and ends with a gradient, g0 on device 0 and g1 on device 1. '
    'The two gradients are summed once per step.',
)

TOP = 62
figure.headline('Data parallelism: each device holds the whole network')
rows = lanes(figure, TOP)
middle = TOP + LANE_H + GAP / 2
for k in range(2):
    figure.data(d.MARGIN, (TOP, middle)[k], BATCH_W, LANE_H + GAP / 2)
    figure.label(d.MARGIN + BATCH_W / 2, rows[k], f'shard {k}')
    figure.arrow((d.MARGIN + BATCH_W, rows[k]), (X[0], rows[k]))
    for i in range(4):
        layer(figure, i, rows[k], k)
        end = X[i + 1] if i < 3 else END - 18
        figure.arrow((X[i] + W, rows[k]), (end, rows[k]))
    figure.gradient(END, rows[k], f'g_{k}', k)

figure.line((d.MARGIN - 8, middle), (d.MARGIN + BATCH_W + 8, middle), dash='5 4')
figure.arrow((END, rows[0] + 18), (END, middle - 14), both=True)
figure.arrow((END, rows[1] - 18), (END, middle + 14), both=True)
figure.plus(END, middle)
figure.text(END - 26, middle + 5, 'gradients are summed, once per step', anchor='end')

figure.caption(
    'The batch is cut in two shards. Replicas that start equal and apply the same sum',
    'stay equal, and the devices wait for each other only once per step.',
)
figure.save(__file__)
