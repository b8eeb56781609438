"""Allreduce over a binary tree: 1, 2, 3 and 4 on four devices.

Devices 0 to 3 hold 1, 2, 3 and 4. Round 1: device 1 sends to 0 and device 3 to 2; both add, and
hold 3 and 7. Round 2: device 2 sends to 0, which now has the sum, 10. On the way back, round 3:
device 0 sends 10 to 2. Round 4: 0 sends it to 1, and 2 sends it to 3. All hold 10. With k devices,
the number of rounds is twice the base-2 logarithm of k, rounded up.

k devices: 2 · ⌈log_2 k⌉ rounds, each with the whole array. Dotted: the device is waiting.
"""

import draw as d
from lanes import head, lane, send_and_add, send_and_keep, show, wait

figure = d.Figure(482, __doc__, 'A binary tree: sums go up, the total comes down')

TOP, LANE_H, PITCH = 154, 54, 68
X = (146, 284, 422, 560, 698)  # the states: before, and after each of the four rounds

for name, first, last in (('Reduce: up the tree', 0, 2), ('Broadcast: down the tree', 2, 4)):
    centre, left, right = (X[first] + X[last]) / 2, X[first] + 24, X[last] - 24
    figure.label(centre, 74, name, size=d.LARGE, bold=True)
    figure.line((left, 98), (left, 92), (right, 92), (right, 98), color=d.DATA_EDGE, r=4)
for i in range(4):
    what = 'send, add' if i < 2 else 'send'
    head(figure, (X[i] + X[i + 1]) / 2, 112, f'Round {i + 1}', what)

rows = [lane(figure, TOP + k * PITCH, LANE_H, k) for k in range(4)]


# round, sender, and the receiver: it adds on the way up and copies on the way down
SENDS = (1, 1, 0), (1, 3, 2), (2, 2, 0), (3, 0, 2), (4, 0, 1), (4, 2, 3)
for turn, source, target in SENDS:
    draw = send_and_add if turn <= 2 else send_and_keep
    draw(figure, X[turn - 1], X[turn], rows[source], rows[target])
for k in (1, 3):
    wait(figure, X[1], X[3], rows[k])
show(figure, X[0], rows, (1, 2, 3, 4), 10)
show(figure, X[1], rows, (1 + 2, None, 3 + 4, None), 10)
show(figure, X[2], rows, (3 + 7, None, None, None), 10)
show(figure, X[3], rows, (10, None, 10, None), 10)
show(figure, X[4], rows, (10, 10, 10, 10), 10)
