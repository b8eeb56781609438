"""Two linear layers, split by columns and by rows.

Above: X times W. Each of two ranks has all of X and half of the columns of W, and computes half
of the columns of H. Below: H times V. Each rank has half of the columns of H and the matching half
of the rows of V; their products are two full-size matrices, Y0 and Y1, whose sum is Y. Only this
sum needs communication.

Blue is on rank 0, yellow on rank 1, grey on both. An elementwise function, such as GELU, can
be applied between the two layers: each rank applies it to its part of H.
"""

import draw as d

figure = d.Figure(512, __doc__, 'By columns, then by rows: one sum for two layers')


def halves(x, y, w, h, name, across):
    """Draw a matrix whose first half is on rank 0 and whose second half is on rank 1."""
    for k in range(2):
        dx, dy = (w / 2, 0) if across else (0, h / 2)
        box = x + k * dx, y + k * dy, w - dx, h - dy
        figure.part(*box, k, f'{name}_{k}', size=d.LARGE)


ROW = 140
figure.text(d.MARGIN, 76, 'first layer: each rank has some columns', fill=d.MUTED)
figure.data(60, ROW - 44, 84, 88, 'X', size=d.LARGE)
figure.label(167, ROW, '×', size=20)
halves(190, ROW - 42, 176, 84, 'W', across=True)
figure.label(389, ROW, '=', size=20)
halves(412, ROW - 44, 176, 88, 'H', across=True)
figure.small(668, ROW - 10, 'nothing is sent:')
figure.small(668, ROW + 10, 'X is on both ranks')

ROW = 334
figure.text(d.MARGIN, 232, 'second layer: each rank has the matching rows', fill=d.MUTED)
halves(40, ROW - 44, 176, 88, 'H', across=True)
figure.label(237, ROW, '×', size=20)
halves(258, ROW - 88, 84, 176, 'V', across=False)
figure.label(363, ROW, '=', size=20)
for k in range(2):
    x = 384 + k * 112
    figure.part(x, ROW - 44, 84, 88, k, f'Y_{k}', size=d.LARGE)
figure.label(482, ROW, '+', size=20)
figure.bar(596, ROW - 60, 20, 120, r=6)
figure.small(606, ROW + 76, 'allreduce')
figure.arrow((582, ROW), (594, ROW))
figure.arrow((618, ROW), (640, ROW))
figure.data(642, ROW - 44, 84, 88, 'Y', size=d.LARGE)
