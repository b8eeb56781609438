"""Allreduce over a binary tree: 1, 2, 3 and 4 on four devices.

Devices 0 to 3 hold 1, 2, 3 and 4. Step 1: device 1 sends to 0 and device 3 to 2, which add: 3 and
7. Step 2: device 2 sends to 0, which has the sum, 10. On the way back, step 3: device 0 sends 10 to
2. Step 4: 0 sends it to 1 and 2 to 3. All hold 10. With k devices this takes twice the logarithm of
k to the base 2, rounded up, steps.

k devices: 2 · ⌈log_2 k⌉ steps, each with the whole array. Dotted: a device that waits.
"""

import draw as d
from lanes import DONE, LIVE, cell, head, lane, send_and_add, send_and_keep

figure = d.Figure(482, __doc__, 'A binary tree: sums go up, the total comes down')

TOP, LANE_H, PITCH = 154, 54, 68
X = (146, 284, 422, 560, 698)  # the states: before, and after each of the four steps

for name, first, last in (('Reduce: up the tree', 0, 2), ('Broadcast: down the tree', 2, 4)):
    centre, left, right = (X[first] + X[last]) / 2, X[first] + 24, X[last] - 24
    figure.label(centre, 74, name, size=d.LARGE, bold=True)
    figure.line((left, 98), (left, 92), (right, 92), (right, 98), color=d.DATA_EDGE, r=4)
for i in range(4):
    what = 'send, add' if i < 2 else 'send'
    head(figure, (X[i] + X[i + 1]) / 2, 112, f'Step {i + 1}', what)

rows = [lane(figure, TOP + k * PITCH, LANE_H, k) for k in range(4)]


def send(step, source, target):
    """Draw what `source` sends to `target`, which adds it on the way up and takes it down."""
    draw = send_and_add if step <= 2 else send_and_keep
    draw(figure, X[step - 1], X[step], rows[source], rows[target])


def wait(k, first, last):
    figure.line((X[first] - 10, rows[k]), (X[last] + 10, rows[k]), color=d.MUTED, dash='2 4')


def show(state, values):
    """Draw the numbers after a step; None where nothing is new."""
    for k, value in enumerate(values):
        if value:
            cell(figure, X[state], rows[k], value, k, DONE if value == 10 else LIVE)


send(1, 1, 0)
send(1, 3, 2)
send(2, 2, 0)
send(3, 0, 2)
send(4, 0, 1)
send(4, 2, 3)
wait(1, 1, 3)
wait(3, 1, 3)
show(0, (1, 2, 3, 4))
show(1, (1 + 2, None, 3 + 4, None))
show(2, (3 + 7, None, None, None))
show(3, (10, None, 10, None))
show(4, (10, 10, 10, 10))
