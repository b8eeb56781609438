"""Allreduce by recursive doubling on four devices.

Four devices hold 1, 2, 3 and 4. Round 1: 0 and 1 exchange their numbers and both add; so do 2 and
3: 3, 3, 7, 7. Round 2: 0 exchanges with 2, and 1 with 3; all hold 10.
"""

import draw as d
from lanes import head, lane, send_and_add, show

figure = d.Figure(374, __doc__, 'Four devices: every device sends and adds in every round')

PAIRS = (((0, 1), (2, 3)), ((0, 2), (1, 3)))  # who exchanges with whom in each round
SPLIT, X = 532, (146, 320, 494)
for i, pairs in enumerate(PAIRS):
    what = ' and '.join(f'{a} with {b}' for a, b in pairs)
    head(figure, (X[i] + X[i + 1]) / 2, 76, f'Round {i + 1}', what)
rows = [lane(figure, 118 + k * 60, 50, k, w=SPLIT - d.MARGIN) for k in range(4)]
for i, pairs in enumerate(PAIRS):
    for a, b in pairs:
        send_and_add(figure, X[i], X[i + 1], rows[a], rows[b])
        send_and_add(figure, X[i], X[i + 1], rows[b], rows[a])
show(figure, X[0], rows, (1, 2, 3, 4), 10)
show(figure, X[1], rows, (1 + 2, 1 + 2, 3 + 4, 3 + 4), 10)
show(figure, X[2], rows, (3 + 7, 3 + 7, 3 + 7, 3 + 7), 10)
notes = (
    ('Round 1', 'every sum has', '2 summands'),
    ('Round 2', 'every sum has', '4 summands'),
    ('k devices', 'log_2 k rounds: half', 'of what a tree takes'),
)
for i, (name, *lines) in enumerate(notes):
    y = 143 + i * 78
    figure.text(SPLIT + 28, y, name, bold=True)
    for j, line in enumerate(lines):
        figure.text(SPLIT + 28, y + 20 + j * 18, line, d.SMALL, fill=d.MUTED)
