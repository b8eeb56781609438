"""DistributedSampler deals shuffled examples to two ranks in turn, like cards.

Eight examples in the shuffled order 5 2 7 0 3 6 1 4. Rank 0 gets 5, 7, 3, 1 and rank 1 gets 2, 0,
6, 4. With batches of two, the first step takes 5 and 7 on rank 0, 2 and 0 on rank 1: together the
first four of the order. The second step takes 3 and 1 on rank 0, 6 and 4 on rank 1.

In each step, two ranks with batches of 2 take the same 4 examples as one process with
a batch of 4. The order is the same on all ranks, and another one in the next epoch.
"""

import draw as d

ORDER, STEP = (5, 2, 7, 0, 3, 6, 1, 4), 4
CELL, HIGH, GAP, LEFT, TOP = 72, 34, 32, 110, 88

figure = d.Figure(304, __doc__, 'Shuffled, then dealt like cards')
figure.name(d.MARGIN, TOP + HIGH / 2, 'order')
for k in range(2):
    figure.name(d.MARGIN, TOP + 56 + 50 * k + HIGH / 2, f'rank {k}', k)
for i, example in enumerate(ORDER):
    x, k = LEFT + CELL * i + GAP * (i // STEP), i % 2
    y = TOP + 56 + 50 * k
    if i % STEP == 0:
        figure.small(x + STEP * CELL / 2, TOP - 16, f'step {i // STEP + 1}')
    figure.data(x, TOP, CELL, HIGH, str(example))
    figure.arrow((x + CELL / 2, TOP + HIGH), (x + CELL / 2, y))
    figure.part(x + 8, y, CELL - 16, HIGH, k, str(example))
