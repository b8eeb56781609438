"""Hierarchical allreduce: two servers with four devices each.

Server 0: its four devices hold 1 2 3 4, 2 4 6 8, 3 6 9 12 and 4 8 12 16. Server 1: all four devices
hold 5 5 5 5. Step 1, reduce-scatter inside each server over its fast links: device i has the sum of
slice i, which is 10, 20, 30 and 40 in server 0 and 20 each in server 1. Step 2, over the network:
each pair of devices with the same slice exchanges it and adds: 30, 40, 50 and 60 in both servers.
Step 3, all-gather inside each server: all hold 30 40 50 60. Every device has sent a quarter of its
array over the network.

Devices of the same colour have the same slice. Each sends a quarter of its array, n/4 bytes,
over the network; everything else stays on the fast links inside a server.
"""

import draw as d
from lanes import CELL_H, DONE, NEXT, cell, lane, table

figure = d.Figure(732, __doc__, 'Inside each server, between the servers, inside again')

K, SLICE, LANE_H, PITCH = 4, 31, 36, 42
STATES = (134, 300, 440, 606)  # centres of the first cells: before, step 1, step 2, after
BARS = (264, 570)  # where all devices of a server exchange slices
MIDDLE = (STATES[1] + STATES[2] + 3 * SLICE) / 2
HEADS = (
    (BARS[0], 'Step 1', 'reduce-scatter', 'in each server: fast'),
    (MIDDLE, 'Step 2', 'allreduce of each slice', 'between servers: slow'),
    (BARS[1], 'Step 3', 'all-gather', 'in each server: fast'),
)
TOPS, SWITCH_H = (140, 434), 38
HEIGHT = 34 + (K - 1) * PITCH + LANE_H + 10  # of a server

arrays = table(K), [[5] * K for _ in range(K)]
sums = [[sum(column) for column in zip(*server)] for server in arrays]
total = [sum(pair) for pair in zip(*sums)]
rows = []
for x, name, *lines in HEADS:
    figure.label(x, 72, name, size=d.LARGE, bold=True)
    figure.hint(x, 104, *lines)
for s, top in enumerate(TOPS):
    figure.panel(d.MARGIN, top, d.INNER, HEIGHT)
    figure.text(42, top + 23, f'server {s}', bold=True)
    place = {'x': d.MARGIN + 6, 'w': d.INNER - 12}
    lanes = [(K * s + k, top + 34 + k * PITCH) for k in range(K)]
    rows.append([lane(figure, y, LANE_H, k, color=k % K, **place) for k, y in lanes])

# --- the network between the servers, and its messages
switch = (TOPS[0] + HEIGHT + TOPS[1]) / 2
left, right = STATES[1] - 32, STATES[2] + 3 * SLICE + 16
figure.rect(left, switch - SWITCH_H / 2, right - left, SWITCH_H)
figure.label(STATES[1] + 3 * SLICE + 22, switch, 'network switch', anchor='start')
for edge in (TOPS[0] + HEIGHT, TOPS[1]):  # all of a server's slices share its port
    figure.rect(STATES[1] - 24, edge - 9, 3 * SLICE + 48, 18)
    beside = edge + (16 if edge < switch else -16)
    figure.small(STATES[1] + 3 * SLICE + 32, beside, 'port', anchor='start')
for j in range(K):
    x = STATES[1] + j * SLICE
    figure.arrow((x, rows[0][j] + CELL_H / 2), (x, rows[1][j] - CELL_H / 2), both=True)

for s in range(2):
    for k in range(K):
        y = rows[s][k]
        for j in range(K):
            x = [left + j * SLICE for left in STATES]
            cell(figure, x[0], y, arrays[s][k][j], k)
            if j == k:
                cell(figure, x[1], y, sums[s][j], k, NEXT)
                cell(figure, x[2], y, total[j], k, DONE)
            cell(figure, x[3], y, total[j], k, DONE)
    for x in BARS:
        figure.bar(x - 6, rows[s][0] - 14, 12, rows[s][-1] - rows[s][0] + 28, r=6)
        figure.exchange(x, rows[s][0] - 6, rows[s][-1] + 6)
