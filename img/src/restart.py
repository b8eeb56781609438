"""A rank is killed, and all go on from the checkpoint.

Schematic, from left to right in time. Rank 0 and rank 1 take steps 1, 2, 3 and 4; after step 2 rank
0 saves a checkpoint. In step 4 rank 1 is killed; torchrun ends rank 0 as well and starts both anew.
They load the checkpoint, agree that it is the same, and take steps 3, 4 and 5. Steps 3 and 4 are
done twice, with the same examples and the same random numbers.

Steps 3 and 4 are taken twice, and the second time with the same examples, the same random
numbers and the same state of the optimizer. So the end is that of a run that nobody killed.
"""

import draw as d

figure = d.Figure(336, __doc__, 'Killed in step 4, continued from step 2')

LEFT, STEP, HIGH = 92, 54, 36
ROWS = (86, 196)
FILE = 159  # the height between the lanes at which the checkpoint lies
AGAIN = LEFT + 4 * STEP + 112  # where the second life begins
for k, y in enumerate(ROWS):
    figure.name(d.MARGIN, y + HIGH / 2, f'rank {k}', k)
    for i in range(4):
        figure.box(LEFT + i * STEP, y, STEP - 8, HIGH, str(i + 1), k=k)
    figure.box(AGAIN, y, 84, HIGH, 'load, agree', k=k, size=d.SMALL)
    for i in range(3):
        figure.box(AGAIN + 92 + i * STEP, y, STEP - 8, HIGH, str(i + 3), k=k)
figure.data(LEFT + 78, FILE - 15, 104, 30, 'checkpoint 2', size=d.SMALL)
figure.arrow((LEFT + 2 * STEP - 4, ROWS[0] + HIGH + 2), (LEFT + 2 * STEP - 4, FILE - 15))
figure.arrow((LEFT + 182, FILE), (AGAIN + 42, FILE), (AGAIN + 42, ROWS[0] + HIGH))
figure.arrow((LEFT + 182, FILE), (AGAIN + 42, FILE), (AGAIN + 42, ROWS[1]))
figure.cross(LEFT + 4 * STEP + 8, ROWS[1] + HIGH / 2)
figure.small(LEFT + 4 * STEP + 24, ROWS[1] + HIGH / 2, 'killed', anchor='start')
figure.hint(LEFT + 4 * STEP + 6, ROWS[0] + HIGH / 2, 'told to end', anchor='start')
