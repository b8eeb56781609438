"""Ring attention: queries stay, keys and values go around the ring.

Left, four ranks in a ring; each has the queries of its quarter of the sequence and sends keys and
values to the next rank. Right, the query-by-key matrix, as a grid of four by four blocks. Below the
diagonal a whole block is computed, on the diagonal a triangle, above it nothing. The number in a
block is the turn in which its keys reach the row's rank.

The number is the turn in which a block's keys arrive. Above the diagonal there is nothing to do:
rank 0 works only in turn 0, rank 3 in all four.
"""

import draw as d

figure = d.Figure(440, __doc__, 'Queries stay, keys and values go round')

BOX_W, BOX_H = 132, 92
CORNERS = ((48, 82), (228, 82), (228, 262), (48, 262))
for k, (x, y) in enumerate(CORNERS):
    figure.device(x, y, BOX_W, BOX_H, k, f'rank {k}')
    figure.data(x + 12, y + 32, BOX_W - 24, 22, f'queries {k}', size=d.SMALL)
    figure.part(x + 12, y + 60, BOX_W - 24, 22, k, f'K{k}, V{k}', size=d.SMALL)
for start, end in (
    ((180, 128), (226, 128)),
    ((294, 176), (294, 260)),
    ((228, 308), (182, 308)),
    ((114, 262), (114, 178)),
):
    figure.arrow(start, end, width=2.5)
figure.small(204, 219, 'keys and values', bold=True)

LEFT, TOP, CELL = 476, 110, 60
figure.label(LEFT + 2 * CELL, TOP - 40, 'keys and values of rank', bold=True)
for k in range(4):
    figure.label(LEFT + (k + 0.5) * CELL, TOP - 16, str(k), fill=d.SHADE[k], bold=True)
    figure.label(LEFT - 16, TOP + (k + 0.5) * CELL, str(k), fill=d.SHADE[k], bold=True)
figure.label(LEFT - 62, TOP + 2 * CELL, 'queries', 'of rank', bold=True)
for row in range(4):
    for column in range(4):
        x, y = LEFT + column * CELL, TOP + row * CELL
        figure.rect(x, y, CELL, CELL, d.CARD, d.DATA_EDGE, r=0, width=1)
        if column < row:
            figure.rect(x, y, CELL, CELL, d.TINT[row], d.SOLID[row], r=0)
        elif column == row:
            path = f'M{x} {y}L{x} {y + CELL}L{x + CELL} {y + CELL}Z'
            figure.add('path', d=path, **d.painted(d.TINT[row], d.SOLID[row], 1.5))
        if column <= row:
            shift = 0 if column < row else 0.2 * CELL
            cx, cy = x + CELL / 2 - shift, y + CELL / 2 + shift
            figure.label(cx, cy, str((row - column) % 4), bold=True)
