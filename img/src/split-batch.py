"""Splitting a batch over two devices: 6 rows, and 7 rows.

A batch of 6 rows of 4 numbers, 0 to 23, is split into two shards of 3 rows: rows 0 to 2 on device
0, rows 3 to 5 on device 1. A batch of 7 rows is split into 4 and 3: with n rows and k devices, the
first n mod k shards get one extra row.

n rows on k devices: the first n mod k shards get one extra row.
"""

import draw as d

figure = d.Figure(650, __doc__, '6 rows on 2 devices: 3 + 3')

CELL_W, CELL_H = 38, 26
LEFT, PANEL = 72, 380
PAD, GAP = 12, 16


def split(top, rows, sizes):
    """Draw a batch of `rows` rows and, centred next to it, its shards of `sizes` rows."""
    values = [[4 * row + column for column in range(4)] for row in range(rows)]
    height = sum(sizes) * CELL_H + 2 * len(sizes) * PAD + GAP * (len(sizes) - 1)
    batch_top = top + (height - rows * CELL_H) / 2
    figure.matrix(LEFT, batch_top, values, CELL_W, CELL_H)
    figure.label(LEFT + 2 * CELL_W, batch_top - 14, 'batch', bold=True)
    done, y = 0, top
    for k, size in enumerate(sizes):
        if k:
            cut = batch_top + done * CELL_H
            figure.line((LEFT - 12, cut), (LEFT + 4 * CELL_W + 12, cut), width=2, dash='6 4')
        panel = size * CELL_H + 2 * PAD
        middle = y + panel / 2
        figure.device(PANEL, y, d.RIGHT - PANEL, panel, k, name='')
        start = LEFT + 4 * CELL_W + 4, batch_top + (done + size / 2) * CELL_H
        figure.curve(start, (PANEL, middle))
        figure.name(PANEL + 20, middle - 10, f'device {k}', k)
        span = f'rows {done} to {done + size - 1}'
        figure.small(PANEL + 20, middle + 10, span, anchor='start')
        left, shard = d.RIGHT - PAD - 4 * CELL_W - 4, values[done : done + size]
        figure.matrix(left, y + PAD, shard, CELL_W, CELL_H, k)
        done, y = done + size, y + panel + GAP


split(58, 6, (3, 3))
figure.headline('7 rows on 2 devices: 4 + 3', 330)
split(346, 7, (4, 3))
