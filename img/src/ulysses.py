"""Ulysses: tokens are exchanged for heads.

Tables of tokens by heads. Left, before attention, each of four ranks has a quarter of the tokens,
with all heads. An all-to-all: each rank sends three of its four parts away. In the middle each rank
has all tokens, of one head of four, and computes attention for it. A second all-to-all gives the
tokens back.

A square is some tokens of some heads. Each rank keeps one of its four and sends three:
there for queries, keys and values, and back for what attention gives.
"""

import draw as d

figure = d.Figure(432, __doc__, 'All tokens of some heads, just for attention')

CELL, TOP, LEFTS = 42, 132, (88, 316, 544)


def table(left, by_rows, title):
    figure.label(left + 2 * CELL, TOP - 54, title, bold=True)
    figure.hint(left + 2 * CELL, TOP - 16, 'heads')
    for i in range(4):
        for j in range(4):
            figure.part(left + j * CELL, TOP + i * CELL, CELL, CELL, i if by_rows else j)
        at = TOP + (i + 0.5) * CELL
        if by_rows:
            figure.small(left - 10, at, f'rank {i}', fill=d.SHADE[i], bold=True, anchor='end')
        else:
            at = left + (i + 0.5) * CELL
            figure.small(at, TOP + 4 * CELL + 16, str(i), fill=d.SHADE[i], bold=True)


table(LEFTS[0], True, 'before')
table(LEFTS[1], False, 'attention')
table(LEFTS[2], True, 'after')
figure.small(LEFTS[1] - 12, TOP + 4 * CELL + 16, 'rank', bold=True, anchor='end')
for start, end in zip(LEFTS, LEFTS[1:]):
    x, y = start + 4 * CELL, TOP - 54
    figure.arrow((x - 10, y), (end + 30, y), width=2.5)
    figure.small((x + end + 20) / 2, y + 20, 'all-to-all', bold=True)
