"""Ulysses: tokens are exchanged for heads.

Tables of tokens by heads. Left, before attention, each of four ranks has a quarter of the tokens,
with all heads. An all-to-all: each rank sends three of its four parts away. In the middle, each
rank has all tokens for one of the four heads, and computes attention for it. A second all-to-all
returns the tokens.

A square is some tokens of some heads: its fill is the rank that holds it, its edge their owner.
Each rank keeps one of its four and sends three: queries, keys and values there, the result back.
"""

import draw as d

figure = d.Figure(408, __doc__, 'All tokens of some heads, just for attention')

CELL, TOP, LEFTS = 42, 132, (84, 296, 508)


def table(left, by_rows, title):
    figure.label(left + 2 * CELL, TOP - 54, title, bold=True)
    figure.hint(left + 2 * CELL, TOP - 16, 'heads')
    for i in range(4):
        for j in range(4):
            x, y = left + j * CELL + 2, TOP + i * CELL + 2
            tint = d.TINT[i if by_rows else j]
            figure.rect(x, y, CELL - 4, CELL - 4, tint, d.SOLID[i], r=0, width=3)
        at = TOP + (i + 0.5) * CELL
        if by_rows:
            x, anchor = (left - 10, 'end') if title == 'before' else (left + 4 * CELL + 10, 'start')
            figure.small(x, at, f'rank {i}', fill=d.SHADE[i], bold=True, anchor=anchor)
        else:
            at = left + (i + 0.5) * CELL
            figure.small(at, TOP + 4 * CELL + 16, str(i), fill=d.SHADE[i], bold=True)


table(LEFTS[0], True, 'before')
table(LEFTS[1], False, 'attention')
table(LEFTS[2], True, 'after')
figure.hint(LEFTS[0] - 10, TOP - 16, 'tokens', anchor='end')
figure.small(LEFTS[1] - 12, TOP + 4 * CELL + 16, 'rank', bold=True, anchor='end')
for start, end in zip(LEFTS, LEFTS[1:]):
    x, y = start + 4 * CELL, TOP - 54
    figure.arrow((x - 10, y), (end + 30, y), width=2.5)
    figure.small((x + end + 20) / 2, y + 20, 'all-to-all', bold=True)
