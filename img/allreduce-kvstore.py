"""Draw the allreduce through a key-value store: push under a key, add, pull."""

from draw import DATA, DATA_EDGE, LARGE, LINE, MUTED, SMALL, WHITE, Figure
from lanes import CELL_W, DONE, cell, head, lane

figure = Figure(
    452,
    'Allreduce through a key-value store: four devices push and pull two arrays',
    'Four devices push arrays under two keys. Under key 0 they push 1, 2, 3 and 4, under key 1 '
    'they push 2, 4, 6 and 8. The store adds what comes under the same key: 10 and 20. Then every '
    'device pulls key 0 and key 1 and holds 10 and 20.',
)

TOP, LANE_H, PITCH = 118, 50, 62
X, STORE, STORE_W, AFTER, PART = (140, 178), 266, 282, (640, 678), 52
END = STORE + STORE_W
BOTTOM = TOP + 3 * PITCH + LANE_H

rows = [lane(figure, TOP + k * PITCH, LANE_H, k) for k in range(4)]
head(figure, sum(X) / 2, 40, 'Before')
head(figure, (STORE + END) / 2, 40, 'Store', 'adds what comes under one key')
head(figure, sum(AFTER) / 2, 40, 'After')
for xs in (X, AFTER):
    figure.text(xs[0] - 28, TOP - 12, 'key', SMALL, anchor='end', fill=MUTED)
    for key in range(2):
        figure.label(xs[key], TOP - 16, str(key), size=SMALL, fill=MUTED)

# --- the store stands over all lanes: it is none of the devices
figure.rect(STORE, TOP - 8, STORE_W, BOTTOM - TOP + 16, DATA, DATA_EDGE, r=9)
sums = []
for key in range(2):
    y = (rows[0] + rows[1], rows[2] + rows[3])[key] / 2
    values = [(k + 1) * (key + 1) for k in range(4)]
    sums.append(sum(values))
    figure.text(STORE + 20, y - 26, f'key {key}', bold=True)
    for k in range(4):
        x = STORE + 35 + k * PART
        cell(figure, x, y, values[k], k)
        figure.label(x + PART / 2, y, '+' if k < 3 else '=', size=LARGE)
    figure.rect(STORE + 35 + 4 * PART - 16, y - 16, 34, 32, LINE, None, r=0)
    figure.label(STORE + 35 + 4 * PART + 1, y, str(sums[key]), bold=True, fill=WHITE)
for k in range(4):
    for key in range(2):
        cell(figure, X[key], rows[k], (k + 1) * (key + 1), k)
        cell(figure, AFTER[key], rows[k], sums[key], k, DONE)
    figure.arrow((X[1] + CELL_W / 2, rows[k]), (STORE, rows[k]))
    figure.arrow((END, rows[k]), (AFTER[0] - CELL_W / 2, rows[k]))
    figure.label((X[1] + CELL_W / 2 + STORE - 6) / 2, rows[k] - 12, 'push', size=SMALL)
    figure.label((END + AFTER[0] - CELL_W / 2 - 6) / 2, rows[k] - 12, 'pull', size=SMALL)

figure.caption(
    'Devices know the store and the keys, not each other. The store may be main memory, one of',
    'the devices or servers in the network.',
)
figure.save(__file__)
