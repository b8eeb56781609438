"""A bucket: four gradients travel in one allreduce.

Device 0 has four gradients: W1 is 1 2 over 3 4, b1 is 5 6, W2 is 7 8, b2 is 9. Device 1 has ten
times these. Each device copies them one after the other into one array of nine numbers. One
allreduce sums the two arrays: 11 22 33 44 55 66 77 88 99. The sum is split back into the four
gradients: W1 is 11 22 over 33 44, b1 is 55 66, W2 is 77 88, b2 is 99.

The same number of bytes, but the latencies of an allreduce are paid once instead of 4 times.
"""

import draw as d
from lanes import DONE, LIVE, cell

figure = d.Figure(628, __doc__, 'A bucket: four gradients travel in one allreduce')

X, W, GAP = 186, 268, 14  # the two devices' panels
TOP, BOTTOM = 62, 566
CELL, LOW = 27, 26
SHAPES = (('W1', 2, 2), ('b1', 1, 2), ('W2', 1, 2), ('b2', 1, 1))  # name, rows, columns
LEFTS = (0, 72, 144, 216)  # of the four separate gradients
APART = LEFTS[-1] + CELL


def apart(left, y, values, k, look):
    middles, done = [], 0
    for (_, rows, columns), x in zip(SHAPES, LEFTS):
        for i in range(rows * columns):
            row, column = divmod(i, columns)
            cx = left + x + (column + 0.5) * CELL
            cell(figure, cx, y + row * LOW, values[done + i], k, look, CELL, LOW)
        middles.append(left + x + columns * CELL / 2)
        done += rows * columns
    return middles


def together(left, y, values, k, look):
    for i, value in enumerate(values):
        cell(figure, left + (i + 0.5) * CELL, y, value, k, look, CELL, LOW)
    middles, x = [], left
    for _, rows, columns in SHAPES:
        size = rows * columns * CELL
        if look == LIVE:  # where one gradient ends and the next begins
            figure.rect(x, y - LOW / 2, size, LOW, 'none', d.SHADE[k], r=0, width=2.25)
        middles.append(x + size / 2)
        x += size
    return middles


ONE, FLAT, ADD, SUM, BACK = 134, 232, 302, 372, 478
for k in range(2):
    x = X + k * (W + GAP)
    figure.device(x, TOP, W, BOTTOM - TOP, k)
    centre = x + W / 2
    left, wide = centre - 4.5 * CELL, centre - APART / 2
    values = [(i + 1) * (1, 10)[k] for i in range(9)]
    total = [11 * (i + 1) for i in range(9)]
    starts = apart(wide, ONE, values, k, LIVE)
    for (name, _, _), middle in zip(SHAPES, starts):
        figure.label(middle, ONE - 26, name, bold=True)
    ends = together(left, FLAT, values, k, LIVE)
    for i, (start, end) in enumerate(zip(starts, ends)):
        figure.arrow((start, ONE + LOW * (SHAPES[i][1] - 0.5) + 2), (end, FLAT - LOW / 2 - 2))
    figure.arrow((centre, FLAT + LOW / 2), (centre, ADD - 17))
    figure.arrow((centre, ADD + 17), (centre, SUM - LOW / 2))
    starts = together(left, SUM, total, k, DONE)
    ends = apart(wide, BACK, total, k, DONE)
    for start, end in zip(starts, ends):
        figure.arrow((start, SUM + LOW / 2 + 2), (end, BACK - LOW / 2 - 2))
    for (name, _, _), middle in zip(SHAPES, ends):
        figure.label(middle, BACK + 58, name, bold=True)
figure.bar(X + 24, ADD - 17, 2 * W + GAP - 48, 34, 'one allreduce of 9 numbers', r=17)

figure.stage(1, ONE, 'Gradients', 'of 4 parameters')
figure.stage(2, FLAT, 'Flatten', 'into one array')
figure.stage(3, ADD, 'Sum', 'once, not 4 times')
figure.stage(4, SUM + (BACK - SUM) / 2, 'Cut back', 'into 4 again')
