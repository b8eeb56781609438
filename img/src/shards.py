"""Which examples of an epoch each rank takes.

In an epoch, all examples are taken in an order that depends on the seed and the epoch and is the
same on all ranks. Here there are 20 examples, split into steps of 8, 8 and 4. Each step is split
into shards for three ranks: 3, 3 and 2 examples, and in the last step 2, 1 and 1.

The order is the same on all ranks, and each step is split separately, so no example is lost or
counted twice, and a step holds the same examples for any number of ranks.
"""

import draw as d
import numpy as np

figure = d.Figure(364, __doc__, 'One order, steps, shards')

LEFT, CELL, HIGH, GAP, TOP = 92, 29, 30, 26, 92
ORDER = np.random.default_rng([0, 0]).permutation(20)
STEPS = np.split(ORDER, [8, 16])
figure.name(d.MARGIN, TOP + HIGH / 2, 'order')
x = LEFT
for number, step in enumerate(STEPS, 1):
    wide = CELL * len(step)
    figure.small(x + wide / 2, TOP - 16, f'step {number}')
    for i, example in enumerate(step):
        figure.data(x + CELL * i, TOP, CELL, HIGH, str(example), size=d.SMALL)
    begin = x
    for rank, shard in enumerate(np.array_split(step, 3)):
        y = TOP + 54 + 42 * rank
        if number == 1:
            figure.name(d.MARGIN, y + HIGH / 2, f'rank {rank}', rank)
        for i, example in enumerate(shard):
            figure.part(begin + CELL * i, y, CELL, HIGH, rank, str(example), size=d.SMALL)
        begin += CELL * len(shard)
    x += wide + GAP
