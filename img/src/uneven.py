"""Shards of three and two examples: the mean of the means, and the mean.

Rank 0 has the losses 1, 2, 3, rank 1 the losses 4, 5. A: each rank takes the mean of its losses, 2
and 4.5; the mean over the ranks is 3.25. B: each rank takes its sum times 2 ranks over 5 examples,
6 times 2/5 = 2.4 and 9 times 2/5 = 3.6; the mean over the ranks is 3, that of all five losses.

In A, each example of rank 1 has a weight of 1/4, and each of rank 0 only 1/6.
In B, each has 1/5.
"""

import draw as d

LOSSES = (1, 2, 3), (4, 5)
LEFT, CELL, HIGH, BOX, BOX_W, BAR, BAR_W = 100, 40, 34, 266, 196, 552, 184

figure = d.Figure(392, __doc__)


def case(y, letter, name, each, mean):
    """Draw both ranks' losses, what each rank makes of them, and the mean over the ranks."""
    figure.case(y, letter, name)
    middle = y + 78
    for k, losses in enumerate(LOSSES):
        row = middle + (-26, 26)[k]
        figure.name(d.MARGIN, row, f'rank {k}', k)
        for i, loss in enumerate(losses):
            figure.part(LEFT + CELL * i, row - HIGH / 2, CELL, HIGH, k, str(loss))
        figure.arrow((LEFT + CELL * len(losses) + 4, row), (BOX, row))
        figure.box(BOX, row - HIGH / 2, BOX_W, HIGH, each[k], k=k)
        figure.curve((BOX + BOX_W, row), (BAR, middle + (-8, 8)[k]))
    figure.bar(BAR, middle - 24, BAR_W, 48, 'mean over the ranks', mean)


ours = 'sum 6, times 2/5: 2.4', 'sum 9, times 2/5: 3.6'
case(37, 'A', 'The mean of the means: 3.25', ('mean 2', 'mean 4.5'), '3.25')
case(187, 'B', 'The mean over all five: 3', ours, '3')
