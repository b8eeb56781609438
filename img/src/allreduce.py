"""The naive allreduce of [1 1] and [2 2] on two devices.

Before: device 0 holds [1 1], device 1 holds [2 2]. Step 1: device 1's array is copied to device 0
and added there, which gives [3 3]. Step 2: the sum is copied back to device 1. After: both hold
[3 3]. With k devices there are k - 1 copies in and k - 1 copies out, all through device 0.

k devices: k − 1 copies in and k − 1 copies out, all of them through device 0.
"""

import draw as d
from lanes import head

figure = d.Figure(428, __doc__, 'The naive allreduce: copy to device 0, add, copy back')

CELL = 30
TOP, LANE_H, GAP = 120, 98, 40
ROWS = (TOP + 56, TOP + LANE_H + GAP + 56)
BEFORE, ADD, AFTER = 90, 300, 676  # centres of three columns
BORDERS = (152, 448, 620)


def array(x, k, value):
    figure.matrix(x - CELL, ROWS[k] - CELL / 2, [[value] * 2], CELL, CELL, k)


for k in range(2):
    figure.device(d.MARGIN, TOP + k * (LANE_H + GAP), d.INNER, LANE_H, k)
for x in BORDERS:
    figure.line((x, 62), (x, TOP + 2 * LANE_H + GAP + 8), color=d.DATA_EDGE, width=1, dash='2 4')
centre = (BORDERS[1] + BORDERS[2]) / 2
head(figure, BEFORE, 72, 'Before')
head(figure, ADD, 72, 'Step 1', 'copy to device 0, add')
head(figure, centre, 72, 'Step 2', 'copy the sum back')
head(figure, AFTER, 72, 'After')

for x, values in ((BEFORE, (1, 2)), (AFTER, (3, 3))):
    for k in range(2):
        array(x, k, values[k])

# step 1: [1 1] + a copy of [2 2] = [3 3], all on device 0
array(204, 0, 1)
figure.label(252, ROWS[0], '+', size=18)
array(300, 0, 2)
figure.label(348, ROWS[0], '=', size=18)
array(396, 0, 3)
array(300, 1, 2)
figure.arrow((300, ROWS[1] - CELL / 2), (300, ROWS[0] + CELL / 2))
figure.text(314, TOP + LANE_H + GAP / 2 + 5, 'copy', size=d.SMALL)

# step 2: the sum overwrites device 1's array
array(centre, 0, 3)
array(centre, 1, 3)
figure.arrow((centre, ROWS[0] + CELL / 2), (centre, ROWS[1] - CELL / 2))
figure.text(centre + 14, TOP + LANE_H + GAP / 2 + 5, 'copy', size=d.SMALL)
