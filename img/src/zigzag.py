"""Zig-zag: each rank has a piece from the front and one from the back.

Left, the sequence in four pieces, one per rank: the first rank has a triangle of queries by keys to
compute, the last one a triangle and three squares. Right, in eight pieces: rank 0 has pieces 0 and
7, rank 1 has 1 and 6, rank 2 has 2 and 5, rank 3 has 3 and 4. All have the same amount of work.

A row's colour is the rank that has its queries. With equal pieces in order, work is unequal; with
one piece from the front and one from the back, it is equal on all ranks.
"""

import draw as d

figure = d.Figure(510, __doc__, 'One piece from the front, one from the back')


def table(left, pieces, title, shares):
    top, cell = 142, 256 / len(pieces)
    figure.label(left + 128, 82, title, bold=True)
    for i, k in enumerate(pieces):
        figure.part(left + i * cell, 104, cell, 24, k, str(i), bold=True, size=d.SMALL)
        for j in range(i + 1):
            x, y = left + j * cell, top + i * cell
            if j < i:
                figure.rect(x, y, cell, cell, d.TINT[k], d.SOLID[k], r=0, width=1)
            else:
                path = f'M{x:g} {y:g}L{x:g} {y + cell:g}L{x + cell:g} {y + cell:g}Z'
                figure.add('path', d=path, **d.painted(d.TINT[k], d.SOLID[k], 1))
    figure.hint(left - 8, 116, 'piece', anchor='end')
    figure.hint(left - 8, top + 128, 'queries', anchor='end')
    figure.hint(left + 128, top + 270, 'keys')
    figure.rect(left, top, 256, 256, 'none', d.DATA_EDGE, r=0, width=1)
    for k, share in enumerate(shares):
        place = left + 128 + 30, top + 22 + 20 * k
        figure.small(*place, f'rank {k}: {share}', fill=d.SHADE[k], bold=True, anchor='start')


table(88, (0, 1, 2, 3), 'four pieces, in order', ('1/16', '3/16', '5/16', '7/16'))
table(446, (0, 1, 2, 3, 3, 2, 1, 0), 'eight pieces, in zig-zag', ('1/4',) * 4)
