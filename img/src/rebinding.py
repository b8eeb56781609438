"""Assigning to an entry of a list, and copying into a tensor.

Before: the list data has two entries, which point at replica 0's gradient, 1 1, and at replica 1's
gradient, 2 2. The first loop adds into the first tensor: 3 3. A, data[i] = data[0].to(...): the
list's second entry now points at a new tensor, 3 3; replica 1's .grad is still 2 2. B,
data[i].copy_(data[0]): the sum is written into replica 1's .grad tensor; both replicas' .grad are
now 3 3.

A, on stand-ins: .to(...) stays in main memory and returns data[0] itself, not a copy;
replica 1's .grad is still [2 2].
"""

import draw as d

figure = d.Figure(660, __doc__, 'Before')

PANEL, CELL = 338, 30
DEVICE = 98  # where the devices begin in a panel
TENSOR = 174  # the centre of the tensors
GRAD, GRAD_W, GRAD_H = 238, 90, 42  # the names by which the replicas know them
ENTRY_W, ENTRY_H = 64, 34
ONE, TWO, GAP = 74, 124, 34  # heights: a device with one row, with two, and the gap


def tensor(x, y, k, value):
    figure.matrix(x + TENSOR - CELL, y - CELL / 2, [[value] * 2], CELL, CELL, k)


def panel(x, top, second, values):
    below = top + ONE + GAP
    for k, (y, h) in enumerate(((top, ONE), (below, second))):
        figure.device(x + DEVICE, y, PANEL - DEVICE, h, k)
    rows = (top + ONE - 28, below + 46, below + second - 28)  # the last two may be the same
    for k, y in enumerate((rows[0], rows[-1])):
        tensor(x, y, k, values[k])
        words = f'replica {k}', '.grad'  # the replica's name for its gradient
        figure.box(x + GRAD, y - GRAD_H / 2, GRAD_W, GRAD_H, *words, k=k, size=d.SMALL)
        figure.arrow((x + GRAD, y), (x + TENSOR + CELL, y))
    return rows


def entries(x, middle, *ends):
    figure.hint(x + ENTRY_W / 2, middle - ENTRY_H - 14, 'the list')
    for k, y in enumerate(ends):
        top = middle + (k - 1) * ENTRY_H
        figure.data(x, top, ENTRY_W, ENTRY_H, f'data[{k}]', size=d.SMALL, mono=True)
        figure.curve((x + ENTRY_W, top + ENTRY_H / 2), (x + TENSOR - CELL, y))


RIGHT = d.RIGHT - PANEL

# --- before, and the loop that both versions begin with
TOP = 60
rows = panel(d.MARGIN, TOP, ONE, (1, 2))
entries(d.MARGIN, (rows[0] + rows[2]) / 2, rows[0], rows[2])
figure.headline('The first loop, the same in A and B', 42, RIGHT)
figure.text(RIGHT, TOP + 14, 'data[0][:] += data[i].to(...)', mono=True)
figure.text(RIGHT, TOP + 44, 'It adds into the tensor:', fill=d.MUTED)
figure.text(RIGHT, TOP + 64, "replica 0's .grad becomes [3 3].", fill=d.MUTED)
figure.headline('The second loop, A or B', TOP + 110, RIGHT)
figure.text(RIGHT, TOP + 138, 'has to bring the sum to replica 1.', fill=d.MUTED)

# --- after: A points the entry elsewhere, B writes where the entry points
HEAD, TOP = 288, 316
codes = (d.MARGIN, 'A', 'data[i] = data[0].to(...)'), (RIGHT, 'B', 'data[i].copy_(data[0])')
for x, letter, code in codes:
    figure.badge(x + 14, HEAD - 5, letter)
    figure.text(x + 38, HEAD, code, mono=True, bold=True)
    new = letter == 'A'
    rows = panel(x, TOP, TWO, (3, 2 if new else 3))
    target = rows[1] if new else rows[2]
    middle = (rows[0] + rows[2]) / 2
    if new:  # the entry's old target
        start, end = (x + ENTRY_W, middle + ENTRY_H / 2), (x + TENSOR - CELL, rows[2])
        figure.curve(start, end, color=d.DATA_EDGE, dash='5 4')
        figure.hint(x + DEVICE - 12, rows[2] - 6, 'before', anchor='end')
    entries(x, middle, rows[0], target)
    column = x + TENSOR + CELL / 2  # not the centre, where the device's name is
    figure.arrow((column, rows[0] + CELL / 2), (column, target - CELL / 2))
    style = {'size': d.SMALL, 'mono': True, 'anchor': 'start'}
    figure.label(column + 12, TOP + ONE + GAP / 2, '.to(...)' if new else 'copy_', **style)
    if new:
        tensor(x, rows[1], 1, 3)
        figure.small(x + TENSOR + CELL + 12, rows[1], 'a new tensor', anchor='start')
BOTTOM = TOP + ONE + GAP + TWO
figure.text(d.MARGIN, BOTTOM + 30, "replica 1's .grad still is [2 2]: not the sum", bold=True)
figure.text(RIGHT, BOTTOM + 30, "both replicas' .grad are [3 3]: the sum", bold=True)
figure.divider(d.WIDTH / 2, HEAD - 20, BOTTOM)
