"""A rank is killed, and all ranks resume from the checkpoint.

Schematic, from left to right in time. Ranks 0, 1 and 2 take steps 1, 2 and 3; after step 2 all
write a checkpoint. Before step 4 rank 1 is killed, and ranks 0 and 2 wait in that step's allreduce;
torchrun ends them as well and restarts all three. They load the checkpoint, and take steps 3, 4 and
5.

Step 3 is taken twice, the second time with the same examples, the same random numbers and
the same optimizer state. So the result is that of an uninterrupted run.
"""

import draw as d

figure = d.Figure(360, __doc__, 'Killed before step 4, continued from step 2')

LEFT, STEP, HIGH = 92, 54, 36
ROWS = (124, 178, 232)
FILE = 68  # the top of the checkpoint, above the lanes
AGAIN = LEFT + 4 * STEP + 112  # where the restarted run begins
for k, y in enumerate(ROWS):
    figure.name(d.MARGIN, y + HIGH / 2, f'rank {k}', k)
    for i in range(3):
        figure.box(LEFT + i * STEP, y, STEP - 8, HIGH, str(i + 1), k=k)
    figure.box(AGAIN, y, 84, HIGH, 'load', k=k, size=d.SMALL)
    for i in range(3):
        figure.box(AGAIN + 92 + i * STEP, y, STEP - 8, HIGH, str(i + 3), k=k)
    middle = LEFT + 3 * STEP + (STEP - 8) / 2, y + HIGH / 2
    if k == 1:
        figure.cross(*middle)
        figure.small(LEFT + 4 * STEP + 6, middle[1], 'killed', anchor='start')
    else:
        figure.idle(LEFT + 3 * STEP, y, STEP - 8, HIGH)
        figure.hint(*middle, '4')
        figure.hint(LEFT + 4 * STEP + 6, middle[1], 'waits, ended', anchor='start')
saved = LEFT + 2 * STEP - 4
figure.data(saved - 52, FILE, 104, 30, 'checkpoint 2', size=d.SMALL)
figure.arrow((saved, ROWS[-1] + HIGH + 2), (saved, FILE + 30))
figure.arrow((saved + 52, FILE + 15), (AGAIN + 42, FILE + 15), (AGAIN + 42, ROWS[0] - 2))
