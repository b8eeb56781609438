"""A rank is killed, and all ranks resume from the checkpoint.

Schematic, from left to right in time. Rank 0 and rank 1 take steps 1, 2 and 3; after step 2 both
write a checkpoint. Before step 4 rank 1 is killed, and rank 0 waits in that step's allreduce;
torchrun ends it as well and restarts both. They load the checkpoint, agree that it is the same, and
take steps 3, 4 and 5.

Step 3 is taken twice, the second time with the same examples, the same random numbers and
the same optimizer state. So the result is that of an uninterrupted run.
"""

import draw as d

figure = d.Figure(336, __doc__, 'Killed before step 4, continued from step 2')

LEFT, STEP, HIGH = 92, 54, 36
ROWS = (86, 196)
FILE = 159  # the y of the checkpoint, between the lanes
AGAIN = LEFT + 4 * STEP + 112  # where the restarted run begins
for k, y in enumerate(ROWS):
    figure.name(d.MARGIN, y + HIGH / 2, f'rank {k}', k)
    for i in range(3):
        figure.box(LEFT + i * STEP, y, STEP - 8, HIGH, str(i + 1), k=k)
    figure.box(AGAIN, y, 84, HIGH, 'load, agree', k=k, size=d.SMALL)
    for i in range(3):
        figure.box(AGAIN + 92 + i * STEP, y, STEP - 8, HIGH, str(i + 3), k=k)
figure.data(LEFT + 78, FILE - 15, 104, 30, 'checkpoint 2', size=d.SMALL)
saved = LEFT + 2 * STEP - 4
figure.arrow((saved, ROWS[0] + HIGH + 2), (saved, FILE - 15))
figure.arrow((saved, ROWS[1] - 2), (saved, FILE + 15))
figure.arrow((LEFT + 182, FILE), (AGAIN + 42, FILE), (AGAIN + 42, ROWS[0] + HIGH))
figure.arrow((LEFT + 182, FILE), (AGAIN + 42, FILE), (AGAIN + 42, ROWS[1]))
figure.idle(LEFT + 3 * STEP, ROWS[0], STEP - 8, HIGH)
figure.hint(LEFT + 3 * STEP + (STEP - 8) / 2, ROWS[0] + HIGH / 2, '4')
figure.hint(LEFT + 4 * STEP + 6, ROWS[0] + HIGH / 2, 'waits, ended', anchor='start')
figure.cross(LEFT + 3 * STEP + (STEP - 8) / 2, ROWS[1] + HIGH / 2)
figure.small(LEFT + 4 * STEP - 8, ROWS[1] + HIGH / 2, 'killed', anchor='start')
