"""Two linear layers, cut by columns and by rows.

Above: X times W1. Each of two ranks has all of X and half of the columns of W1, and computes half
of the columns of H. Below: H times W2. Each rank has half of the columns of H and the matching half
of the rows of W2; their products are two whole matrices, Y0 and Y1, whose sum is Y. That sum is the
only thing that is sent.

Blue is on rank 0, yellow on rank 1, grey on both. A function of each number by itself, such
as GELU, can stand between the two layers: each rank applies it to its part of H.
"""

import draw as d

figure = d.Figure(512, __doc__)


def halves(x, y, w, h, name, across):
    """Draw a matrix of which rank 0 has the first half, rank 1 the second."""
    for k in range(2):
        dx, dy = (w / 2, 0) if across else (0, h / 2)
        figure.part(x + k * dx, y + k * dy, w - dx, h - dy, k)
        centre = x + k * dx + (w - dx) / 2, y + k * dy + (h - dy) / 2
        figure.label(*centre, f'{name}_{k}', size=d.LARGE)


def sign(x, y, text):
    figure.label(x, y, text, size=20)


figure.headline('By columns, then by rows: one sum for two layers')

ROW = 140
figure.text(d.MARGIN, 76, 'first layer: each rank has some columns', fill=d.MUTED)
figure.rect(60, ROW - 44, 84, 88, d.DATA, d.DATA_EDGE, r=0)
figure.label(102, ROW, 'X', size=d.LARGE)
sign(167, ROW, '×')
halves(190, ROW - 42, 176, 84, 'W', across=True)
sign(389, ROW, '=')
halves(412, ROW - 44, 176, 88, 'H', across=True)
figure.small(668, ROW - 10, 'nothing is sent:')
figure.small(668, ROW + 10, 'X is on both ranks')

ROW = 334
figure.text(d.MARGIN, 232, 'second layer: each rank has the matching rows', fill=d.MUTED)
halves(40, ROW - 44, 176, 88, 'H', across=True)
sign(237, ROW, '×')
halves(258, ROW - 88, 84, 176, 'V', across=False)
sign(363, ROW, '=')
for k in range(2):
    x = 384 + k * 112
    figure.part(x, ROW - 44, 84, 88, k)
    figure.label(x + 42, ROW, f'Y_{k}', size=d.LARGE)
sign(482, ROW, '+')
figure.rect(596, ROW - 60, 20, 120, d.LINE, None, r=6)
figure.small(606, ROW + 76, 'allreduce')
figure.arrow((582, ROW), (594, ROW))
figure.arrow((618, ROW), (640, ROW))
figure.rect(642, ROW - 44, 84, 88, d.DATA, d.DATA_EDGE, r=0)
figure.label(684, ROW, 'Y', size=d.LARGE)
