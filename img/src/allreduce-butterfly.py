"""Allreduce by recursive doubling: four devices, and six.

Four devices hold 1, 2, 3 and 4. Step 1: 0 and 1 exchange their numbers and both add; so do 2 and 3:
3, 3, 7, 7. Step 2: 0 exchanges with 2, and 1 with 3; all hold 10. Six devices hold 1 to 6, and 6 is
not a power of two. First 4 sends to 0 and 5 to 1: 6, 8, 3, 4 on the first four. These do the two
steps: 14, 14, 7, 7, then 21 on all four. Last, 0 sends 21 to 4, and 1 sends it to 5.

6 is not a power of two: 4 devices do the steps; the 2 extra ones (dotted while they wait)
cost one step before and one step after.
"""

import draw as d
from lanes import head, lane, send_and_add, send_and_keep, show, wait

figure = d.Figure(876, __doc__, 'Four devices: every device sends and adds in every step')


def lanes(top, height, pitch, count, x=d.MARGIN, w=d.INNER):
    return [lane(figure, top + k * pitch, height, k, x=x, w=w) for k in range(count)]


def exchange(x0, x1, rows, first, second):
    """Draw two devices that exchange their numbers and add them."""
    send_and_add(figure, x0, x1, rows[first], rows[second])
    send_and_add(figure, x0, x1, rows[second], rows[first])


# --- four devices, with the labels next to them
PAIRS = (((0, 1), (2, 3)), ((0, 2), (1, 3)))  # who exchanges with whom in each step
SPLIT, X = 532, (146, 320, 494)
for i, pairs in enumerate(PAIRS):
    what = ' and '.join(f'{a} with {b}' for a, b in pairs)
    head(figure, (X[i] + X[i + 1]) / 2, 76, f'Step {i + 1}', what)
rows = lanes(118, 50, 60, 4, w=SPLIT - d.MARGIN)
for i, pairs in enumerate(PAIRS):
    for pair in pairs:
        exchange(X[i], X[i + 1], rows, *pair)
show(figure, X[0], rows, (1, 2, 3, 4), 10)
show(figure, X[1], rows, (1 + 2, 1 + 2, 3 + 4, 3 + 4), 10)
show(figure, X[2], rows, (3 + 7, 3 + 7, 3 + 7, 3 + 7), 10)
notes = (
    ('Step 1', 'every sum has', '2 summands'),
    ('Step 2', 'every sum has', '4 summands'),
    ('k devices', 'log_2 k steps: half', 'of what a tree takes'),
)
for i, (name, *lines) in enumerate(notes):
    y = 143 + i * 78
    figure.text(SPLIT + 28, y, name, bold=True)
    for j, line in enumerate(lines):
        figure.text(SPLIT + 28, y + 20 + j * 18, line, d.SMALL, fill=d.MUTED)

# --- six devices: two more steps
TOP = 476
X = (146, 284, 422, 560, 698)
figure.headline('Six devices: two hand their numbers over first', TOP - 76)
names = ('Fold in', '4 to 0, 5 to 1'), ('Step 1', 'as above'), ('Step 2', 'as above')
for i, (name, what) in enumerate((*names, ('Fold out', '0 to 4, 1 to 5'))):
    head(figure, (X[i] + X[i + 1]) / 2, TOP - 42, name, what)
rows = lanes(TOP, 44, 54, 6)
for k in (0, 1):
    send_and_add(figure, X[0], X[1], rows[k + 4], rows[k])
    send_and_keep(figure, X[3], X[4], rows[k], rows[k + 4])
for k in (2, 3):  # they receive nothing and keep their number
    figure.line((X[0], rows[k]), (X[1], rows[k]))
    figure.line((X[3], rows[k]), (X[4], rows[k]))
for k in (4, 5):  # they wait
    wait(figure, X[1], X[3], rows[k])
for i, pairs in enumerate(PAIRS):
    for pair in pairs:
        exchange(X[i + 1], X[i + 2], rows, *pair)
show(figure, X[0], rows, (1, 2, 3, 4, 5, 6), 21)
show(figure, X[1], rows, (1 + 5, 2 + 6, 3, 4), 21)
show(figure, X[2], rows, (6 + 8, 6 + 8, 3 + 4, 3 + 4), 21)
show(figure, X[3], rows, (14 + 7, 14 + 7, 14 + 7, 14 + 7), 21)
show(figure, X[4], rows, (21, 21, 21, 21, 21, 21), 21)
