"""Pipeline parallelism: layers 1 and 2 on device 0, layers 3 and 4 on device 1.

The batch enters layer 1 on device 0. The activations of layer 2 cross to layer 3 on device 1; the
gradients return the same way. Below, one step over time: device 0 computes forward through layers
1 and 2, then is idle while device 1 computes forward and backward through layers 3 and 4, then
computes backward through layers 2 and 1 while device 1 is idle.

One device waits while the other works. A pipeline sends the batch through in
micro-batches, one after the other, which fills some of the gaps.
"""

import draw as d
from layers import BATCH_W, END, GAP, LANE_H, LANE_X, W, X, lanes, layer, there_and_back

figure = d.Figure(528, __doc__, 'Pipeline parallelism: each device holds some of the layers')

TOP = 62
rows = lanes(figure, TOP)
figure.data(d.MARGIN, rows[0] - 29, BATCH_W, 58, 'batch')
figure.arrow((d.MARGIN + BATCH_W, rows[0]), (X[0], rows[0]))
for i, k in enumerate((0, 0, 1, 1)):
    layer(figure, i, rows[k], k)
figure.circle(END, rows[1], 20)
figure.small(END, rows[1], 'loss')

# forward above, backward (dashed) below; between layers 2 and 3 both turn the corner
for i, k in ((0, 0), (2, 1), (3, 1)):
    there_and_back(figure, i, rows[k])
out, right, left = X[1] + W, X[2] - 14, X[2] - 32
up, down = rows
figure.arrow((out, up - 9), (right, up - 9), (right, down - 9), (X[2], down - 9))
figure.arrow((X[2], down + 9), (left, down + 9), (left, up + 9), (out, up + 9), dash='5 4')
middle = TOP + LANE_H + GAP / 2
figure.text(right + 14, middle + 5, 'activations cross')
figure.text(left - 14, middle + 5, 'gradients come back', anchor='end')

# --- one step over time
top, unit, height = 346, 103, 34
figure.text(d.MARGIN, top - 16, 'One step in time', bold=True)
busy = {
    0: [(0, 1, 'forward 1, 2'), (4, 6, 'backward 2, 1')],
    1: [(1, 2, 'forward 3, 4'), (2, 4, 'backward 4, 3')],
}
idle = {0: [(1, 4)], 1: [(0, 1), (4, 6)]}
for k in range(2):
    y = top + k * 44
    figure.text(d.MARGIN, y + 22, f'device {k}', fill=d.SHADE[k], bold=True)
    for start, end in idle[k]:
        x, width = LANE_X + start * unit, (end - start) * unit
        figure.idle(x, y, width, height)
        figure.hint(x + width / 2, y + height / 2, 'idle')
    for start, end, name in busy[k]:
        x, width = LANE_X + start * unit, (end - start) * unit
        figure.part(x, y, width, height, k, name, size=d.SMALL)
figure.time_axis(LANE_X, top + 92)
