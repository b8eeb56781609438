"""Sharded allreduce: each of four devices sums its own slice for all the others.

Every array is cut into 4 slices. Device 0 holds 1 2 3 4, device 1 2 4 6 8, device 2 3 6 9 12,
device 3 4 8 12 16. First half: device i gathers slice i from all others and adds it: device 0 has
10 for slice 0, device 1 20 for slice 1, device 2 30 for slice 2, device 3 40 for slice 3. Second
half: each sends its sum to all others, and every device holds 10 20 30 40.

All devices work at the same time. Each sends 3 slices, then its sum 3 times. With k devices,
that is 2 · (k − 1) messages, each with 1/k of the array.
"""

import draw as d
from lanes import CELL_W, DONE, LIVE, OLD, cells, head, lane, table

figure = d.Figure(480, __doc__, 'The sharded allreduce: each device sums its slice for all')

TOP, LANE_H, PITCH = 160, 50, 62
BEFORE, SUMS, AFTER = 132, 358, 588  # centres of the first cells of the three states
WIDE, CLOSE = 54, 36  # distance between slices, with and without arrows between them
ARRAYS = table(4)

rows = [lane(figure, TOP + k * PITCH, LANE_H, k) for k in range(4)]


def bus(left, j, gather):
    """Draw the line that joins slice `j` of all devices to device `j`, which sums it."""
    edge, x = left + j * WIDE + CELL_W / 2, left + (j + 0.5) * WIDE
    far = [k for k in (0, 3) if k != j]
    near = [k for k in (1, 2) if k != j]
    draw = figure.line if gather else figure.arrow  # arrow heads show where the numbers arrive
    for k in far:
        points = ((x, rows[j]), (x, rows[k]), (edge, rows[k]))
        draw(*points, color=d.SHADE[j])
    for k in near:
        draw((x, rows[k]), (edge, rows[k]), color=d.SHADE[j])
    if gather:
        figure.arrow((x, rows[j]), (edge, rows[j]), color=d.SHADE[j])
    else:
        figure.line((edge, rows[j]), (x, rows[j]), color=d.SHADE[j])


total = [sum(column) for column in zip(*ARRAYS)]
for j in range(4):
    bus(BEFORE, j, gather=True)
    bus(SUMS, j, gather=False)
sums = [[total[j] if j == k else ARRAYS[k][j] for j in range(4)] for k in range(4)]
for left, pitch, values, look in (
    (BEFORE, WIDE, ARRAYS, lambda k, j: LIVE),
    (SUMS, WIDE, sums, lambda k, j: DONE if j == k else OLD),
    (AFTER, CLOSE, [total] * 4, lambda k, j: DONE),
):
    cells(figure, [left + j * pitch for j in range(4)], rows, values, look, TOP - 16)
figure.hint(36, TOP - 16, 'slice', anchor='start')
head(figure, BEFORE + 1.5 * WIDE, 76, 'First half', 'gather slice i on device i, add')
head(figure, SUMS + 1.5 * WIDE, 76, 'Second half', 'send its sum to all')
head(figure, AFTER + 1.5 * CLOSE, 76, 'After')
